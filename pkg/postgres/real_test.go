//go:build postgres

package postgres_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/pgtest"
)

func TestControlDataOfEachInstalledMajorIsRead(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		s := pgtest.Start(t, pgtest.Options{Major: pg.Major, InitArgs: []string{"--wal-segsize=1"}})
		running, err := postgres.ReadControlData(t.Context(), postgres.Exec, pg.BinDir, s.DataDir)
		if err != nil || running.State != postgres.StateInProduction || running.State.Clean() {
			t.Errorf("running: %+v, %v", running, err)
		}
		s.Stop()
		stopped, err := postgres.ReadControlData(t.Context(), postgres.Exec, pg.BinDir, s.DataDir)
		if err != nil || stopped.State != postgres.StateShutDown || stopped.SegSize != 1<<20 || !stopped.Checksums() {
			t.Errorf("stopped: %+v, %v", stopped, err)
		}
		if age := time.Since(stopped.Modified); age < 0 || age > time.Hour {
			t.Errorf("it was modified %v ago", age)
		}
		if stopped.SystemIdentifier == 0 || stopped.SystemIdentifier != running.SystemIdentifier {
			t.Errorf("system identifiers %d and %d", running.SystemIdentifier, stopped.SystemIdentifier)
		}
		file := filepath.Join(s.DataDir, "pg_wal", stopped.RedoSegment)
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	})
}

// Every page of every relation of a stopped server must pass; that is also what pg_checksums --check says.
func TestEveryPageOfARealServerPassesTheCheck(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		s := pgtest.Start(t, pgtest.Options{Major: pg.Major})
		s.SQL("CREATE TABLE t AS SELECT g, repeat('x', g % 500) FROM generate_series(1, 20000) g; CREATE INDEX ON t (g)")
		s.Stop()
		files, err := filepath.Glob(filepath.Join(s.DataDir, "base", "*", "[1-9]*"))
		if err != nil {
			t.Fatal(err)
		}
		pages := 0
		for _, file := range files {
			pages += checkFile(t, file)
		}
		if pages < 1000 {
			t.Errorf("only %d pages were found", pages)
		}
	})
}

func checkFile(t *testing.T, path string) int {
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n := len(content) / postgres.PageSize
	for i := range n {
		page := content[i*postgres.PageSize:][:postgres.PageSize]
		if ok, lsn, isNew := postgres.CheckPage(page, uint32(i)); !ok {
			t.Errorf("%s, block %d, last changed at %v, new: %v", path, i, lsn, isNew)
		}
	}
	return n
}
