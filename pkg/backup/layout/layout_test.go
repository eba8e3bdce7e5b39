package layout_test

import (
	"errors"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/backup/format"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func claim(lineage, uid string) layout.Lineage {
	return layout.Lineage{
		Lineage: lineage, Writer: layout.Writer{UID: uid, Namespace: "demo", Name: "shop"}, SystemIdentifier: "7",
		Generation: "g1", SegmentSize: 16 << 20, PGMajor: 17, Created: now,
	}
}

func TestARepositoryIsMarkedOnce(t *testing.T) {
	store := mem.New()
	if _, err := layout.ReadMarker(t.Context(), store); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("an empty bucket: %v", err)
	}
	first, err := layout.Ensure(t.Context(), store, now)
	if err != nil || first.Format != format.Current || !first.Created.Equal(now) {
		t.Errorf("got %+v, %v", first, err)
	}
	second, err := layout.Ensure(t.Context(), store, now.Add(time.Hour))
	if err != nil || second != first {
		t.Errorf("again: got %+v, %v", second, err)
	}
}

func TestARepositoryOfALaterVersionIsRefused(t *testing.T) {
	for _, marker := range []string{`{"format": 3}`, `{"format": 1, "encryption": "aes"}`, `garbage`} {
		store := mem.New()
		if err := store.Put(t.Context(), layout.MarkerKey, []byte(marker), objstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := layout.Ensure(t.Context(), store, now); !errors.Is(err, layout.ErrFormat) {
			t.Errorf("%s: got %v", marker, err)
		}
	}
}

func TestALineageHasOneWriterAndASecondIsRefusedByName(t *testing.T) {
	store := mem.New()
	for range 2 {
		got, err := layout.Claim(t.Context(), store, claim("7-g1", "u1"))
		if err != nil || got.Writer.UID != "u1" {
			t.Fatalf("got %+v, %v", got, err)
		}
	}
	_, err := layout.Claim(t.Context(), store, claim("7-g1", "u2"))
	if !errors.Is(err, layout.ErrForeign) || !strings.Contains(err.Error(), "u1") || !strings.Contains(err.Error(), "u2") {
		t.Errorf("got %v", err)
	}
}

func TestOfManyClaimsAtOnceOneWins(t *testing.T) {
	store, won := mem.New(), atomic.Int32{}
	var writers sync.WaitGroup
	for i := range 8 {
		writers.Go(func() {
			_, err := layout.Claim(t.Context(), store, claim("7-g1", string(rune('a'+i))))
			if err == nil {
				won.Add(1)
			} else if !errors.Is(err, layout.ErrForeign) {
				t.Error(err)
			}
		})
	}
	writers.Wait()
	if won.Load() != 1 {
		t.Errorf("%d won", won.Load())
	}
}

func TestAClaimThatMakesNoSenseIsRefused(t *testing.T) {
	with := func(change func(*layout.Lineage)) layout.Lineage {
		l := claim("7-g1", "u1")
		change(&l)
		return l
	}
	for _, bad := range []layout.Lineage{
		claim("../x", "u1"), claim("7-g1", ""), {Lineage: "7-g1", Writer: layout.Writer{UID: "u"}, SegmentSize: 5},
		with(func(l *layout.Lineage) { l.Writer.Name = strings.Repeat("x", 254) }),
		with(func(l *layout.Lineage) { l.Writer.Namespace = "demo\x1b[2J" }),
		with(func(l *layout.Lineage) { l.Writer.UID = "u\n1" }),
		with(func(l *layout.Lineage) { l.Generation = "g\x00" }),
		with(func(l *layout.Lineage) { l.SystemIdentifier = strings.Repeat("7", 1<<10) }),
		with(func(l *layout.Lineage) {
			l.Created = time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -12*60*60))
		}),
	} {
		if _, err := layout.Claim(t.Context(), mem.New(), bad); err == nil || errors.Is(err, objstore.ErrNotFound) {
			t.Errorf("%+v: got %v", bad, err)
		}
	}
}

// Whoever can write to the bucket may have written it.
func TestALineageThatNamesAWriterWhichCannotBeIsDamaged(t *testing.T) {
	for _, writer := range []string{strings.Repeat("x", 500<<10), `shop\u001b[2J`} {
		store := mem.New()
		body := `{"format":2,"lineage":"7-g1","writer":{"uid":"u1","namespace":"demo","name":"` + writer + `"},"segmentSize":16777216}`
		if err := store.Put(t.Context(), layout.LineageKey("7-g1"), []byte(body), objstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := layout.ReadLineage(t.Context(), store, "7-g1"); !layout.Damaged(err) || len(err.Error()) > 500 {
			t.Errorf("%.20s: %.100v", writer, err)
		}
	}
}

func TestLineagesAreListed(t *testing.T) {
	store := mem.New()
	for _, name := range []string{"8-g1", "7-g1", "7-g2"} {
		if _, err := layout.Claim(t.Context(), store, claim(name, "u1")); err != nil {
			t.Fatal(err)
		}
	}
	got, err := layout.Lineages(t.Context(), store)
	if want := []string{"7-g1", "7-g2", "8-g1"}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, %v", got, err)
	}
}
