# Builds the root filesystem of a PgBouncer image from Debian packages, as layer.tar in the current folder.
#
# It runs as the first process of mount and PID namespaces of its own: whatever it leaves dies with it.
# Given: SUITE (release), MIRROR (address), SCRIPT (of debootstrap), KEYRING (file, may be empty).
set -eu

root=$PWD/root
say() { printf '%s\n' "$*" >&3; }

say "base system of $SUITE"
debootstrap --variant=minbase ${KEYRING:+--keyring="$KEYRING"} "$SUITE" "$root" "$MIRROR" "$SCRIPT"

cat >"$root/etc/dpkg/dpkg.cfg.d/image" <<'CFG'
force-unsafe-io
path-exclude /usr/share/doc/*
path-exclude /usr/share/man/*
path-exclude /usr/share/info/*
path-exclude /usr/share/locale/*/LC_MESSAGES/*
CFG
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
cp /etc/resolv.conf "$root/etc/resolv.conf"
mount -t proc proc "$root/proc"

run() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C DEBIAN_FRONTEND=noninteractive \
	${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} "$@"; }

say "PgBouncer"
# A mirror that stands still, or a clock that runs ahead, is no reason to build nothing.
run apt-get -q -o Acquire::Check-Valid-Until=false update
run apt-get -q -y install --no-install-recommends pgbouncer ca-certificates

say "cleaning up"
umount "$root/proc"
rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/* "$root"/var/cache/debconf/*-old "$root"/var/log/* \
	"$root"/usr/share/doc/* "$root"/usr/share/man/* "$root"/usr/share/info/* "$root"/usr/share/i18n "$root"/usr/share/locale/* \
	"$root"/tmp/* "$root/usr/sbin/policy-rc.d" "$root/etc/resolv.conf" "$root/etc/hostname"
rm -rf "$root"/dev/*

chroot "$root" /usr/sbin/pgbouncer --version >&3

say "packing"
tar --create --file=layer.tar --numeric-owner --sort=name --one-file-system --directory="$root" .
rm -rf "$root"
