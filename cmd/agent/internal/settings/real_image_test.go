//go:build postgres

package settings_test

import (
	"errors"
	"os"
	"testing"

	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/pgtest"
)

func TestMain(m *testing.M) {
	if os.Geteuid() == 0 { // PostgreSQL refuses root
		os.Exit(pgtest.AsPostgres())
	}
	os.Exit(m.Run())
}

func TestWhatTheProgramsCanDoIsFoundWithoutAServer(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		s := pgtest.Init(t, pgtest.Options{Major: pg.Major})
		found := settings.Inspect(t.Context(), postgres.Exec, pg.BinDir, s.DataDir)
		if !found.Statements || found.LZ4 != (pg.Major >= 15) {
			t.Errorf("%+v", found)
		}
		if err := os.Remove(s.DataDir + "/postmaster.pid"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("something ran on the data: %v", err)
		}
		if nothing := settings.Inspect(t.Context(), postgres.Exec, t.TempDir(), s.DataDir); nothing != (settings.Image{}) {
			t.Errorf("of a folder without programs: %+v", nothing)
		}
	})
}
