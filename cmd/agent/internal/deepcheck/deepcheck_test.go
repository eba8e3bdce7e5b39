package deepcheck

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

func TestARoundIsThatOfOneCopyInOneRole(t *testing.T) {
	file := filepath.Join(t.TempDir(), "checks.json")
	walker := func(of string, primary bool) *Walker { return &Walker{File: file, Copy: of, Primary: primary} }
	first := walker("g1", false)
	first.load()
	first.place.Database, first.place.Last.Ended = 7, time.Now()
	first.place.Damaged = []Damage{{Database: "shop", OID: 9, Index: "public.a"}}
	first.save()
	for name, c := range map[string]struct {
		walker          *Walker
		damaged         int
		ended, database bool
	}{
		"an agent that was started anew": {walker("g1", false), 1, true, true},
		"a promoted replica":             {walker("g1", true), 1, false, false}, // with amcheck everywhere, it finds more
		"another copy":                   {walker("g1.c1", false), 0, false, false},
	} {
		if place := c.walker.Place(); len(place.Damaged) != c.damaged || place.Last.Ended.IsZero() == c.ended || (place.Database != 0) != c.database {
			t.Errorf("%s: %+v", name, place)
		}
	}
}

func TestARoundThatMissedSomethingIsNotWhole(t *testing.T) {
	ended := time.Date(2026, 3, 3, 12, 0, 0, 0, time.UTC)
	big := Missed{Database: "shop", Index: "public.big", Why: why(&pgconn.PgError{Code: "57014"}, PrimaryLimits)}
	closed := Missed{Database: "closed", Why: "it allows no connections"}
	for name, c := range map[string]struct {
		round Round
		says  string
	}{
		"whole":        {Round{Checked: 9}, ""},
		"one index":    {Round{Checked: 9, Skipped: 1, First: &big}, "indexes of others: 1. The first is index public.big in database shop: it takes longer than 10s."},
		"one database": {Round{Checked: 9, Databases: 1, First: &closed}, "databases: 1, and indexes of others: 0. The first is database closed: it allows no connections."},
	} {
		if c.round.Whole() || c.round.Unchecked() != "" {
			t.Errorf("%s: it has not ended, and is %+v", name, c.round)
		}
		c.round.Ended = ended
		if got := c.round.Unchecked(); c.round.Whole() != (c.says == "") || !strings.HasSuffix(got, c.says) {
			t.Errorf("%s: %s", name, got)
		}
	}
	round := Round{}
	round.skip(big)
	round.miss(closed)
	round.miss(Missed{Database: "other"})
	if round.First.Database != "closed" || round.Skipped != 1 || round.Databases != 2 {
		t.Errorf("%+v", round)
	}
}

func TestTheNextRoundIsDueAfterARest(t *testing.T) {
	now := time.Date(2026, 3, 3, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		place Place
		rests bool
	}{
		"the first":                       {Place{}, false},
		"an hour after a whole one":       {Place{Last: Round{Ended: now.Add(-time.Hour)}}, true},
		"a day after a whole one":         {Place{Last: Round{Ended: now.Add(-24 * time.Hour)}}, false},
		"four hours after an incomplete":  {Place{Last: Round{Ended: now.Add(-4 * time.Hour), Skipped: 1}}, false},
		"in the midst of one":             {Place{Last: Round{Ended: now.Add(-time.Hour)}, Database: 5}, false},
		"of which the clock was put back": {Place{Last: Round{Ended: now.Add(time.Hour)}}, false},
	} {
		w := &Walker{Rest: 24 * time.Hour, Now: func() time.Time { return now }, place: &c.place}
		if w.rests() != c.rests {
			t.Errorf("%s: %t", name, !c.rests)
		}
	}
}

func TestAnIndexAtWhichTheServerEndedIsSkipped(t *testing.T) {
	file := filepath.Join(t.TempDir(), "checks.json")
	first := &Walker{File: file, Copy: "g1", Primary: true}
	first.load()
	first.place.Trying = &Missed{Database: "shop", Index: "public.a", Why: "it ended"}
	first.save()
	for range 2 {
		next := &Walker{File: file, Copy: "g1", Primary: true}
		if place := next.Place(); place.Now.Skipped != 1 || place.Trying != nil {
			t.Errorf("%+v", place)
		}
		next.save()
	}
}

func TestAnIndexThatIsDamagedBesideTooManyIsNotForgotten(t *testing.T) {
	w := &Walker{File: filepath.Join(t.TempDir(), "checks.json"), Copy: "g1", Log: slog.New(slog.DiscardHandler)}
	w.load()
	for oid := range uint32(mostDamaged + 1) {
		w.note(database{Name: "shop"}, index{OID: oid}, result{damage: "item order"})
	}
	if place := w.Place(); len(place.Damaged) != mostDamaged || place.Now.Skipped != 1 {
		t.Errorf("%+v", place)
	}
}
