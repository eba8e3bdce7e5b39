package wal_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/fault"
	"howdah.dev/howdah/pkg/postgres"
)

// ship puts a part of an open segment, of which the last commit was this many seconds after 1970.
func ship(t testing.TB, archive *wal.Archive, s postgres.Segment, whole []byte, from, to int64) error {
	t.Helper()
	at := time.Unix(to, 0).UTC()
	info := wal.Info{Writer: "shop-0", EndLSN: s.Start().Add(to), LastCommit: &at}
	return archive.PutOpen(t.Context(), lineage, s, from, to, info, func(w io.Writer) error {
		_, err := w.Write(whole[from:to])
		return err
	})
}

func TestAnOpenSegmentIsReadAsFarAsItWasShippedWithZeroesBehind(t *testing.T) {
	archive, s := wal.New(claimed(t)), segment(1, 5)
	whole := content(5, postgres.DefaultSegSize)
	for _, part := range [][2]int64{{0, 1000}, {1000, 70000}, {1000, 80000}, {80000, 80001}, {90000, 90002}} {
		must(t, ship(t, archive, s, whole, part[0], part[1]))
	}
	const end = 80001 // one overlaps, and one is behind a gap
	got, header, err := archive.Get(t.Context(), lineage, s.Name())
	must(t, err)
	if len(got) != postgres.DefaultSegSize || !bytes.Equal(got[:end], whole[:end]) || len(bytes.Trim(got[end:], "\x00")) != 0 {
		t.Errorf("%d bytes, which are others", len(got))
	}
	alone, err := archive.ReadHeader(t.Context(), lineage, s.Name())
	must(t, err)
	for _, h := range []wal.Header{header, alone} {
		if h.Name != s.Name() || h.RawSize != postgres.DefaultSegSize || h.EndLSN != s.Start().Add(end) || h.LastCommit.Unix() != end {
			t.Errorf("%+v", h)
		}
	}
	if got, err := archive.OpenEnd(t.Context(), lineage, s); got != end || err != nil {
		t.Errorf("it continues at %d, %v", got, err)
	}
}

func TestAWholeSegmentComesBeforeItsPiecesAndTakesThemAway(t *testing.T) {
	store := claimed(t)
	archive, s := wal.New(store), segment(1, 5)
	whole := content(5, postgres.DefaultSegSize)
	must(t, ship(t, archive, s, whole, 0, 1000))
	must(t, archive.Put(t.Context(), lineage, s.Name(), whole, wal.Info{}))
	got, _, err := archive.Get(t.Context(), lineage, s.Name())
	if err != nil || !bytes.Equal(got, whole) {
		t.Errorf("beside its piece: %v", err)
	}
	must(t, ship(t, archive, segment(1, 6), whole, 0, 7))
	must(t, archive.RemoveOpen(t.Context(), lineage, s.Name()))
	var left []string
	for info, err := range store.List(t.Context(), layout.WALPrefix(lineage), "") {
		must(t, err)
		left = append(left, info.Key[strings.LastIndex(info.Key, "/")+1:])
	}
	if want := s.Name() + " " + segment(1, 6).Name() + ".open.00000000-00000007"; strings.Join(left, " ") != want {
		t.Errorf("left are %v", left)
	}
}

func TestASegmentThatIsCompletedWhileItIsReadIsReadWhole(t *testing.T) {
	inner := claimed(t)
	archive, s := wal.New(inner), segment(1, 5)
	whole := content(5, postgres.DefaultSegSize)
	must(t, ship(t, archive, s, whole, 0, 1000))
	completed := false
	late := fault.New(inner, fault.Plan{Before: func(c fault.Call) error {
		if !completed && strings.HasSuffix(c.Key, "-000003E8") {
			completed = true
			must(t, archive.Put(t.Context(), lineage, s.Name(), whole, wal.Info{}))
			must(t, archive.RemoveOpen(t.Context(), lineage, s.Name()))
		}
		return nil
	}})
	got, _, err := wal.New(late).Get(t.Context(), lineage, s.Name())
	if err != nil || !bytes.Equal(got, whole) || !completed {
		t.Errorf("%v, %v", err, completed)
	}
}

func TestAnotherContentOfTheSamePieceNamesBothWriters(t *testing.T) {
	archive, s := wal.New(claimed(t)), segment(1, 5)
	must(t, ship(t, archive, s, content(5, 1000), 0, 1000))
	must(t, ship(t, archive, s, content(5, 1000), 0, 1000))
	err := archive.PutOpen(t.Context(), lineage, s, 0, 1000, wal.Info{Writer: "other-0"}, func(w io.Writer) error {
		_, err := w.Write(content(6, 1000))
		return err
	})
	if !errors.Is(err, wal.ErrConflict) || !strings.Contains(err.Error(), "shop-0") || !strings.Contains(err.Error(), "other-0") {
		t.Error(err)
	}
}

