//go:build postgres

package upgradejob

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

func TestMain(m *testing.M) {
	if os.Geteuid() == 0 { // PostgreSQL refuses root
		code, err := asPostgres()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// shortDir is a folder for sockets, whose paths have to be short.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "up")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// TestAnOldServerWithLogicalSlotsStartsForPgUpgrade has more of them than initdb's configuration allows, which has wal_level=replica,
// too: the configuration of a cluster is not in its data directory.
func TestAnOldServerWithLogicalSlotsStartsForPgUpgrade(t *testing.T) {
	subset.OneIn(t, 3)
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		dir := shortDir(t)
		oldData, newData := filepath.Join(dir, "old"), filepath.Join(dir, "new")
		run := func(program string, args ...string) {
			t.Helper()
			if out, err := postgres.Exec(t.Context(), filepath.Join(pg.BinDir, program), args...); err != nil {
				t.Fatalf("%s: %v: %s", program, err, out)
			}
		}
		run("initdb", scratchArguments(oldData)...)
		run("initdb", scratchArguments(newData)...)
		run("pg_ctl", "-D", oldData, "-w", "-l", filepath.Join(dir, "log"), "-o",
			"-c wal_level=logical -c max_replication_slots=20 -c listen_addresses='' -c unix_socket_directories="+dir, "start")
		run("psql", "-h", dir, "-U", "postgres", "-c", pgtest.Unkind(pg.Major, "postgres", "template1")+"ALTER ROLE postgres SET statement_timeout = '1ms'")
		pinned := "user=postgres options=" + postgres.QuoteConnInfo(postgres.SessionOptions(postgres.SessionSettings(pg.Major)))
		for i := range 15 { // last: from 17 on, pg_upgrade wants slots that lack nothing
			run("psql", "-h", dir, "-d", pinned, "-c", fmt.Sprintf("SELECT pg_create_logical_replication_slot('s%d', 'pgoutput')", i))
		}
		run("pg_ctl", "-D", oldData, "-w", "stop")
		w := Worker{Scratch: dir, Run: postgres.Exec, Report: func(job.Progress) {}}
		if err := w.pgUpgrade(t.Context(), phaseUpgrading, programs{oldBin: pg.BinDir, newBin: pg.BinDir}, oldData, newData); err != nil {
			t.Error(err)
		}
		if err := w.startAndStop(t.Context(), pg.BinDir, oldData); err != nil {
			t.Errorf("as after a crash: %v", err)
		}
	})
}

// TestAnOldServerWithManyReplicationOriginsStartsForPgUpgrade: a server that has more than it has room for ends with a PANIC, and so does the new
// version's, to which they are carried over from 17 on. Each subscription has one.
func TestAnOldServerWithManyReplicationOriginsStartsForPgUpgrade(t *testing.T) {
	subset.OneIn(t, 3)
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		server := pgtest.Start(t, pgtest.Options{Major: pg.Major, Params: map[string]string{map[bool]string{
			false: "max_replication_slots", true: "max_active_replication_origins",
		}[pg.Major >= 18]: "30"}})
		for i := range 15 {
			server.SQL(fmt.Sprintf("CREATE SUBSCRIPTION s%d CONNECTION 'host=nowhere' PUBLICATION p WITH (connect = false)", i))
		}
		server.SQL("SELECT pg_replication_origin_advance('pg_' || oid, '0/100') FROM pg_subscription")
		server.Stop()
		newData := filepath.Join(server.SocketDir, "new")
		args := []string{"--pgdata=" + newData, "--username=postgres", "--encoding=UTF8", "--locale=C", "--no-sync", "--data-checksums"}
		if out, err := postgres.Exec(t.Context(), filepath.Join(pg.BinDir, "initdb"), args...); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		w := Worker{Scratch: server.SocketDir, Run: postgres.Exec, Report: func(job.Progress) {}}
		if err := w.pgUpgrade(t.Context(), phaseUpgrading, programs{oldBin: pg.BinDir, newBin: pg.BinDir}, server.DataDir, newData); err != nil {
			t.Error(err)
		}
	})
}

