//go:build postgres

package initialize

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
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

// made is the data directory that spec.initdb requests, with the server's answer to a question.
func made(t *testing.T, pg pgtest.Installation, wanted agentapi.Initdb) (answer func(sql string) string, err error) {
	t.Helper()
	w := Worker{Volume: generation.Volume(t.TempDir()), Run: postgres.Exec, Now: time.Now}
	if _, err := w.Init(t.Context(), agentapi.InitJob{DataGeneration: "g1", MajorVersion: pg.Major, Initdb: wanted}); err != nil {
		return nil, err
	}
	return func(sql string) string {
		t.Helper()
		out, err := postgres.Exec(t.Context(), "sh", "-c", `echo "$1" | "$2"/postgres --single -D "$3" template1`, "sh", sql, pg.BinDir, w.Volume.PGData("g1"))
		if err != nil {
			t.Fatal(err)
		}
		_, value, _ := strings.Cut(string(out), ` = "`)
		value, _, _ = strings.Cut(value, `"`)
		return value
	}, nil
}

const facts = `SELECT concat_ws(' ', pg_encoding_to_char(encoding), datlocprovider, datcollate, current_setting('wal_segment_size'), ` +
	`current_setting('data_checksums')) AS facts FROM pg_database WHERE datname = 'template1'`

func TestADataDirectoryIsWhatSpecSays(t *testing.T) {
	subset.OneIn(t, 3)
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		byDefault := "UTF8 c C.UTF-8 16MB on"
		if pg.Major >= 17 {
			byDefault = "UTF8 b C.UTF-8 16MB on"
		}
		for want, wanted := range map[string]agentapi.Initdb{
			byDefault:                {},
			"UTF8 c C.UTF-8 64MB on": {LocaleProvider: "libc", WALSegmentMiB: 64},
			"LATIN1 c C 1MB on":      {Encoding: "LATIN1", LocaleProvider: "libc", Locale: "C", WALSegmentMiB: 1},
			"UTF8 i C.UTF-8 16MB on": {LocaleProvider: "icu", Locale: "de-u-co-phonebk"},
		} {
			answer, err := made(t, pg, wanted)
			if err != nil {
				t.Errorf("%s: %v", want, err)
			} else if got := answer(strings.ReplaceAll(facts, "\n", " ")); got != want {
				t.Errorf("%+v: %q, want %q", wanted, got, want)
			}
		}
	})
}

func TestICURulesOrderTextFromVersion16On(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		if pg.Major < 16 {
			t.Skip("they are refused by the API server")
		}
		answer, err := made(t, pg, agentapi.Initdb{LocaleProvider: "icu", Locale: "und", ICURules: "&z < a"})
		if err != nil {
			t.Fatal(err)
		}
		if got := answer("SELECT 'a' > 'z' AS later"); got != "t" {
			t.Errorf("a after z: %q", got)
		}
	})
}

func TestALocaleThatTheImageLacksIsRefusedForGoodWithWhatToDo(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		for name, wanted := range map[string]agentapi.Initdb{
			"a locale of another image": {LocaleProvider: "libc", Locale: "xx_XX.UTF-8"},
			"one of another encoding":   {Encoding: "LATIN1", LocaleProvider: "libc", Locale: "C.UTF-8"},
		} {
			_, err := made(t, pg, wanted)
			if !isFinal(err) || !strings.Contains(err.Error(), "spec.bootstrap.initdb") || !strings.Contains(err.Error(), "set spec.image to") {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
