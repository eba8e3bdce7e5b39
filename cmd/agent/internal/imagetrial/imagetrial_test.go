//go:build postgres

package imagetrial

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"howdah.dev/howdah/cmd/agent/internal/job"
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

// TestAnImageIsRefusedWithASentenceBeforeAnInstanceRunsInIt: this machine is the image.
func TestAnImageIsRefusedWithASentenceBeforeAnInstanceRunsInIt(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	pg := pgtest.Installed(t)[0]
	server := pgtest.Init(t, pgtest.Options{Major: pg.Major})
	control, err := postgres.ReadControlData(t.Context(), postgres.Exec, pg.BinDir, server.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	other := Format(control)
	other.PageSize *= 2
	for name, row := range map[string]struct {
		task agentapi.ImageJob
		says string
	}{
		"fine":                             {agentapi.ImageJob{MajorVersion: pg.Major, Format: Format(control), PreloadLibraries: "pg_stat_statements, auto_explain"}, ""},
		"before the agent says its format": {agentapi.ImageJob{MajorVersion: pg.Major}, ""},
		"another version":                  {agentapi.ImageJob{MajorVersion: pg.Major + 1}, "PostgreSQL "},
		"the release that runs":            {agentapi.ImageJob{MajorVersion: pg.Major, NotBelow: pg.Version.String()}, ""},
		"an older release than runs":       {agentapi.ImageJob{MajorVersion: pg.Major, NotBelow: fmt.Sprintf("%d.%d", pg.Major, pg.Version.Minor+1)}, "which is newer"},
		"a library lacks":                  {agentapi.ImageJob{MajorVersion: pg.Major, PreloadLibraries: "it's, nowhere"}, "PostgreSQL doesn't start in it: "},
		"other data files":                 {agentapi.ImageJob{MajorVersion: pg.Major, Format: other}, "pages of 16384 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp("/tmp", "im") // the path of a socket has to be short
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			result, err := Worker{Scratch: dir, Run: postgres.Exec}.Try(t.Context(), row.task)
			var failure *job.Failure
			switch {
			case row.says == "" && (err != nil || result.Version != pg.Version.String()):
				t.Errorf("%+v: %v", result, err)
			case row.says != "" && (!errors.As(err, &failure) || !failure.Final || !strings.Contains(err.Error(), row.says)):
				t.Errorf("it says %v", err)
			case err != nil:
				t.Log(err)
			}
		})
	}
}