// TestSlotsOfAnOutputPluginThatTheClusterAllowsAreCarriedOver: the data directory has initdb's configuration, and not the cluster's.
func TestSlotsOfAnOutputPluginThatTheClusterAllowsAreCarriedOver(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		dir := filepath.Join(shortDir(t), "knows")
		if out, err := postgres.Exec(t.Context(), filepath.Join(pg.BinDir, "initdb"), scratchArguments(dir)...); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		w := Worker{Run: postgres.Exec, Report: func(job.Progress) {}}
		usual, err := w.outputPlugins(t.Context(), programs{newBin: pg.BinDir}, dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		if usual == nil || pg.Major < 17 {
			t.Skip("all plugins are allowed, or no slot is carried over")
		}
		set, err := w.outputPlugins(t.Context(), programs{newBin: pg.BinDir}, dir, map[string]string{outputPluginsParameter: "a, b"})
		if err != nil || !slices.Equal(set, []string{"a", "b"}) {
			t.Errorf("with the parameter of the cluster it allows %q, %v", set, err)
		}
		server := pgtest.Start(t, pgtest.Options{Major: pg.Major, Params: map[string]string{"wal_level": "logical"}})
		server.SQL("SELECT pg_create_logical_replication_slot('s', 'test_decoding')")
		server.Stop()
		w.Scratch = server.SocketDir
		for _, plugins := range []string{"pgoutput", "test_decoding"} {
			w.OutputPlugins = plugins
			newData := filepath.Join(server.SocketDir, "new-"+plugins)
			args := []string{"--pgdata=" + newData, "--username=postgres", "--encoding=UTF8", "--locale=C", "--no-sync", "--data-checksums"}
			if out, err := postgres.Exec(t.Context(), filepath.Join(pg.BinDir, "initdb"), args...); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			err := w.pgUpgrade(t.Context(), phaseUpgrading, programs{oldBin: pg.BinDir, newBin: pg.BinDir}, server.DataDir, newData)
			if (err == nil) != (plugins == "test_decoding") {
				t.Errorf("with %s: %v", plugins, err)
			}
		}
	})
}

