//go:build postgres

package pgtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

func TestEveryInstalledServerStartsStopsAndStartsAgain(t *testing.T) {
	Each(t, func(t *testing.T, pg Installation) {
		s := Start(t, Options{Major: pg.Major, Params: map[string]string{"work_mem": "5MB"}})
		if got := s.SQL("SHOW work_mem"); got != "5MB" {
			t.Errorf("work_mem is %q", got)
		}
		s.SQL("CREATE TABLE t AS SELECT 1 AS i")
		s.Kill()
		s.Start()
		if got := s.SQL("SELECT i FROM t"); got != "1" {
			t.Errorf("after a crash t holds %q", got)
		}
		s.Stop()
		if _, err := os.Stat(s.DataDir + "/postmaster.pid"); !os.IsNotExist(err) {
			t.Errorf("after a shutdown: %v", err)
		}
	})
}

// Tests tell databases apart by it, as Howdah does.
func TestEachServerHasASystemIdentifierOfItsOwn(t *testing.T) {
	Each(t, func(t *testing.T, pg Installation) {
		seen := map[string]bool{}
		for range 3 {
			s := Start(t, Options{Major: pg.Major})
			seen[s.SQL("SELECT system_identifier FROM pg_control_system()")] = true
		}
		if len(seen) != 3 {
			t.Errorf("three servers have %v", seen)
		}
	})
}

// The same server may lie in an image, whose user postgres has another number. Its tests share this machine's folder of temporary files.
func TestATemplateIsUsedForItsOwnerOnly(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to somebody else")
	}
	t.Setenv("TMPDIR", Dir(t))
	pg := choose(t, 0)
	initdb := filepath.Join(pg.BinDir, "initdb")
	const one, another = 54321, 54322
	for _, owner := range []int{one, another, one} {
		dataDir := filepath.Join(Dir(t), "pgdata")
		err := initialize(dataDir, initdb, []string{"--no-sync"}, owner, func() error {
			made := filepath.Join(Dir(t), "pgdata")
			pg.Run(t, "initdb", "--no-sync", "--pgdata", made)
			return exec.Command("sh", "-c", `mv "$0" "$1" && chown -R "$2" "$1"`, made, dataDir, strconv.Itoa(owner)).Run()
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"", "PG_VERSION", "base/1/PG_VERSION"} {
			info, err := os.Stat(filepath.Join(dataDir, file))
			if err != nil {
				t.Fatal(err)
			}
			if got := int(info.Sys().(*syscall.Stat_t).Uid); got != owner {
				t.Errorf("the owner of %s is %d instead of %d", filepath.Join("pgdata", file), got, owner)
			}
		}
	}
}
