//go:build postgres

package initialize

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/importjob"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

const online = `
CREATE ROLE clerk LOGIN PASSWORD 'old secret';
CREATE ROLE reader LOGIN REPLICATION PASSWORD 'p:a\s"s w''ord' IN ROLE pg_read_all_data, clerk;
CREATE DATABASE shop OWNER clerk;
CREATE DATABASE "odd = 'db" OWNER clerk;
GRANT CONNECT, CREATE ON DATABASE shop TO reader;
GRANT CONNECT, CREATE ON DATABASE "odd = 'db" TO reader;
ALTER DATABASE shop SET default_transaction_read_only TO on`

const onlineShop = `SET default_transaction_read_only = off; SET ROLE clerk;
CREATE SCHEMA sales;
CREATE TABLE sales.numbers (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n int NOT NULL, note text, twice int GENERATED ALWAYS AS (n * 2) STORED);
CREATE TABLE sales.parts (id serial, at date NOT NULL, PRIMARY KEY (id, at)) PARTITION BY RANGE (at);
CREATE TABLE sales.parts_1 PARTITION OF sales.parts FOR VALUES FROM ('2020-01-01') TO ('2030-01-01');
CREATE TABLE "Odd" ("A ""b" text);
ALTER TABLE "Odd" REPLICA IDENTITY FULL;
CREATE TABLE scratch (n int GENERATED ALWAYS AS IDENTITY);
CREATE TABLE log (n int);
CREATE SCHEMA stale CREATE TABLE old (n int);
INSERT INTO sales.numbers (n, note) SELECT -g, repeat('x', 100) FROM generate_series(1, 5000) g;
INSERT INTO log VALUES (1);
SELECT setval('sales.parts_id_seq', 4711)`

func newOnline(t *testing.T) *foreign {
	t.Helper()
	pgtest.OneVersionIsEnough(t)
	f := newForeign(t)
	f.task.Import.Online = &agentapi.OnlineImport{Cluster: "the-uid"}
	f.on(t, "postgres", "postgres", online)
	f.on(t, "postgres", "shop", onlineShop)
	f.on(t, "clerk", "odd = 'db", "CREATE SCHEMA mine; CREATE TABLE mine.small (id int PRIMARY KEY)")
	f.follows = func(importjob.Following) bool { return false }
	return f
}