// TestASchemaIsCopiedWhateverIsSetForItsDatabase: in one whose transactions only read by default, nothing was created, and the check passed.
func TestASchemaIsCopiedWhateverIsSetForItsDatabase(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	server := pgtest.Start(t, pgtest.Options{})
	server.SQL("CREATE DATABASE quiet")
	server.SQLIn("quiet", "CREATE TABLE words (word text)")
	server.SQLIn("template1", "CREATE TABLE of_template (n int)")
	server.SQL("ALTER DATABASE quiet SET default_transaction_read_only = on")
	server.SQL("ALTER DATABASE postgres SET work_mem = '3MB'")
	dir := shortDir(t)
	scratch := filepath.Join(dir, "from")
	if out, err := postgres.Exec(t.Context(), filepath.Join(server.BinDir, "initdb"), scratchArguments(scratch)...); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w := Worker{Scratch: dir, Run: postgres.Exec, Report: func(job.Progress) {}}
	stop, err := w.start(t.Context(), server.BinDir, scratch, "-c fsync=off ")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	source := server.DSN()
	for _, database := range []string{"postgres", "quiet", "template1"} {
		if err := w.pipe(t.Context(), programs{newBin: server.BinDir}, server.Major, "pg_dump", schemaOf(source, database)...); err != nil {
			t.Errorf("%s: %v", database, err)
		}
	}
	for database, query := range map[string]string{
		"quiet": "SELECT to_regclass('public.words') IS NOT NULL", "template1": "SELECT to_regclass('public.of_template') IS NOT NULL",
		"postgres": "SELECT to_regclass('public.of_template') IS NULL AND current_setting('work_mem') = '3MB'",
	} {
		conn, err := w.scratchSession(t.Context(), database)
		if err != nil {
			t.Fatal(err)
		}
		copied := false
		if err := conn.QueryRow(t.Context(), query).Scan(&copied); err != nil || !copied {
			t.Errorf("database %s was not copied as it is: %v", database, err)
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestOldDataIsOnDiskBeforeItCountsAsShutDown: it may be the only copy, and a setting of ALTER SYSTEM that has no effect under the agent
// would have one here. The server says itself how many files a checkpoint has synced, which is none without fsync.
func TestOldDataIsOnDiskBeforeItCountsAsShutDown(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	server := pgtest.Start(t, pgtest.Options{Params: map[string]string{"fsync": "on"}})
	server.SQL("ALTER SYSTEM SET fsync = 'off'")
	server.SQL("CREATE TABLE t AS SELECT generate_series(1, 1000) AS n")
	server.Kill()
	w := Worker{Scratch: server.SocketDir, Run: postgres.Exec, Report: func(job.Progress) {}}
	control, err := w.settled(t.Context(), programs{oldBin: server.BinDir}, server.DataDir)
	if err != nil || !control.State.Clean() {
		t.Fatalf("%s: %v", control.State, err)
	}
	log, err := os.ReadFile(filepath.Join(server.SocketDir, "server.log"))
	if err != nil {
		t.Fatal(err)
	}
	if synced := regexp.MustCompile(`checkpoint complete: .*sync files=[1-9]`).Find(log); synced == nil {
		t.Errorf("no checkpoint has synced a file:\n%s", log)
	}
}

// TestOldDataKeepsWALThatIsNotArchived: without archiving, a checkpoint removes it with the notes that it is to be archived, and an archive that
// the old version continues after a roll back has a hole.
func TestOldDataKeepsWALThatIsNotArchived(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		server := pgtest.Start(t, pgtest.Options{Major: pg.Major, Params: map[string]string{
			"archive_mode": "on", "archive_command": "false", "wal_keep_size": "0", "min_wal_size": "32MB", "max_wal_size": "32MB",
		}})
		server.SQL("CREATE TABLE t (n int)")
		for range 6 {
			server.SQL("INSERT INTO t VALUES (1)")
			server.SQL("SELECT pg_switch_wal()")
		}
		server.SQL("CHECKPOINT")
		server.Kill()
		noted, err := filepath.Glob(filepath.Join(server.DataDir, "pg_wal/archive_status/*.ready"))
		if err != nil || len(noted) < 6 {
			t.Fatalf("%v wait to be archived, %v", noted, err)
		}
		w := Worker{Scratch: server.SocketDir, Run: postgres.Exec, Report: func(job.Progress) {}}
		if _, err := w.settled(t.Context(), programs{oldBin: server.BinDir}, server.DataDir); err != nil {
			t.Fatal(err)
		}
		newData := filepath.Join(server.SocketDir, "new")
		args := []string{"--pgdata=" + newData, "--username=postgres", "--encoding=UTF8", "--locale=C", "--no-sync", "--data-checksums"}
		if out, err := postgres.Exec(t.Context(), filepath.Join(pg.BinDir, "initdb"), args...); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if err := w.pgUpgrade(t.Context(), phaseUpgrading, programs{oldBin: pg.BinDir, newBin: pg.BinDir}, server.DataDir, newData); err != nil {
			t.Error(err)
		}
		for _, note := range noted {
			segment := strings.TrimSuffix(filepath.Base(note), ".ready")
			for _, path := range []string{note, filepath.Join(server.DataDir, "pg_wal", segment)} {
				if _, err := os.Stat(path); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// TestAnUpgradeLoadsTheLibrariesOfTheCluster for what can't be created without them: the new server evaluates the predicate of an index
// here. Large objects, an unlogged table, a publication and a locale of their own are upgraded with it.
func TestAnUpgradeLoadsTheLibrariesOfTheCluster(t *testing.T) {
	subset.OneIn(t, 3)
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		const library = "pg_stat_statements"
		server := pgtest.Start(t, pgtest.Options{Major: pg.Major, Params: map[string]string{"shared_preload_libraries": library}})
		server.SQL("CREATE EXTENSION pg_stat_statements")
		server.SQL("CREATE FUNCTION answers() RETURNS bool IMMUTABLE LANGUAGE plpgsql AS 'BEGIN PERFORM FROM public.pg_stat_statements; RETURN true; END'")
		server.SQL("CREATE TABLE t AS SELECT generate_series(1, 10) AS n")
		server.SQL("CREATE INDEX i ON t (n) WHERE answers()")
		server.SQL("CREATE UNLOGGED TABLE u AS SELECT 1 AS n")
		server.SQL("CREATE PUBLICATION p FOR TABLE t")
		server.SQL("SELECT lo_create(4711)")
		server.SQL("CREATE COLLATION de (provider = icu, locale = 'de-AT')")
		server.SQL("CREATE TABLE l (word text COLLATE de)")
		server.Stop()
		newData := filepath.Join(server.SocketDir, "new")
		args := []string{"--pgdata=" + newData, "--username=postgres", "--encoding=UTF8", "--locale=C", "--no-sync", "--data-checksums"}
		if out, err := postgres.Exec(t.Context(), filepath.Join(pg.BinDir, "initdb"), args...); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		w := Worker{Scratch: server.SocketDir, Run: postgres.Exec, Report: func(job.Progress) {}, PreloadLibraries: library}
		if err := w.pgUpgrade(t.Context(), phaseUpgrading, programs{oldBin: pg.BinDir, newBin: pg.BinDir}, server.DataDir, newData); err != nil {
			t.Error(err)
		}
	})
}

// TestATransactionThatWasPreparedSinceTheCheckEndsTheUpgradeAtOnce, before any program of either version was run.
func TestATransactionThatWasPreparedSinceTheCheckEndsTheUpgradeAtOnce(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		server := pgtest.Start(t, pgtest.Options{Major: pg.Major, Params: map[string]string{"max_prepared_transactions": "5"}})
		server.SQL("CREATE TABLE t (n int)")
		for _, gid := range []string{"a", "b"} {
			server.SQL("BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION '" + gid + "'")
		}
		server.Stop()
		volume := generation.Volume(t.TempDir())
		pgdata, err := volume.Begin("g1")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(pgdata, os.DirFS(server.DataDir)); err != nil {
			t.Fatal(err)
		}
		if err := volume.Complete(generation.Generation{ID: "g1", SystemIdentifier: "1", MajorVersion: pg.Major, Origin: generation.Initdb}); err != nil {
			t.Fatal(err)
		}
		w := Worker{Volume: volume, OldRoot: t.TempDir(), Scratch: server.SocketDir, Run: postgres.Exec, Report: func(job.Progress) {}}
		_, err = w.Upgrade(t.Context(), agentapi.UpgradeJob{FromVersion: pg.Major, ToVersion: pg.Major, FromGeneration: "g1", ToGeneration: "g2"})
		var failure *job.Failure
		if !errors.As(err, &failure) || failure.Reason != ReasonUpgradeFailed || !strings.HasPrefix(failure.Error(), "2 transactions were prepared after the check") {
			t.Errorf("it ended with %v", err)
		}
	})
}

func TestTheCheckNamesTheParametersThatTheNewVersionRefuses(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		dir := filepath.Join(shortDir(t), "new")
		if out, err := postgres.Exec(t.Context(), filepath.Join(pg.BinDir, "initdb"), scratchArguments(dir)...); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		findings, err := Worker{Run: postgres.Exec}.parameters(t.Context(), programs{newBin: pg.BinDir}, dir, map[string]string{
			"work_mem": "8MB", "shared_buffers": "512GB", "pg_stat_statements.max": "100", "log_line_prefix": "%m ",
			"checkpoint_segments": "3", "wal_level": "full",
		})
		if err != nil {
			t.Fatal(err)
		}
		var messages []string
		for _, finding := range findings {
			messages = append(messages, finding.Message)
		}
		if len(findings) != 2 ||
			!strings.Contains(messages[0], `spec.postgresql.parameters.checkpoint_segments (unrecognized configuration parameter "checkpoint_segments")`) ||
			!strings.Contains(messages[1], `spec.postgresql.parameters.wal_level (invalid value for parameter "wal_level": "full")`) {
			t.Errorf("the check found %q", messages)
		}
	})
}
