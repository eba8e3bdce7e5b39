//go:build postgres

package upgradejob

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/test/testkit/pgtest"
)

// TestTheCheckFindsExtensionsThatDoNotFitTheVersionInTheNewImage before the cluster is stopped: pg_upgrade looks each function up as it creates it.
func TestTheCheckFindsExtensionsThatDoNotFitTheVersionInTheNewImage(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		server := pgtest.Start(t, pgtest.Options{Major: pg.Major})
		server.SQL("CREATE EXTENSION pg_trgm VERSION '1.4'")
		config, err := pgx.ParseConfig(server.DSN())
		if err != nil {
			t.Fatal(err)
		}
		own := target{major: 18, share: []string{shareDir(pg.BinDir)}, lib: libDir(pg.BinDir)}
		if said := saidOf(t, config, own); said["ExtensionUpdate"]+said["FunctionMissing"] != "" {
			t.Errorf("of an older version from which scripts lead to that of the image: %s", said)
		}
		image := t.TempDir()
		other, err := os.ReadFile(filepath.Join(own.lib, "citext.so"))
		if err := errors.Join(err, os.MkdirAll(filepath.Join(image, "extension"), 0o755),
			os.WriteFile(filepath.Join(image, "extension/pg_trgm.control"), []byte("default_version = '9.9'\n"), 0o644),
			os.WriteFile(filepath.Join(image, "extension/pg_trgm--1.5--9.9.sql"), nil, 0o644),
			os.WriteFile(filepath.Join(image, "pg_trgm.so"), other, 0o644)); err != nil {
			t.Fatal(err)
		}
		said := saidOf(t, config, target{major: 18, share: []string{image}, lib: image})
		for check, want := range map[string]string{
			"ExtensionUpdate": "Warning: Extension pg_trgm has version 1.4, and the image of PostgreSQL 18 has version 9.9 and no script that leads there. So it stays at 1.4,",
			"FunctionMissing": "Error: Extension pg_trgm 1.4 uses ",
		} {
			if !strings.HasPrefix(said[check], want) {
				t.Errorf("%s says %q", check, said[check])
			}
		}
		if !strings.Contains(said["FunctionMissing"], "that the library pg_trgm in the image of PostgreSQL 18 doesn't have, the first of which is gin_") {
			t.Error(said["FunctionMissing"])
		}
	})
}