// on runs statements on the source, each on its own.
func (f *foreign) on(t *testing.T, user, database, statements string) {
	t.Helper()
	conn := f.session(t, user, database)
	defer conn.Close(context.Background())
	for statement := range strings.SplitSeq(statements, ";\n") {
		if _, err := conn.PgConn().Exec(t.Context(), statement).ReadAll(); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

func (f *foreign) session(t *testing.T, user, database string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig("sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	config.Host, config.Port, config.User, config.Database = f.SocketDir, uint16(f.task.Import.Source.Port), user, database
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// writer changes the source until it is stopped, and counts what was acknowledged.
type writer struct {
	stop  context.CancelFunc
	ended chan struct{}
	rows  int
}

func (f *foreign) write(t *testing.T) *writer {
	t.Helper()
	conn := f.session(t, "clerk", "shop")
	if _, err := conn.Exec(t.Context(), "SET default_transaction_read_only = off"); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	w := &writer{stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		defer conn.Close(context.Background())
		for ctx.Err() == nil {
			_, err := conn.Exec(context.Background(), fmt.Sprintf(`INSERT INTO sales.numbers (n, note) VALUES (%[1]d, 'new');
				UPDATE sales.numbers SET note = 'of %[1]d' WHERE id = %[1]d; DELETE FROM sales.numbers WHERE n = -%[1]d AND n %% 7 = 0;
				INSERT INTO sales.parts (at) VALUES ('2025-01-01'); INSERT INTO "Odd" VALUES ('%[1]d')`, w.rows+1), pgx.QueryExecModeSimpleProtocol)
			if err != nil {
				t.Errorf("the source refuses a change: %v", err)
				return
			}
			w.rows++
		}
	}()
	return w
}

// left says what there is of an import on the source.
func (f *foreign) left(t *testing.T) string {
	t.Helper()
	source := local.Server{SocketDir: f.SocketDir, Port: f.task.Import.Source.Port}
	const query = `SELECT 'slot ' || slot_name FROM pg_replication_slots UNION ALL SELECT 'publication ' || pubname FROM pg_publication`
	return answers(t, source, "shop", query) + answers(t, source, "odd = 'db", query)
}

// ended runs an import until stop says so of a phase or of a state.
func (f *foreign) ended(t *testing.T, volume generation.Volume, cutover bool, stop func(phase, state string) bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f.phases = func(p job.Progress) {
		if stop(p.Phase, "") {
			cancel()
		}
	}
	f.follows = func(now importjob.Following) bool {
		if len(now.Problems) > 0 {
			t.Logf("%s: %q", now.State, now.Problems)
		}
		if stop("", now.State) {
			cancel()
		}
		return cutover
	}
	defer func() { f.phases, f.follows = func(job.Progress) {}, func(importjob.Following) bool { return cutover } }()
	err := f.run(ctx, volume)
	for tries := 0; err != nil && ctx.Err() == nil && tries < 50; tries++ { // processes of a server that was killed may still be ending
		err = f.run(ctx, volume)
	}
	if err == nil || ctx.Err() == nil {
		t.Errorf("it did not get as far as where it is to end: %v", err)
	}
	if id, err := volume.Current(); err == nil {
		t.Errorf("data generation %s was adopted", id)
	}
}

const onlineTold = `SELECT count(*) || ' ' || md5(string_agg(t::text, ',' ORDER BY id)) FROM sales.numbers t
	UNION ALL SELECT count(*) || ' ' || md5(string_agg(t::text, ',' ORDER BY id)) FROM sales.parts t UNION ALL SELECT count(*)::text FROM "Odd"
	UNION ALL SELECT last_value || is_called::text FROM sales.parts_id_seq UNION ALL SELECT last_value::text FROM sales.numbers_id_seq`

func TestAnOnlineImportLosesNothingWhereverItIsKilled(t *testing.T) {
	subset.OnlyInFull(t)
	f := newOnline(t)
	volume := generation.Volume(t.TempDir())
	writer := f.write(t)
	for _, phase := range []string{"CreatingSlot", "Copying", "BuildingIndexes", "Analyzing"} {
		f.ended(t, volume, false, func(now, _ string) bool { return now == phase })
		if left := f.left(t); left != "" {
			t.Errorf("an attempt that ended in %s leaves %s", phase, left)
		}
	}
	f.ended(t, volume, false, func(_, state string) bool { return state == importjob.StateFollowing })
	copied, err := os.ReadFile(filepath.Join(volume.Dir("g1"), copiedFile))
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	var said []string
	f.ended(t, volume, true, func(_, state string) bool {
		once.Do(func() { killPostmaster(t, volume.PGData("g1")) })
		return state == importjob.StateCuttingOver
	})
	f.ended(t, volume, true, func(_, state string) bool { return state == importjob.StateCuttingOver })
	writer.stop()
	<-writer.ended
	f.on(t, "postgres", "postgres", `REVOKE CONNECT ON DATABASE shop FROM PUBLIC, clerk;
REVOKE CONNECT ON DATABASE "odd = 'db" FROM PUBLIC, clerk`)
	was := answers(t, local.Server{SocketDir: f.SocketDir, Port: f.task.Import.Source.Port}, "shop", onlineTold)
	f.ended(t, volume, true, func(phase, _ string) bool { return phase == "Comparing" })
	f.ended(t, volume, true, func(_, state string) bool { return state == importjob.StateCutOver })
	f.phases = func(job.Progress) {}
	f.follows = func(now importjob.Following) bool {
		said = append(said, now.State)
		return false // which comes too late
	}
	if again, err := os.ReadFile(filepath.Join(volume.Dir("g1"), copiedFile)); err != nil || !strings.Contains(string(again), `"cutOver":true`) || strings.Contains(string(copied), `"cutOver":true`) {
		t.Errorf("the cutover is not recorded: %s, %v", again, err)
	}
	if err := f.run(t.Context(), volume); err != nil {
		t.Fatal(err)
	}
	if left := f.left(t); left != "" {
		t.Errorf("it leaves %s on the source", left)
	}
	here := open(t, f.Major, volume.PGData("g1"))
	if got := answers(t, here, "shop", onlineTold); got != was {
		t.Errorf("got\n%s\n\nwant\n%s", got, was)
	}
	for query, want := range map[string]string{
		"SELECT count(*)::text FROM sales.numbers WHERE n > 0": fmt.Sprint(writer.rows), "SELECT count(*)::text FROM pg_subscription": "0", "SELECT count(*)::text FROM pg_publication": "0",
		"SELECT setconfig::text FROM pg_db_role_setting": "{default_transaction_read_only=on}", "SELECT concat_ws(' ', to_regclass('public.scratch'), to_regclass('stale.old'), (SELECT count(*) FROM log))": "0",
	} {
		if got := answers(t, here, "shop", query); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	if writer.rows == 0 || len(said) == 0 || said[len(said)-1] != importjob.StateCutOver {
		t.Errorf("%d rows were written; it said %q", writer.rows, said)
	}
	if _, err := os.Stat(filepath.Join(volume.Dir("g1"), copiedFile)); err == nil {
		t.Error("what it needed to continue is left")
	}
}

// killPostmaster as a lost node does.
func killPostmaster(t *testing.T, pgdata string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(pgdata, "postmaster.pid"))
	if err != nil {
		t.Error(err)
		return
	}
	pid, err := postgres.ParsePostmasterPID(content)
	if err == nil {
		err = syscall.Kill(pid.PID, syscall.SIGKILL)
	}
	if err != nil {
		t.Error(err)
	}
}

func TestACutoverWaitsUntilNobodyCanWriteToTheSource(t *testing.T) {
	subset.OneIn(t, 3)
	f := newOnline(t)
	shop := f.session(t, "clerk", "shop")
	// Each entry is what stands against the cutover, and what a person does about it.
	steps := []struct {
		words string
		do    func()
	}{
		{"these roles can still connect to it on the source: clerk", func() {
			f.on(t, "postgres", "postgres", `REVOKE CONNECT ON DATABASE shop FROM PUBLIC, clerk;
REVOKE CONNECT ON DATABASE "odd = 'db" FROM PUBLIC, clerk`)
		}},
		{"these users have sessions on the source: clerk (1)", func() { _ = shop.Close(t.Context()) }},
		{"these prepared transactions are open on the source: open", func() { f.on(t, "postgres", "shop", "ROLLBACK PREPARED 'open'") }},
	}
	var last []string
	prepared, takenBack, followsAgain := false, false, false
	f.follows = func(now importjob.Following) bool {
		if !prepared && now.State == importjob.StateFollowing { // a slot that is still to be created would wait for its end
			prepared = true
			f.on(t, "postgres", "shop", `SET default_transaction_read_only = off;
BEGIN;
INSERT INTO log VALUES (2);
PREPARE TRANSACTION 'open'`)
		}
		if last = now.Problems; len(last) > 0 {
			t.Logf("%s: %q", now.State, last)
		}
		if len(steps) > 0 && now.State == importjob.StateCuttingOver && len(last) > 0 {
			if !strings.Contains(strings.Join(last, "\n"), steps[0].words) {
				t.Errorf("want %q in %q", steps[0].words, last)
			}
			steps[0].do()
			steps = steps[1:]
			return true
		}
		if takenBack && !followsAgain {
			if followsAgain = true; now.State != importjob.StateFollowing {
				t.Errorf("after the request was taken back at the last moment, it is %s", now.State)
			}
		}
		if len(steps) == 0 && len(last) == 0 && now.State == importjob.StateCuttingOver && !takenBack {
			takenBack = true
			return false
		}
		return true
	}
	volume := generation.Volume(t.TempDir())
	if err := f.run(t.Context(), volume); err != nil {
		t.Fatalf("%v; %q", err, last)
	}
	if len(steps) > 0 {
		t.Errorf("it did not wait until %q", steps[0].words)
	}
	if !followsAgain {
		t.Error("the request was not taken back")
	}
}

// Nothing but the role itself keeps out who logs in as the import does: what is written after the cutover would stay on the source.
func TestACutoverWaitsForOthersWhoLogInAsTheImportDoes(t *testing.T) {
	f := newOnline(t)
	other := f.session(t, "reader", "shop")
	if err := f.run(t.Context(), generation.Volume(t.TempDir())); err == nil || !strings.Contains(err.Error(), "Others have sessions on the source as reader, the role of the import") {
		t.Fatal(err)
	}
	_ = other.Close(t.Context())
	f.on(t, "postgres", "postgres", `REVOKE CONNECT ON DATABASE shop FROM PUBLIC, clerk;
REVOKE CONNECT ON DATABASE "odd = 'db" FROM PUBLIC, clerk`)
	came, goes, waited := false, time.Time{}, false
	f.follows = func(now importjob.Following) bool {
		said := strings.Join(now.Problems, "\n")
		switch {
		case now.State != importjob.StateFollowing && now.State != importjob.StateCuttingOver:
		case !came:
			came, other = true, f.session(t, "reader", "shop")
		case strings.Contains(said, "Database shop: others have sessions on the source as reader, the role of the import"):
			goes = time.Now()
			_ = other.Close(t.Context())
		case strings.Contains(said, "Others had sessions on the source as reader, the role of the import, until"):
			waited = true
		case !goes.IsZero() && !waited && time.Since(goes) < 200*time.Millisecond: // on a busy machine, the next look may come too late
			t.Errorf("it doesn't wait: %s", said)
		}
		return true
	}
	if err := f.run(t.Context(), generation.Volume(t.TempDir())); err != nil {
		t.Fatal(err)
	}
	if goes.IsZero() {
		t.Error("it has not found the session")
	}
}

func TestChangesOfTablesOnTheSourceAreNamed(t *testing.T) {
	subset.OnlyInFull(t)
	f := newOnline(t)
	f.on(t, "postgres", "postgres", `REVOKE CONNECT ON DATABASE shop FROM PUBLIC, clerk;
REVOKE CONNECT ON DATABASE "odd = 'db" FROM PUBLIC, clerk`)
	const writable = "SET default_transaction_read_only = off;\n"
	steps := []struct{ words, do, undo string }{
		{"Table sales.numbers has other columns on the source", "ALTER TABLE sales.numbers ADD later int", "ALTER TABLE sales.numbers DROP later"},
		{"Table sales.new exists on the source only", "CREATE TABLE sales.new (id int PRIMARY KEY)", "DROP TABLE sales.new"},
		{"Table sales.numbers is not in the publication", "", ""},
		{"there are 1 large objects on the source now", "SELECT lo_create(4711)", "SELECT lo_unlink(4711)"},
	}
	steps[2].do = `ALTER PUBLICATION "` + f.task.Import.Online.Name("shop") + `" DROP TABLE sales.numbers`
	steps[2].undo = `ALTER PUBLICATION "` + f.task.Import.Online.Name("shop") + `" ADD TABLE sales.numbers`
	begun := false
	f.follows = func(now importjob.Following) bool {
		switch {
		case len(steps) == 0 || now.State == importjob.StateCopying:
		case !begun:
			f.on(t, "postgres", "shop", writable+steps[0].do)
			begun = true
		case now.State == importjob.StateCuttingOver && len(now.Problems) > 0:
			if !strings.Contains(strings.Join(now.Problems, "\n"), steps[0].words) {
				t.Errorf("want %q in %q", steps[0].words, now.Problems)
			}
			f.on(t, "postgres", "shop", writable+steps[0].undo)
			begun, steps = false, steps[1:]
			return len(steps) == 0
		}
		return true
	}
	if err := f.run(t.Context(), generation.Volume(t.TempDir())); err != nil || len(steps) > 0 {
		t.Fatalf("%v; %d changes were not named", err, len(steps))
	}
}

// TestAVolumeThatWasRolledBackBeginsAgain: the source no longer has what the volume lacks, and PostgreSQL would skip it.
func TestAVolumeThatWasRolledBackBeginsAgain(t *testing.T) {
	subset.OnlyInFull(t)
	f := newOnline(t)
	volume := generation.Volume(t.TempDir())
	following := func(_, state string) bool { return state == importjob.StateFollowing }
	f.ended(t, volume, false, following)
	kept := filepath.Join(t.TempDir(), "kept")
	copyAll(t, volume.Dir("g1"), kept)
	f.on(t, "clerk", "odd = 'db", "INSERT INTO mine.small VALUES (1)")
	f.ended(t, volume, false, following)
	if err := os.RemoveAll(volume.Dir("g1")); err != nil {
		t.Fatal(err)
	}
	copyAll(t, kept, volume.Dir("g1"))
	err := f.run(t.Context(), volume)
	if err == nil || !strings.Contains(err.Error(), "it was restored from a snapshot") || !isFinal(err) || !errors.Is(err, importjob.ErrBeginAgain) {
		t.Errorf("%v", err)
	}
	if left := f.left(t); left != "" {
		t.Errorf("it leaves %s on the source", left)
	}
}

// copyAll copies a folder with its owners.
func copyAll(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func TestASlotThatRetainsTooMuchEndsAnOnlineImport(t *testing.T) {
	subset.OnlyInFull(t)
	f := newOnline(t)
	volume := generation.Volume(t.TempDir())
	f.follows = func(now importjob.Following) bool {
		if now.State != importjob.StateCopying {
			f.retained = 1
		}
		return true
	}
	err := f.run(t.Context(), volume)
	if err == nil || !strings.Contains(err.Error(), "maxRetainedWAL allows") || !isFinal(err) || !errors.Is(err, importjob.ErrBeginAgain) {
		t.Errorf("%v", err)
	}
	if left := f.left(t); left != "" {
		t.Errorf("it leaves %s on the source", left)
	}
	if _, err := os.Stat(filepath.Join(volume.Dir("g1"), copiedFile)); err == nil {
		t.Error("the next attempt would continue with a copy that can't follow")
	}
}

func TestAnImportThatIsGivenUpReleasesItsSource(t *testing.T) {
	subset.OnlyInFull(t)
	f := newOnline(t)
	volume := generation.Volume(t.TempDir())
	f.ended(t, volume, false, func(_, state string) bool { return state == importjob.StateFollowing })
	if left := f.left(t); strings.Count(left, "slot ") != 4 || strings.Count(left, "publication ") != 2 { // each slot shows in both databases
		t.Errorf("while it follows there is %s", left)
	}
	f.task.Import.Online.Release = true
	f.on(t, "postgres", "postgres", `REVOKE CONNECT ON DATABASE "odd = 'db" FROM PUBLIC, reader, clerk`)
	if err := f.run(t.Context(), volume); err == nil || !strings.Contains(err.Error(), "in which a publication and a replication slot of the import are left: odd = 'db; grant it CONNECT") {
		t.Errorf("a database that it can't connect to: %v", err)
	}
	f.on(t, "postgres", "postgres", `GRANT CONNECT ON DATABASE "odd = 'db" TO reader`)
	for range 2 {
		if err := f.run(t.Context(), volume); err != nil {
			t.Fatal(err)
		}
	}
	if left := f.left(t); left != "" {
		t.Errorf("it leaves %s on the source", left)
	}
}
