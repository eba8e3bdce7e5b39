package readnotice

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/objstore/readonly"
)

func none(t *testing.T) func(error) {
	return func(err error) { t.Error(err) }
}

// of are the names of those who read.
func of(t *testing.T, store objstore.Store, now time.Time) string {
	t.Helper()
	found, err := List(t.Context(), store, "7-g1", now)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, reader := range found {
		names = append(names, reader.Name)
	}
	return strings.Join(names, ", ")
}

func TestAReaderCountsAsLongAsItReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		stop := Announce(t.Context(), store, "7-g1", Reader{ID: "a", Name: "Restore demo/back", Backup: "b1"}, none(t))
		time.Sleep(30 * time.Hour)
		synctest.Wait()
		found, err := List(t.Context(), store, "7-g1", time.Now())
		if err != nil || len(found) != 1 || !found[0].Reads("b1") || found[0].Reads("b2") || !strings.HasPrefix(found[0].String(), "Restore demo/back is reading b1, ") {
			t.Errorf("found %v, %v", found, err)
		}
		if got := of(t, store, time.Now().Add(-24*time.Hour)); got != "Restore demo/back" {
			t.Errorf("by a clock that is behind: %s", got)
		}
		stop()
		if got := of(t, store, time.Now()); got != "" {
			t.Errorf("at its end: %s", got)
		}
	})
}

func TestAReaderThatWasKilledCountsForAnHour(t *testing.T) {
	clock := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	store := mem.NewAt(func() time.Time { return clock })
	stop := Announce(t.Context(), store, "7-g1", Reader{ID: "a", Name: "killed"}, none(t))
	defer stop()
	if got := of(t, store, clock.Add(59*time.Minute)); got != "killed" {
		t.Errorf("before: %q", got)
	}
	if got := of(t, store, clock.Add(time.Hour)); got != "" {
		t.Errorf("after: %q", got)
	}
	if _, err := store.Stat(t.Context(), layout.ReaderKey("7-g1", "a")); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("what it left stays: %v", err)
	}
}

func TestWhoMayNotWriteReadsAllTheSame(t *testing.T) {
	told := error(nil)
	stop := Announce(t.Context(), readonly.New(mem.New()), "7-g1", Reader{ID: "a"}, func(err error) { told = err })
	if stop(); !errors.Is(told, objstore.ErrReadOnly) {
		t.Errorf("told %v", told)
	}
}

// Whoever can write to the bucket can write anything there.
func TestWhatCanNotBeReadMayReadAnything(t *testing.T) {
	for said, name := range map[string]string{
		"garbage": "x", `{"reader":"a\u001b[31m\u00e9","backup":"b1"}`: "a?[31m?", `{"reader":"b","backup":"../.."}`: "x", strings.Repeat(" ", maxContent+1): "x",
		`{"reader":"` + strings.Repeat("n", 500) + `"}`: strings.Repeat("n", maxText),
	} {
		store := mem.New()
		if err := store.Put(t.Context(), layout.ReaderKey("7-g1", "x"), []byte(said), objstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		found, err := List(t.Context(), store, "7-g1", time.Now())
		if err != nil || len(found) != 1 || found[0].Name != name || !found[0].Reads("b1") {
			t.Errorf("%.40q: found %v, %v", said, found, err)
		}
	}
}

// TestAReaderBehindVeryManyIsNotOverlooked: they may be what was left for long, and are few less each time.
func TestAReaderBehindVeryManyIsNotOverlooked(t *testing.T) {
	clock := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	store := mem.NewAt(func() time.Time { return clock })
	for n := range maxReaders + 5 {
		if err := store.Put(t.Context(), layout.ReaderKey("7-g1", fmt.Sprintf("a%04d", n)), nil, objstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	clock = clock.Add(Lasts)
	stop := Announce(t.Context(), store, "7-g1", Reader{ID: "z", Name: "behind them"}, none(t))
	defer stop()
	if got := of(t, store, clock); got != "Somebody" {
		t.Errorf("first: %s", got)
	}
	if got := of(t, store, clock); got != "behind them" {
		t.Errorf("then: %s", got)
	}
}
