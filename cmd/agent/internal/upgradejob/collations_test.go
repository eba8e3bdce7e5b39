//go:build postgres

package upgradejob

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

// ordered is a database whose indexes and partitions follow collations of an older ICU, one of today's, and one that no image has.
var ordered = []string{
	"CREATE COLLATION german (provider = icu, locale = 'de')",
	"CREATE COLLATION french (provider = icu, locale = 'fr')",
	"CREATE COLLATION gone (provider = libc, locale = 'C.UTF-8')",
	"CREATE COLLATION unused (provider = icu, locale = 'it')",
	"CREATE TABLE words (german text COLLATE german, french text COLLATE french, gone text COLLATE gone, plain text COLLATE \"C\")",
	"CREATE INDEX by_german ON words (german)",
	"CREATE INDEX by_expression ON words ((lower(plain) COLLATE german))",
	"CREATE INDEX by_french ON words (french)",
	"CREATE INDEX by_plain ON words (plain)",
	"CREATE TABLE ranges (word text COLLATE german) PARTITION BY RANGE (word)",
	"CREATE TABLE lists (word text COLLATE german) PARTITION BY LIST (word)",
	"UPDATE pg_collation SET collversion = '1' WHERE collname IN ('german', 'unused')",
}

func TestTheCheckNamesWhatTheNewImageSortsInAnotherOrder(t *testing.T) {
	subset.OnlyInFull(t)
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		server := pgtest.Start(t, pgtest.Options{Major: pg.Major})
		for _, statement := range ordered {
			server.SQL(statement)
		}
		server.SQL("CREATE DATABASE austrian TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C' LOCALE_PROVIDER icu ICU_LOCALE 'de-AT'")
		server.SQL("UPDATE pg_database SET datcollversion = '2' WHERE datname = 'austrian'")
		server.SQL("CREATE ROLE checker LOGIN IN ROLE pg_monitor, pg_read_all_data") // as the agent creates it
		config, err := pgx.ParseConfig(server.DSN())
		if err != nil {
			t.Fatal(err)
		}
		in := config.Copy()
		in.Database = "austrian"
		conn, err := pgx.ConnectConfig(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), "CREATE TABLE people (id int PRIMARY KEY, name text UNIQUE)"); err != nil {
			t.Fatal(err)
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		config.User = "checker"
		found := saidByCollations(t, pg.BinDir, config)
		for check, parts := range map[string][]string{
			"Warning CollationVersion postgres": {"that of public.german from 1 to ", "of 2 indexes: ", "public.by_german (", "public.by_expression ("},
			"Warning CollationVersion austrian": {"that of the database from 2 to ", "of 1 indexes: public.people_name_key ("},
			"Warning PartitionOrder postgres":   {"that of public.german from 1 to ", "in 1 tables", "range of text: ranges."},
		} {
			for _, part := range parts {
				if !strings.Contains(found[check], part) {
					t.Errorf("%s says %q, want %q", check, found[check], part)
				}
			}
		}
		if len(found) != 3 {
			t.Errorf("it found %q", found)
		}

		server.SQL("CREATE INDEX by_gone ON words (gone)")
		server.SQL("UPDATE pg_collation SET collcollate = 'xx_XX.ISO-8859-1', collversion = '1' WHERE collname = 'gone'")
		const missing = "Error LocaleMissing postgres"
		found = saidByCollations(t, pg.BinDir, config)
		if said := found[missing]; !strings.Contains(said, "public.gone follows the locale xx_XX.ISO-8859-1, which the new image doesn't have") || len(found) != 4 {
			t.Errorf("a locale that isn't there: %q", found)
		}
	})
}

// saidByCollations is what the check of collations says, by severity, check and database, where newBin has the programs of the new version.
func saidByCollations(t *testing.T, newBin string, config *pgx.ConnConfig) map[string]string {
	t.Helper()
	w := Worker{Scratch: shortDir(t), Run: postgres.Exec, Report: func(job.Progress) {}}
	newData := filepath.Join(w.Scratch, "new")
	if out, err := postgres.Exec(t.Context(), filepath.Join(newBin, "initdb"), scratchArguments(newData)...); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	findings, err := w.collations(t.Context(), programs{newBin: newBin}, newData, config)
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{}
	for _, f := range findings {
		said[f.Severity+" "+f.Check+" "+f.Database] += f.Message
	}
	return said
}

// TestTheCheckNamesWhatTwoImagesSortDifferently, which come with another ICU each.
func TestTheCheckNamesWhatTwoImagesSortDifferently(t *testing.T) {
	root := os.Getenv(oldRootVariable)
	if root == "" {
		t.Skip("this machine has one version of PostgreSQL; the images of the test bed have two")
	}
	installed := pgtest.Installed(t)
	w := Worker{OldRoot: root, Scratch: shortDir(t), Run: postgres.Exec, Report: func(job.Progress) {}}
	found, err := w.programs(t.Context(), 15, installed[len(installed)-1].Major)
	if err != nil {
		t.Fatal(err)
	}
	oldData := filepath.Join(w.Scratch, "data")
	if _, err := w.Run(t.Context(), filepath.Join(found.oldBin, "initdb"), scratchArguments(oldData)...); err != nil {
		t.Fatal(err)
	}
	stop, err := w.start(t.Context(), found.oldBin, oldData, "-c fsync=off -c archive_mode=off ")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	for _, statement := range []string{
		"CREATE COLLATION german (provider = icu, locale = 'de-AT')",
		"CREATE TABLE words (german text COLLATE german UNIQUE, plain text UNIQUE)",
	} {
		if _, err := w.Run(t.Context(), filepath.Join(found.newBin, "psql"), "-h", w.Scratch, "-U", "postgres", "-v", "ON_ERROR_STOP=1", "-c", statement); err != nil {
			t.Fatal(err)
		}
	}
	config, err := pgx.ParseConfig("host=" + w.Scratch + " user=postgres dbname=postgres")
	if err != nil {
		t.Fatal(err)
	}
	said := saidByCollations(t, found.newBin, config)
	if warning := said["Warning CollationVersion postgres"]; !strings.Contains(warning, "of 1 indexes: public.words_german_key (") || len(said) != 1 {
		t.Errorf("it found %q", said)
	}
	t.Logf("%q", said)
}
