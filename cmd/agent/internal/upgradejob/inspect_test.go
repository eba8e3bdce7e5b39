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
		for _, statement := range []string{
			"CREATE DATABASE closed ALLOW_CONNECTIONS false", "CREATE DATABASE reserved", "REVOKE CONNECT ON DATABASE reserved FROM PUBLIC",
			"CREATE DATABASE limited CONNECTION LIMIT 0", "ALTER DATABASE template0 ALLOW_CONNECTIONS true",
			"CREATE DATABASE half", "UPDATE pg_database SET datconnlimit = -2 WHERE datname = 'half'", // as a DROP DATABASE that was interrupted leaves it
			"CREATE TABLE parent (n int NOT NULL)", "CREATE TABLE child () INHERITS (parent)",
		} {
			server.SQL(statement)
		}
		if pg.Major < 18 {
			server.SQL("ALTER TABLE child ALTER n DROP NOT NULL")
		} else {
			server.SQL("UPDATE pg_attribute SET attnotnull = false WHERE attrelid = 'child'::regclass AND attname = 'n'")
		}
		said := saidOf(t, config, target{major: 18, share: []string{"/nowhere"}, lib: "/nowhere"})
		want := map[string]string{
			"PreparedTransactions":  "Error: The prepared transaction half in postgres",
			"InPlaceTablespace":     "Error: The tablespace cold is a folder of the data directory",
			"AlterSystem":           "Error: ALTER SYSTEM has set work_mem, and",
			"ConnectionsNotAllowed": "Error: Database closed allows no connections, and pg_upgrade doesn't upgrade what it can't connect to: run ALTER DATABASE",
			"TemplateDatabase":      "Error: pg_upgrade needs template0 and template1 as initdb creates them. Database template0 allows connections: run ALTER DATABASE template0",
			"ConnectMissing":        "Error: Database limited can't be checked, as role howdah_upgrade may not connect to it: run GRANT CONNECT",
			"InvalidDatabase":       "Error: Database half was dropped only in part",
		}
		if pg.Major < 18 {
			want["NotNullInheritance"] = "Error: Column public.child.n may be null, and the column of the table that it is inherited from may not"
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
		if !strings.Contains(said["ConnectMissing"], "Database reserved can't") || strings.Contains(said["ConnectMissing"], "postgres") {
			t.Error(said["ConnectMissing"])
		}
		if strings.Contains(said["ConnectionsNotAllowed"], "template0") || strings.Contains(said["ConnectionsNotAllowed"], "half") {
			t.Error(said["ConnectionsNotAllowed"])
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

// TestTheCheckFindsReplicationThatCannotBeCarriedOver from 17 on, when pg_upgrade carries logical slots and subscriptions over, and refuses those that it can't.
func TestTheCheckFindsReplicationThatCannotBeCarriedOver(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		if pg.Major < 17 {
			t.Skip("nothing is carried over")
		}
		server := pgtest.Start(t, pgtest.Options{Major: pg.Major, Params: map[string]string{"wal_level": "logical"}})
		server.SQL("SELECT pg_create_logical_replication_slot('behind', 'pgoutput')")
		server.SQL("SELECT pg_create_logical_replication_slot('tested', 'test_decoding')")
		server.SQL("CREATE TABLE t (n int)")
		for _, name := range []string{"copies", "lost", "fine"} {
			server.SQL("CREATE SUBSCRIPTION " + name + " CONNECTION 'host=nowhere' PUBLICATION p WITH (connect = false)")
		}
		const state = "INSERT INTO pg_subscription_rel (srsubid, srrelid, srsubstate) SELECT oid, 't'::regclass, CASE subname WHEN 'copies' THEN 'd' ELSE 'r' END::\"char\" FROM pg_subscription"
		server.SQL(state)
		server.SQL("SELECT pg_replication_origin_drop('pg_' || oid) FROM pg_subscription WHERE subname = 'lost'")
		server.SQL("CREATE ROLE checker LOGIN IN ROLE pg_monitor, pg_read_all_data")
		config, err := pgx.ParseConfig(server.DSN())
		if err != nil {
			t.Fatal(err)
		}
		config.User = "checker"
		lib := t.TempDir()
		if err := os.WriteFile(filepath.Join(lib, "pgoutput.so"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		to := target{major: 18, share: []string{"/nowhere"}, lib: lib, plugins: []string{"test_decoding"}, origins: 2}
		said := saidOf(t, config, to)
		for check, text := range map[string]string{
			"LogicalSlotLags":     "Error: No client receives from the logical replication slot behind, which is behind, and pg_upgrade refuses",
			"LibraryMissing":      "Error: Logical replication slots use the output plugin test_decoding, which is not in the image of PostgreSQL 18",
			"OutputPlugin":        "Error: Logical replication slots use the output plugin pgoutput, which PostgreSQL 18 doesn't let clients use: drop them, or set spec.postgresql.parameters.output_plugin_libraries to 'test_decoding, pgoutput'.",
			"SubscriptionCopying": "Error: The first copy by subscription copies of table t is under way",
			"SubscriptionOrigin":  "Error: The subscription lost in database postgres has no replication origin",
		} {
			if !strings.Contains(said[check], text) {
				t.Errorf("%s says %q, want %q", check, said[check], text)
			}
		}
		if pg.Major == 17 && !strings.Contains(said["ReplicationOrigins"], "Error: There are 3 subscriptions, and PostgreSQL 18 has room for the progress of 2 (max_active_replication_origins)") {
			t.Errorf("of the origins it says %q", said["ReplicationOrigins"])
		}
		if all := said["SubscriptionCopying"] + said["SubscriptionOrigin"]; strings.Contains(all, "fine") {
			t.Error(all)
		}
		to.plugins, to.origins = nil, 10
		if said = saidOf(t, config, to); said["OutputPlugin"]+said["ReplicationOrigins"] != "" {
			t.Errorf("a release without that parameter, and with room: %q", said)
		}
		server.SQL("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
		server.SQL("UPDATE pg_subscription_rel SET srsubstate = 'r'")
		if said = saidOf(t, config, to); said["LogicalSlotLags"]+said["LibraryMissing"]+said["SubscriptionCopying"] != "" {
			t.Errorf("once the slots are dropped: %q", said)
		}
	})
}

// TestTheCheckMissesNeitherTemplateDatabase nor what has replaced it.
func TestTheCheckMissesNeitherTemplateDatabase(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	server := pgtest.Start(t, pgtest.Options{})
	config, err := pgx.ParseConfig(server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	to := target{major: 18, share: []string{"/nowhere"}, lib: "/nowhere"}
	if said := saidOf(t, config, to)["TemplateDatabase"]; said != "" {
		t.Errorf("of a server as initdb leaves it: %s", said)
	}
	server.SQL("ALTER DATABASE template1 IS_TEMPLATE false")
	server.SQL("DROP DATABASE template1")
	said := saidOf(t, config, to)["TemplateDatabase"]
	const remedy = "CREATE DATABASE template1 TEMPLATE template0 IS_TEMPLATE true"
	if !strings.Contains(said, "Database template1 does not exist: run "+remedy) {
		t.Errorf("without template1: %s", said)
	}
	server.SQL(remedy)
	if said := saidOf(t, config, to)["TemplateDatabase"]; said != "" {
		t.Errorf("once that is done: %s", said)
	}
}

func TestATablespaceWithAFolderOfItsOwnIsAnObstacle(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	server := pgtest.Start(t, pgtest.Options{})
	server.SQL("CREATE TABLESPACE apart LOCATION '" + shortDir(t) + "'")
	config, err := pgx.ParseConfig(server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	said := saidOf(t, config, target{major: 18, share: []string{"/nowhere"}, lib: "/nowhere"})
	if !strings.Contains(said["Tablespace"], "Error: The tablespace apart has its own folder") || said["InPlaceTablespace"] != "" {
		t.Errorf("%q, %q", said["Tablespace"], said["InPlaceTablespace"])
	}
}
