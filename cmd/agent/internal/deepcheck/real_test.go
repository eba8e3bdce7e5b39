//go:build postgres

package deepcheck

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	if damaged, turns := round(); len(damaged) != 0 || turns < 2 {
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
	other := fresh()
	other.Copy = "g1~2"
	if place := other.Place(); place.Index != 0 || place.Database != 0 || !place.RoundEnded.IsZero() {
		t.Errorf("another copy goes on where the first was: %+v", place)
	}
}
