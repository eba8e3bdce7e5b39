package deepcheck

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
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
	big := Missed{Database: "shop", Index: "public.big", Why: why(&pgconn.PgError{Code: "57014"}, PrimaryLimits.Each), TooLong: true}
	closed := Missed{Database: "closed", Why: "it allows no connections"}
	for name, c := range map[string]struct {
		round Round
		says  string
	}{
		"whole":        {Round{Checked: 9}, ""},
		"one index":    {Round{Checked: 9, Skipped: 1, Missed: []Missed{big}}, "indexes of others: 1. The first: index public.big in database shop: it takes longer than 10s."},
		"one database": {Round{Checked: 9, Databases: 1, Skipped: 1, Missed: []Missed{closed, big}}, "indexes of others: 1. The first: database closed: it allows no connections; index public.big in database shop: it takes longer than 10s."},
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
	for range mostMissed {
		round.skip(big)
	}
	round.miss(closed)
	round.miss(Missed{Database: "other"})
	if m := round.Missed; len(m) != mostMissed || m[0].Database != "closed" || m[1].Database != "other" || m[2] != big ||
		round.Skipped != mostMissed || round.TooLong != mostMissed || round.Databases != 2 {
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

func TestWhatAUserMaySayMakesRoomForWhatPostgreSQLSays(t *testing.T) {
	w := &Walker{File: filepath.Join(t.TempDir(), "checks.json"), Copy: "g1", Log: slog.New(slog.DiscardHandler)}
	w.load()
	for oid := range uint32(mostDamaged) {
		w.note(database{Name: "shop"}, index{OID: oid}, result{damage: "item order"})
	}
	w.note(database{Name: "shop"}, index{OID: 99, Certain: true}, result{damage: "item order"})
	certain := slices.IndexFunc(w.place.Damaged, func(d Damage) bool { return d.Certain })
	if len(w.place.Damaged) != mostDamaged || certain < 0 || w.place.Damaged[certain].OID != 99 || w.place.Now.Skipped != 1 {
		t.Errorf("%+v", w.place)
	}
	w.note(database{Name: "shop"}, index{OID: 99}, result{whole: true})
	if len(w.place.Damaged) != mostDamaged-1 {
		t.Errorf("it was rebuilt: %+v", w.place)
	}
}

func TestAnIndexThatTakesLongWaitsForItsOwnTurn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "checks.json")
	w := &Walker{File: file, Copy: "g1", Limits: Limits{Each: time.Second, Long: time.Minute}, Log: slog.New(slog.DiscardHandler)}
	w.load()
	long := result{err: &pgconn.PgError{Code: "57014"}}
	if w.postpone(database{Name: "shop"}, index{OID: 7, Name: "public.a"}, result{err: &pgconn.PgError{Code: "55P03"}}) || !w.postpone(database{Name: "shop"}, index{OID: 8, Name: "public.big"}, long) {
		t.Errorf("%+v", w.place)
	}
	if place := w.Place(); len(place.Large) != 1 || place.Large[0].Index != "public.big" || place.Now.Skipped != 0 {
		t.Errorf("%+v", place)
	}
	w.try("shop", "public.big")
	next := &Walker{File: file, Copy: "g1"}
	if place := next.Place(); len(place.Large) != 0 || place.Now.Skipped != 1 {
		t.Errorf("the server ended at it, and it is checked again: %+v", place)
	}
	w.Limits.Long = w.Limits.Each
	if w.postpone(database{Name: "shop"}, index{OID: 9}, long) {
		t.Error("nobody wants it to take longer")
	}
}

func TestWhyACheckEndedEarly(t *testing.T) {
	for name, c := range map[string]struct {
		found result
		err   error
		want  string
	}{
		"whole":                   {result{whole: true}, nil, ""},
		"damaged":                 {result{damage: "item order"}, nil, ""},
		"longer than it may":      {result{err: &pgconn.PgError{Code: "57014"}}, nil, ""},
		"somebody waited":         {result{err: context.Canceled}, disturbance("somebody waited for it"), "somebody waited for it"},
		"a replica had to replay": {result{err: &pgconn.PgError{Code: "40001"}}, nil, "the replay of WAL waited for it"},
		"locked":                  {result{err: &pgconn.PgError{Code: "55P03"}}, nil, "somebody has locked it"},
		"nobody gets in":          {result{}, errors.New("no entry"), "no entry"},
	} {
		if got := earlyEnd(c.found, c.err); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