func TestAnOpenSegmentIsCoveredBehindAllThatAreWholeAndNowhereElse(t *testing.T) {
	for name, test := range map[string]struct {
		whole  []uint64
		open   []uint64
		from   int64 // of the pieces
		last   uint64
		count  int
		holes  int
		isOpen bool
	}{
		"beyond the last":               {whole: []uint64{3, 4}, open: []uint64{5}, last: 5, count: 3, isOpen: true},
		"of which the begin is missing": {whole: []uint64{3, 4}, open: []uint64{5}, from: 8, last: 4, count: 2},
		"that is whole":                 {whole: []uint64{3, 4}, open: []uint64{4}, last: 4, count: 2},
		"after a gap":                   {whole: []uint64{3}, open: []uint64{5}, last: 3, count: 1},
		"with whole ones after it":      {whole: []uint64{3, 5}, open: []uint64{4}, last: 5, count: 2, holes: 1},
		"alone":                         {open: []uint64{5}, last: 5, count: 1, isOpen: true},
		"alone, before a whole one":     {whole: []uint64{6}, open: []uint64{5}, last: 6, count: 1},
	} {
		archive, whole := wal.New(claimed(t)), content(1, 100)
		for _, n := range test.whole {
			must(t, archive.Put(t.Context(), lineage, segment(1, n).Name(), whole, wal.Info{}))
		}
		for _, n := range test.open {
			must(t, ship(t, archive, segment(1, n), whole, test.from, 50))
			must(t, ship(t, archive, segment(1, n), whole, 50, 60))
		}
		coverage, err := archive.Coverage(t.Context(), lineage)
		must(t, err)
		got := coverage.Timelines[0]
		if got.Last != segment(1, test.last) || got.Segments != test.count || len(got.Holes) != test.holes || got.Open != test.isOpen {
			t.Errorf("%s: %+v", name, got)
		}
		header, err := archive.ReadHeader(t.Context(), lineage, got.Last.Name())
		if end := segment(1, 5).Start().Add(60); err != nil || test.isOpen && (header.EndLSN != end || header.LastCommit.Unix() != 60) {
			t.Errorf("%s: %+v, %v", name, header, err)
		}
		if _, _, err := archive.Get(t.Context(), lineage, segment(1, test.open[0]).Name()); name == "with whole ones after it" && !errors.Is(err, objstore.ErrNotFound) {
			t.Errorf("%s it is read: %v", name, err)
		}
		if missing, err := archive.MissingSegments(t.Context(), lineage, got.First, segment(1, 5)); err != nil || test.isOpen && len(missing) != 1 {
			t.Errorf("%s: who needs it whole lacks %v, %v", name, missing, err)
		}
	}
}

func TestADamagedPieceIsNamed(t *testing.T) {
	store := claimed(t)
	archive, s := wal.New(store), segment(1, 5)
	must(t, ship(t, archive, s, content(5, 1000), 0, 1000))
	key := layout.TimelinePrefix(lineage, 1) + s.Name() + ".open.00000000-000003E8"
	object, err := store.Get(t.Context(), key, 1<<20)
	must(t, err)
	object[len(object)-1] ^= 1
	must(t, store.Put(t.Context(), key, object, objstore.PutOptions{}))
	if _, _, err := archive.Get(t.Context(), lineage, s.Name()); !errors.Is(err, wal.ErrCorrupt) || !strings.Contains(err.Error(), ".open.") {
		t.Error(err)
	}
}

func FuzzOpenSegment(f *testing.F) {
	f.Add("000000010000000000000005.open.00000000-000003E8")
	f.Add("000000010000000000000005.open.00000001-00000001")
	f.Add("00000002.history.open.00000000-00000001")
	f.Fuzz(func(t *testing.T, name string) {
		segment, is := wal.OpenSegment(name)
		if _, err := postgres.ParseWALName(segment); is && (err != nil || len(name) != len(segment)+len(".open.00000000-000003E8")) {
			t.Errorf("%q is taken for a piece of %q: %v", name, segment, err)
		}
		if _, err := postgres.ParseWALName(name); is && err == nil {
			t.Errorf("PostgreSQL may archive %q", name)
		}
	})
}
