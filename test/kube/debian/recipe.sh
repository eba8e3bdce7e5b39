# Builds the root filesystem of a PostgreSQL image from Debian packages, as layer.tar in the current folder.
#
# It runs as the first process of mount and PID namespaces of its own: whatever it leaves dies with it.
# Given: SUITE (release), MAJOR (PostgreSQL), MIRROR (address), SCRIPT (of debootstrap), KEYRING (file, may be empty).
set -eu

root=$PWD/root
say() { printf '%s\n' "$*" >&3; }

say "base system of $SUITE"
debootstrap --variant=minbase ${KEYRING:+--keyring="$KEYRING"} "$SUITE" "$root" "$MIRROR" "$SCRIPT"

# Nothing in the image is read by people, nothing is worth a flush to disk, no service may start while it is built.
cat >"$root/etc/dpkg/dpkg.cfg.d/image" <<'END'
force-unsafe-io
path-exclude /usr/share/doc/*
path-exclude /usr/share/man/*
path-exclude /usr/share/info/*
path-exclude /usr/share/locale/*/LC_MESSAGES/*
END
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
cp /etc/resolv.conf "$root/etc/resolv.conf"
mount -t proc proc "$root/proc"

run() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C DEBIAN_FRONTEND=noninteractive \
	${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} "$@"; }

# The numbers are those of the official image: volumes written by one are read by the other.
run groupadd --system --gid 999 postgres
run useradd --system --gid 999 --uid 999 --home-dir /var/lib/postgresql --shell /bin/bash postgres

say "PostgreSQL $MAJOR"
mkdir -p "$root/etc/postgresql-common"
echo 'create_main_cluster = false' >"$root/etc/postgresql-common/createcluster.conf"
# A mirror that stands still, or a clock that runs ahead, is no reason to build nothing.
run apt-get -q -o Acquire::Check-Valid-Until=false update
packages="postgresql-$MAJOR postgresql-client-$MAJOR locales tzdata ca-certificates"
if run apt-cache show "postgresql-$MAJOR-pgvector" >/dev/null 2>&1; then
	packages="$packages postgresql-$MAJOR-pgvector"
fi
run apt-get -q -y install --no-install-recommends $packages
run localedef -i en_US -c -f UTF-8 en_US.UTF-8

say "cleaning up"
umount "$root/proc"
# LLVM is a third of the image, and PostgreSQL does without JIT when its provider is not there.
find "$root" -xdev \( -name 'libLLVM*' -o -name 'llvmjit*' -o -name 'libclang*' -o -name 'libz3.so*' \) -delete
rm -rf "$root/usr/lib/postgresql/$MAJOR/lib/bitcode" \
	"$root"/var/lib/apt/lists/* "$root"/var/cache/apt/* "$root"/var/cache/debconf/*-old "$root"/var/log/* \
	"$root"/usr/share/doc/* "$root"/usr/share/man/* "$root"/usr/share/info/* "$root"/usr/share/postgresql/*/man \
	"$root"/usr/share/i18n "$root"/usr/share/locale/* \
	"$root"/tmp/* "$root/usr/sbin/policy-rc.d" "$root/etc/resolv.conf" "$root/etc/hostname" \
	"$root/etc/ssl/private/ssl-cert-snakeoil.key"
rm -rf "$root"/dev/*
install -d -m 3777 -o 999 -g 999 "$root/run/postgresql"
install -d -m 1777 -o 999 -g 999 "$root/var/lib/postgresql" "$root/var/lib/postgresql/data"

chroot "$root" "/usr/lib/postgresql/$MAJOR/bin/postgres" --version >&3

say "packing"
tar --create --file=layer.tar --numeric-owner --sort=name --one-file-system --directory="$root" .
rm -rf "$root"
