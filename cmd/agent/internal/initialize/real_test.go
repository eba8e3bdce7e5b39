//go:build postgres

package initialize

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/pgtest"
)

func TestMain(m *testing.M) {
	if os.Geteuid() == 0 { // PostgreSQL refuses root
		os.Exit(pgtest.AsPostgres())
	}
	os.Exit(m.Run())
}

func TestNoServerOnInitdbsConfigurationUsesHugePages(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		w := Worker{Volume: generation.Volume(t.TempDir()), Run: postgres.Exec, Now: time.Now}
		if _, err := w.Init(t.Context(), agentapi.InitJob{DataGeneration: "g1", MajorVersion: pg.Major}); err != nil {
			t.Fatal(err)
		}
		conf, err := os.ReadFile(filepath.Join(w.Volume.PGData("g1"), "postgresql.conf"))
		if err != nil || !regexp.MustCompile(`(?m)^huge_pages ?= ?off`).Match(conf) {
			t.Errorf("%v; %s", err, conf)
		}
		out, err := postgres.Exec(t.Context(), filepath.Join(pg.BinDir, "postgres"), "-D", w.Volume.PGData("g1"), "-C", "huge_pages")
		if err != nil || string(out) != "off\n" {
			t.Errorf("huge_pages is %s; %v", out, err)
		}
	})
}
