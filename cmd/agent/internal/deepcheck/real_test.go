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
			if place := w.Place(); place.RoundEnded.After(began.Add(-time.Second)) && place.Database == 0 {
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
	if left := server.SQL("SELECT count(*)::text FROM pg_namespace WHERE nspname = 'howdah_amcheck'") + server.SQL("SELECT count(*)::text FROM pg_extension WHERE extname = 'amcheck'"); left != "00" {
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
	const where = "SELECT n.nspname::text || (SELECT count(*)::text FROM pg_namespace WHERE nspname = 'howdah_amcheck') FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'amcheck'"
	for _, c := range []struct {
		primary bool
		schema  string // that amcheck is called in; empty: it isn't
	}{{false, ""}, {true, "howdah_amcheck."}} {
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
