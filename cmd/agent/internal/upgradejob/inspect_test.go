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

// TestTheCheckFindsWhatAnUpgradeWouldLoseOrFailOn before the cluster is stopped.
func TestTheCheckFindsWhatAnUpgradeWouldLoseOrFailOn(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		server := pgtest.Start(t, pgtest.Options{Major: pg.Major, Params: map[string]string{
			"allow_in_place_tablespaces": "on", "max_prepared_transactions": "2", "wal_level": "logical",
		}})
		server.SQL("CREATE TABLESPACE cold LOCATION ''")
		server.SQL("SELECT pg_create_logical_replication_slot('changes', 'pgoutput')")
		server.SQL("CREATE SUBSCRIPTION news CONNECTION 'host=nowhere' PUBLICATION p WITH (connect = false)")
		server.SQL("ALTER SYSTEM SET work_mem = '8MB'")
		server.SQL("ALTER SYSTEM SET archive_mode = 'on'") // has no effect in a cluster
		server.SQL("CREATE TABLE t (n int)")
		server.SQL("CREATE EXTENSION pg_trgm")
		images := t.TempDir()
		for _, file := range []string{"share/extension/pg_trgm.control", "lib/pg_trgm.so"} {
			path := filepath.Join(images, file)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		server.SQL("BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'half'")
		server.SQL("SELECT pg_reload_conf()")
		server.SQL("CREATE ROLE checker LOGIN IN ROLE pg_monitor, pg_read_all_data") // as the agent creates it
		config, err := pgx.ParseConfig(server.DSN())
		if err != nil {
			t.Fatal(err)
		}
		config.User = "checker"
		said := saidOf(t, config, target{major: 18, share: []string{"/nowhere"}, lib: "/nowhere"})
		want := map[string]string{
			"PreparedTransactions": "Error: The prepared transaction half in postgres",
			"InPlaceTablespace":    "Error: The tablespace cold is a folder of the data directory",
			"AlterSystem":          "Error: ALTER SYSTEM has set work_mem, and",
		}
		if pg.Major < 17 {
			want["Subscriptions"] = "Once enabled, it skips their changes silently until it is refreshed. So either let nothing write to the published tables"
			want["LogicalSlots"] = "Error: The logical replication slot changes is lost with the upgrade"
		}
		for check, text := range want {
			if !strings.Contains(said[check], text) {
				t.Errorf("%s says %q, want %q", check, said[check], text)
			}
		}
		if text := said["ExtensionMissing"] + said["LibraryMissing"]; !strings.Contains(text, "pg_trgm is not in the image") || !strings.Contains(text, "set spec.image to an image that has it") {
			t.Errorf("of an extension that is nowhere it says %q", text)
		}
		said = saidOf(t, config, target{major: 18, share: []string{"/nowhere", filepath.Join(images, "share")}, lib: "/nowhere", mounted: []string{filepath.Join(images, "lib")}})
		if strings.Contains(said["ExtensionMissing"], "pg_trgm") || !strings.Contains(said["LibraryMissing"], "pg_upgrade doesn't look into spec.postgresql.extensionImages") {
			t.Errorf("of an extension in an image of its own it says %q, %q", said["ExtensionMissing"], said["LibraryMissing"])
		}
		if consented := saidOf(t, config, target{major: 18, share: []string{"/nowhere"}, lib: "/nowhere", dropsSlots: true})["LogicalSlots"]; strings.HasPrefix(consented, "Error") {
			t.Errorf("with consent: %s", consented)
		}
	})
}

// saidOf is what each check says of a database, with its severity.
func saidOf(t *testing.T, config *pgx.ConnConfig, to target) map[string]string {
	t.Helper()
	findings, err := inspect(t.Context(), config, to)
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{}
	for _, finding := range findings {
		said[finding.Check] += finding.Severity + ": " + finding.Message
	}
	return said
}
