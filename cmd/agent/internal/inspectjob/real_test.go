//go:build postgres

package inspectjob

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// volumeOf has the files of a server as data generation g1.
func volumeOf(t *testing.T, server *pgtest.Server, pg pgtest.Installation) Worker {
	t.Helper()
	w := Worker{Volume: generation.Volume(t.TempDir()), Run: postgres.Exec}
	control, err := postgres.ReadControlData(t.Context(), postgres.Exec, pg.BinDir, server.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	pgdata, err := w.Volume.Begin("g1")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(pgdata, os.DirFS(server.DataDir)); err != nil {
		t.Fatal(err)
	}
	g := generation.Generation{ID: "g1", SystemIdentifier: strconv.FormatUint(control.SystemIdentifier, 10), MajorVersion: pg.Major, Origin: generation.Initdb}
	if err := w.Volume.Complete(g); err != nil {
		t.Fatal(err)
	}
	if err := w.Volume.Adopt("g1"); err != nil {
		t.Fatal(err)
	}
	return w
}

func TestAnInspectionTellsACleanPrimaryFromACrashedOneAndFromDamage(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		server := pgtest.Start(t, pgtest.Options{Major: pg.Major})
		server.SQL("CREATE TABLE t AS SELECT generate_series(1, 1000) AS n")
		server.Stop()
		task := agentapi.InspectionJob{Identity: "u1", DataGeneration: "g1", MajorVersion: pg.Major}
		look := func(w Worker) agentapi.VolumeInspection {
			t.Helper()
			found, err := w.Inspect(t.Context(), task)
			if err != nil {
				t.Fatal(err)
			}
			return found
		}
		w := volumeOf(t, server, pg)
		clean := look(w)
		if !clean.Primary || clean.State != "shut down" || clean.Unusable != "" || clean.MajorVersion != pg.Major || clean.Timeline != 1 || clean.Position.LSN == 0 {
			t.Errorf("clean: %+v", clean)
		}
		server.Start()
		server.SQL("INSERT INTO t VALUES (0)")
		server.Kill()
		if crashed := look(volumeOf(t, server, pg)); !crashed.Primary || crashed.Unusable != "" || crashed.State != "in production" || crashed.Position.Before(clean.Position) {
			t.Errorf("crashed: %+v", crashed)
		}

		pgdata := w.Volume.PGData("g1")
		write := func(name, content string) {
			t.Helper()
			if err := os.WriteFile(filepath.Join(pgdata, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("pg_wal/00000005.history", "")
		write("standby.signal", "")
		if replica := look(w); replica.Primary || replica.Timeline != 5 {
			t.Errorf("a former primary that was to follow: %+v", replica)
		}
		if err := w.Volume.Accept(generation.Adoption{ClusterUID: "u1", Number: 1, DataGeneration: "g2"}); err != nil {
			t.Fatal(err)
		}
		if replaced := look(w); replaced.DataGeneration != "g2" || replaced.Adoptions != 1 || !strings.Contains(replaced.Unusable, "no complete copy of data generation g2") {
			t.Errorf("replaced data: %+v", replaced)
		}
		task.Identity = "u2" // the volume was another cluster's
		if err := os.RemoveAll(filepath.Join(pgdata, "pg_wal")); err != nil {
			t.Fatal(err)
		}
		if found := look(w); !strings.Contains(found.Unusable, "is missing") {
			t.Errorf("without WAL: %+v", found)
		}
		write("global/pg_control", "torn")
		if found := look(w); !strings.Contains(found.Unusable, "pg_control can't be read") {
			t.Errorf("without a control file: %+v", found)
		}
		if err := w.Volume.BeginRewind("g1"); err != nil {
			t.Fatal(err)
		}
		if found := look(w); !strings.Contains(found.Unusable, "was being rewound") {
			t.Errorf("half rewound: %+v", found)
		}
	})
}

func TestDataOfAnotherVersionIsNotReadFurther(t *testing.T) {
	w := Worker{Volume: generation.Volume(t.TempDir()), Run: postgres.Exec}
	if _, err := w.Volume.Begin("g1"); err != nil {
		t.Fatal(err)
	}
	task := agentapi.InspectionJob{Identity: "u1", DataGeneration: "g1", MajorVersion: 17}
	if found, err := w.Inspect(t.Context(), task); err != nil || found.Unusable == "" {
		t.Errorf("half a data generation: %+v, %v", found, err)
	}
	if err := w.Volume.Complete(generation.Generation{ID: "g1", SystemIdentifier: "7", MajorVersion: 15}); err != nil {
		t.Fatal(err)
	}
	if found, err := w.Inspect(t.Context(), task); err != nil || found.MajorVersion != 15 || found.State != "" || found.Unusable != "" {
		t.Errorf("%+v, %v", found, err)
	}
	task.Identity = ""
	if _, err := w.Inspect(t.Context(), task); err == nil {
		t.Error("a job that names no cluster was done")
	}
}
