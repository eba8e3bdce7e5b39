//go:build postgres

package deepcheck

import (
	"log/slog"
	"path/filepath"
	"strings"
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
			checker, end, err := w.begin(t.Context(), conn)
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
		checker, end, err := (&Walker{Limits: ReplicaLimits}).begin(t.Context(), conn)
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
	if round := walked(t, here); round.Databases != 1 || round.Whole() || round.First.Database != "theirs" || !strings.Contains(round.First.Why, "plugins/none") {
		t.Errorf("a database that nobody can connect to: %+v, %+v", round, round.First)
	}
	server.SQL("ALTER DATABASE theirs RESET local_preload_libraries")
	server.SQL("ALTER DATABASE theirs ALLOW_CONNECTIONS false")
	if round := walked(t, here); round.Databases != 1 || round.Whole() || round.First.Why != "it allows no connections" {
		t.Errorf("a closed database: %+v, %+v", round, round.First)
	}
	server.SQL("ALTER DATABASE theirs ALLOW_CONNECTIONS true")
	in("CREATE TABLE public.t AS SELECT 1 AS n; CREATE INDEX ON public.t (n)")
	in("CREATE TABLE public.u (n int PRIMARY KEY)")
	err := here.With(t.Context(), "theirs", func(conn *pgx.Conn) error {
		if _, err := conn.Exec(t.Context(), "BEGIN; LOCK TABLE public.u"); err != nil {
			return err
		}
		if round := walked(t, here); round.Skipped != 1 || round.Whole() || round.First.Why != "somebody has locked it" {
			t.Errorf("a locked table: %+v, %+v", round, round.First)
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
