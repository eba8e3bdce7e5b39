//go:build postgres

package passwd

import (
	"context"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

// nameless is a user that no image knows, such as OpenShift gives to a namespace.
const nameless = 1000680000

// life is what programs of PostgreSQL do from the first to the last that look up their user: an empty database is created, serves
// and is upgraded. $1 has the programs, $2 is a folder, and $3, if any, is mounted as /etc/passwd.
const life = `set -eu
mount --make-rprivate /
[ -z "$3" ] || mount --bind "$3" /etc/passwd
exec setpriv --reuid=1000680000 --regid=0 --clear-groups env HOME=/nonexistent LC_ALL=C sh -euc '
	for name in old new; do "$1"/initdb -D "$2/$name" --username=postgres --auth=trust >/dev/null; done
	"$1"/pg_ctl -D "$2/old" -l "$2/log" -w -o "-c listen_addresses= -c unix_socket_directories=$2" start >/dev/null
	"$1"/psql -h "$2" -d postgres -Atc "SELECT current_user"
	"$1"/pg_ctl -D "$2/old" -w -m fast stop >/dev/null
	cd "$2"
	"$1"/pg_upgrade --check -U postgres -b "$1" -B "$1" -d "$2/old" -D "$2/new" -s "$2" | tail -n 1
' sh "$1" "$2"`

func live(t *testing.T, pg pgtest.Installation, passwd string) (output string, err error) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a file over /etc/passwd")
	}
	if known, err := user.LookupId("1000680000"); err == nil {
		t.Fatalf("this machine knows the user as %s", known.Username)
	}
	dir, err := os.MkdirTemp("", "passwd") // of a short path, for the socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chown(dir, nameless, 0); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.Background(), "sh", "-c", life, "sh", pg.BinDir, dir, passwd)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestPostgreSQLWorksAsAUserThatTheImageDoesNotKnow(t *testing.T) {
	subset.OneIn(t, 3)
	pgtest.OneVersionIsEnough(t)
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		file := filepath.Join(t.TempDir(), "passwd")
		if err := Write(file, nameless, 0); err != nil {
			t.Fatal(err)
		}
		if out, err := live(t, pg, file); err != nil || !strings.Contains(out, "postgres\n") || !strings.Contains(out, "*Clusters are compatible*") {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// TestPostgreSQLNeedsTheEntry: should it ever not, this package has no purpose any more.
func TestPostgreSQLNeedsTheEntry(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		if out, err := live(t, pg, ""); err == nil || !strings.Contains(out, "could not look up effective user ID 1000680000") {
			t.Errorf("%v\n%s", err, out)
		}
	})
}
