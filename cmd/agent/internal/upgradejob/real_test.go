//go:build postgres

package upgradejob

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/pgtest"
)

func TestMain(m *testing.M) {
	if os.Geteuid() == 0 { // PostgreSQL refuses root
		os.Exit(pgtest.AsPostgres())
	}
	os.Exit(m.Run())
}

// TestAnOldServerWithLogicalSlotsStartsForPgUpgrade has more of them than initdb's configuration allows, which has wal_level=replica,
// too: the configuration of a cluster is not in its data directory.
func TestAnOldServerWithLogicalSlotsStartsForPgUpgrade(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		dir, err := os.MkdirTemp("/tmp", "up") // the path of a socket has to be short
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		oldData, newData := filepath.Join(dir, "old"), filepath.Join(dir, "new")
		run := func(program string, args ...string) {
			t.Helper()
			if out, err := postgres.Exec(t.Context(), filepath.Join(pg.BinDir, program), args...); err != nil {
				t.Fatalf("%s: %v: %s", program, err, out)
			}
		}
		run("initdb", scratchArguments(oldData)...)
		run("initdb", scratchArguments(newData)...)
		run("pg_ctl", "-D", oldData, "-w", "-l", filepath.Join(dir, "log"), "-o",
			"-c wal_level=logical -c max_replication_slots=20 -c listen_addresses='' -c unix_socket_directories="+dir, "start")
		run("psql", "-h", dir, "-U", "postgres", "-c", pgtest.Unkind(pg.Major, "postgres", "template1")+"ALTER ROLE postgres SET statement_timeout = '1ms'")
		pinned := "user=postgres options=" + postgres.QuoteConnInfo(postgres.SessionOptions(postgres.SessionSettings(pg.Major)))
		for i := range 15 { // last: from 17 on, pg_upgrade wants slots that lack nothing
			run("psql", "-h", dir, "-d", pinned, "-c", fmt.Sprintf("SELECT pg_create_logical_replication_slot('s%d', 'pgoutput')", i))
		}
		run("pg_ctl", "-D", oldData, "-w", "stop")
		w := Worker{Scratch: dir, Run: postgres.Exec, Report: func(job.Progress) {}}
		if err := w.pgUpgrade(t.Context(), phaseUpgrading, programs{oldBin: pg.BinDir, newBin: pg.BinDir}, oldData, newData); err != nil {
			t.Error(err)
		}
		if err := w.startAndStop(t.Context(), pg.BinDir, oldData); err != nil {
			t.Errorf("as after a crash: %v", err)
		}
	})
}
