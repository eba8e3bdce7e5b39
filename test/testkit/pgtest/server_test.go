//go:build postgres

package pgtest

import (
	"os"
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
