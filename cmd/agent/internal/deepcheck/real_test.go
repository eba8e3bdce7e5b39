//go:build postgres

package deepcheck

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// A comparison that changes its mind is what a damaged index looks like.
const comparison = `CREATE OR REPLACE FUNCTION public.compare(a int, b int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT %s pg_catalog.btint4cmp(a, b)'`

func TestIndexesAreCheckedALittleAtATimeAndNothingIsLeft(t *testing.T) {
	server := pgtest.Start(t, pgtest.Options{})
	setting := func(sign string) { server.SQL(strings.Replace(comparison, "%s", sign, 1)) }
	setting("")
	server.SQL(`CREATE OPERATOR CLASS public.fickle FOR TYPE int USING btree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 public.compare(int, int);
		CREATE TABLE public.t AS SELECT generate_series(1, 1000) AS n; CREATE INDEX t_n ON public.t (n public.fickle)`)
	file := filepath.Join(t.TempDir(), "checks.json")
	fresh := func() *Walker {
		return &Walker{Server: local.Server{SocketDir: server.SocketDir, Port: 5432}, File: file, Copy: "g1", Primary: true,
			Limits: PrimaryLimits, Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	}
	round := func() (damaged []Damage, turns int) {
		t.Helper()
		for began := time.Now(); ; turns++ { // each turn by an agent that was started anew
			w := fresh()
			if err := w.Turn(t.Context()); err != nil {
				t.Fatal(err)
			}
			if place := w.Place(); place.Last.Ended.After(began.Add(-time.Second)) && place.Database == 0 {
				return place.Damaged, turns
			}
		}
	}
	if damaged, turns := round(); len(damaged) != 0 || turns < 1 {
		t.Fatalf("%d turns: %+v", turns, damaged)
	}
	setting("-")
	damaged := []Damage{}
	for len(damaged) == 0 {
		w := fresh()
		if err := w.Turn(t.Context()); err != nil {
			t.Fatal(err)
		}
		damaged = w.Place().Damaged
	}
	if damaged[0].Index != "public.t_n" || damaged[0].Database != "postgres" || !strings.Contains(damaged[0].Message, "t_n") {
		t.Errorf("%+v", damaged)
	}
	if left := server.SQL("SELECT count(*)::text FROM pg_namespace WHERE nspname LIKE 'howdah_amcheck%'") + server.SQL("SELECT count(*)::text FROM pg_extension WHERE extname = 'amcheck'"); left != "00" {
		t.Errorf("%s of amcheck are left", left)
	}
	server.SQL("REINDEX INDEX public.t_n")
	w := fresh()
	if err := w.Turn(t.Context()); err != nil || len(w.Place().Damaged) != 0 {
		t.Errorf("rebuilt, and still %+v, %v", w.Place().Damaged, err)
	}
}

func TestNoFunctionOfATenantIsCalledInPlaceOfAmcheck(t *testing.T) {
	server := pgtest.Start(t, pgtest.Options{})
	server.SQL("CREATE ROLE tenant")
	server.SQL("CREATE SCHEMA theirs AUTHORIZATION tenant; CREATE EXTENSION amcheck SCHEMA theirs")
	here := local.Server{SocketDir: server.SocketDir, Port: 5432}
	const where = "SELECT n.nspname::text || (SELECT count(*)::text FROM pg_namespace WHERE nspname LIKE 'howdah_amcheck%') FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'amcheck'"
	for _, c := range []struct {
		primary bool
		schema  string // that amcheck is called in; empty: it isn't
	}{{false, ""}, {true, "howdah_amcheck_"}} {
		w := &Walker{Primary: c.primary, Limits: PrimaryLimits}
		err := here.With(t.Context(), "postgres", func(conn *pgx.Conn) error {
			checker, end, err := w.begin(t.Context(), conn, w.Limits.Each)
			if err != nil || (checker == nil) != (c.schema == "") {
				t.Fatalf("primary %t: %+v, %v", c.primary, checker, err)
			}
			if checker == nil {
				return nil
			}
			defer end()
			if found := checker.check(t.Context(), 2662); !found.whole || !strings.Contains(checker.query, c.schema) { // pg_class_oid_index
				t.Errorf("%s: %+v", checker.query, found)
			}
			return nil
		})
		if got := server.SQL(where); err != nil || got != "theirs0" {
			t.Errorf("primary %t: it is in %s, %v", c.primary, got, err)
		}
	}
	server.SQL("ALTER SCHEMA theirs OWNER TO postgres")
	err := here.With(t.Context(), "postgres", func(conn *pgx.Conn) error {
		checker, end, err := (&Walker{}).begin(t.Context(), conn, ReplicaLimits.Each)
		if err != nil || checker == nil {
			t.Fatalf("%+v, %v", checker, err)
		}
		defer end()
		if found := checker.check(t.Context(), 2662); !found.whole || !strings.Contains(checker.query, "theirs.") {
			t.Errorf("%s: %+v", checker.query, found)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// walked has made a round through all databases.
func walked(t *testing.T, server local.Server) Round {
	t.Helper()
	w := &Walker{Server: server, File: filepath.Join(t.TempDir(), "checks.json"), Copy: "g1", Primary: true,
		Limits: PrimaryLimits, Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	for turns := 0; w.Place().Last.Ended.IsZero(); turns++ {
		if err := w.Turn(t.Context()); err != nil {
			t.Log(err)
		}
		if turns == 50 {
			t.Fatalf("no round ends: %+v", w.Place())
		}
	}
	return w.Place().Last
}

func TestARoundSaysWhatItCouldNotCheck(t *testing.T) {
	server := pgtest.Start(t, pgtest.Options{})
	here := local.Server{SocketDir: server.SocketDir, Port: 5432}
	server.SQL("CREATE DATABASE theirs")
	in := func(statement string) {
		t.Helper()
		err := here.With(t.Context(), "theirs", func(conn *pgx.Conn) error {
			_, err := conn.Exec(t.Context(), statement)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	// A schema of a tenant keeps no database from being checked.
	in("CREATE SCHEMA howdah_amcheck")
	whole := walked(t, here)
	if !whole.Whole() || whole.Checked < 200 {
		t.Errorf("%+v", whole)
	}
	// Who owns a database can keep everybody out.
	server.SQL("ALTER DATABASE theirs SET local_preload_libraries = 'none'")
	if round := walked(t, here); round.Databases != 1 || round.Whole() || round.Missed[0].Database != "theirs" || !strings.Contains(round.Missed[0].Why, "plugins/none") {
		t.Errorf("a database that nobody can connect to: %+v, %+v", round, round.Missed)
	}
	server.SQL("ALTER DATABASE theirs RESET local_preload_libraries")
	server.SQL("ALTER DATABASE theirs ALLOW_CONNECTIONS false")
	if round := walked(t, here); round.Databases != 1 || round.Whole() || round.Missed[0].Why != "it allows no connections" {
		t.Errorf("a closed database: %+v, %+v", round, round.Missed)
	}
	server.SQL("ALTER DATABASE theirs ALLOW_CONNECTIONS true")
	in("CREATE TABLE public.t AS SELECT 1 AS n; CREATE INDEX ON public.t (n)")
	in("CREATE TABLE public.u (n int PRIMARY KEY)")
	err := here.With(t.Context(), "theirs", func(conn *pgx.Conn) error {
		if _, err := conn.Exec(t.Context(), "BEGIN; LOCK TABLE public.u"); err != nil {
			return err
		}
		if round := walked(t, here); round.Skipped != 1 || round.Whole() || round.Missed[0].Why != "somebody has locked it" {
			t.Errorf("a locked table: %+v, %+v", round, round.Missed)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestDamagedIndexesLeaveTimeForOthers(t *testing.T) {
	server := pgtest.Start(t, pgtest.Options{})
	server.SQL(`CREATE FUNCTION public.slowly(a int, b int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT pg_catalog.btint4cmp(a, b) FROM pg_sleep(0.04)'`)
	server.SQL(`CREATE OPERATOR CLASS public.slow FOR TYPE int USING btree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 public.slowly(int, int);
		CREATE TABLE public.t AS SELECT generate_series(1, 50) AS n`)
	w := &Walker{Server: local.Server{SocketDir: server.SocketDir, Port: 5432}, File: filepath.Join(t.TempDir(), "checks.json"), Copy: "g1", Primary: true,
		Limits: Limits{Turn: 1600 * time.Millisecond, Each: time.Second, Bytes: 1 << 30}, Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	w.load()
	var oid uint32
	for i := range mostDamaged {
		name := string(rune('a' + i))
		server.SQL("CREATE INDEX " + name + " ON public.t (n public.slow)")
		err := w.Server.With(t.Context(), "postgres", func(conn *pgx.Conn) error {
			return conn.QueryRow(t.Context(), "SELECT $1::text::regclass::oid", "public."+name).Scan(&oid)
		})
		if err != nil {
			t.Fatal(err)
		}
		w.place.Damaged = append(w.place.Damaged, Damage{Database: "postgres", OID: oid, Index: name})
	}
	if err := w.Turn(t.Context()); err != nil || w.place.Now.Checked == 0 {
		t.Errorf("%v, %+v", err, w.place)
	}
	if len(w.place.Damaged) != mostDamaged || w.place.Damaged[0].Index == "a" {
		t.Errorf("the next turn begins with the same: %+v", w.place.Damaged)
	}
}

func TestOnlyPostgreSQLItselfIsCertainOfDamage(t *testing.T) {
	server := pgtest.Start(t, pgtest.Options{})
	server.SQL(strings.Replace(comparison, "%s", "", 1))
	server.SQL(`CREATE OPERATOR CLASS public.fickle FOR TYPE int USING btree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 public.compare(int, int);
		CREATE TYPE public.pair AS (a int, b int); CREATE TYPE public.mood AS ENUM ('good', 'bad'); CREATE DOMAIN public.number AS int;
		CREATE TABLE public.t AS SELECT n, n::text AS word, (n, n)::public.pair AS pair, 'good'::public.mood AS mood, n::public.number AS number FROM generate_series(1, 1000) AS n;
		CREATE INDEX theirs ON public.t (n public.fickle); CREATE INDEX pairs ON public.t (pair); CREATE INDEX numbers ON public.t (number);
		CREATE INDEX part ON public.t (n) WHERE n > 10; CREATE INDEX expression ON public.t ((n + 1));
		CREATE INDEX plain ON public.t (n); CREATE INDEX words ON public.t (word, n); CREATE INDEX moods ON public.t (mood)`)
	certain := server.SQL(`SELECT coalesce(string_agg(name, ' ' ORDER BY name), '') FROM (` + strings.NewReplacer("$1", "16383", "$2", "100").Replace(indexes) + `) AS i(oid, name, bytes, certain) WHERE certain AND name NOT LIKE 'pg_toast%'`)
	if certain != "public.moods public.plain public.words" {
		t.Errorf("certain of %s", certain)
	}
	// A function that raises what PostgreSQL says of a damaged index, and an order that the catalog has wrong.
	server.SQL(`CREATE OR REPLACE FUNCTION public.compare(a int, b int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$BEGIN RAISE 'feigned' USING ERRCODE = 'XX002'; END$$`)
	server.SQL(`UPDATE pg_index SET indoption = '1' WHERE indexrelid = 'public.plain'::regclass`)
	w := &Walker{Server: local.Server{SocketDir: server.SocketDir, Port: 5432}, File: filepath.Join(t.TempDir(), "checks.json"), Copy: "g1", Primary: true,
		Limits: PrimaryLimits, Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	for turns := 0; w.Place().Last.Ended.IsZero() && turns < 50; turns++ {
		if err := w.Turn(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	found := map[string]bool{}
	for _, d := range w.Place().Damaged {
		found[d.Index] = d.Certain
	}
	if sure, is := found["public.theirs"]; !is || sure || !found["public.plain"] || len(found) != 2 {
		t.Errorf("%+v", w.Place().Damaged)
	}
}

func TestALargeIndexIsCheckedAloneAndDisturbsNobody(t *testing.T) {
	server := pgtest.Start(t, pgtest.Options{})
	server.SQL(`CREATE FUNCTION public.slowly(a int, b int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT pg_catalog.btint4cmp(a, b) FROM pg_sleep(0.04)'`)
	server.SQL(`CREATE OPERATOR CLASS public.slow FOR TYPE int USING btree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 public.slowly(int, int);
		CREATE TABLE public.t AS SELECT generate_series(1, 50) AS n; CREATE INDEX big ON public.t (n public.slow)`)
	w := &Walker{Server: local.Server{SocketDir: server.SocketDir, Port: 5432}, File: filepath.Join(t.TempDir(), "checks.json"), Copy: "g1", Primary: true,
		Limits: Limits{Turn: time.Minute, Each: time.Second, Bytes: 1 << 30, Long: time.Minute}, Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	turns := func() {
		t.Helper()
		for range 50 {
			if err := w.Turn(t.Context()); err != nil {
				t.Fatal(err)
			}
			if w.HasLarge() || !w.Place().Last.Ended.IsZero() {
				return
			}
		}
		t.Fatalf("no round ends: %+v", w.Place())
	}
	turns()
	if place := w.Place(); len(place.Large) != 1 || place.Large[0].Index != "public.big" || !place.Last.Ended.IsZero() {
		t.Fatalf("%+v", place)
	}
	nice := 0
	w.Disturbs = func(_ context.Context, pid uint32) string {
		priority, err := syscall.Getpriority(syscall.PRIO_PROCESS, int(pid))
		if nice = 20 - priority; err != nil {
			t.Error(err)
		}
		return "somebody waited for it"
	}
	if err := w.Long(t.Context()); err != nil || len(w.Place().Large) != 1 || w.Place().Large[0].Tries != 1 || nice != lowNice {
		t.Errorf("%v, %+v, nice %d", err, w.Place(), nice)
	}
	w.Disturbs = nil
	if err := w.Long(t.Context()); err != nil || len(w.Place().Large) != 0 {
		t.Errorf("%v, %+v", err, w.Place())
	}
	if turns(); !w.Place().Last.Whole() {
		t.Errorf("%+v", w.Place())
	}
	if left := server.SQL("SELECT count(*)::text FROM pg_namespace WHERE nspname LIKE 'howdah_amcheck%'") + server.SQL("SELECT count(*)::text FROM pg_extension WHERE extname = 'amcheck'"); left != "00" {
		t.Errorf("%s of amcheck are left", left)
	}
	w.Limits.Long, w.place.Last = 1100*time.Millisecond, Round{}
	turns()
	if err := w.Long(t.Context()); err != nil {
		t.Error(err)
	}
	turns()
	if last := w.Place().Last; last.TooLong != 1 || last.Missed[0].Why != "it takes longer than 1.1s" {
		t.Errorf("%+v", last)
	}
}
