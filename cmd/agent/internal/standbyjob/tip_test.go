package standbyjob

import (
	"testing"
	"time"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
)

func TestTheTipOfAnArchiveIsThatOfItsNewestTimeline(t *testing.T) {
	store := archived(t, map[string]string{of(1, 2): "a", of(1, 3): "a", of(1, 6): "dead", of(2, 4): "b", of(2, 5): "b", "00000002.history": "1\t0/4000100\tx\n", "00000007.history": "2\t0/5000100\tx\n"})
	putOpen(t, store, segment(2, 6), "piece")
	found, err := readTip(t.Context(), store, lineage, 0)
	if err != nil {
		t.Fatal(err)
	}
	if found.newest != 2 || found.last != segment(2, 6) || !found.open || found.end() != segment(2, 5).End() || found.latest != 7 || found.stored.IsZero() {
		t.Errorf("%+v", found)
	}
	if found.whole[1] != segment(1, 6) || found.whole[2] != segment(2, 5) {
		t.Errorf("%+v", found.whole)
	}
	end, err := found.target(t.Context(), store, lineage)
	if want := segment(2, 6).Start().Add(int64(len("piece"))); err != nil || end != (target{end: want}) {
		t.Errorf("%+v, want %s: %v", end, want, err)
	}
	found.last, found.open = segment(2, 5), false
	if end, err = found.target(t.Context(), store, lineage); err != nil || end != (target{segment(2, 5).Start(), segment(2, 5)}) {
		t.Errorf("of one whose archiver didn't say: %+v, %v", end, err)
	}
	for missing, want := range map[string]bool{of(1, 4): true, of(1, 6): false, of(2, 4): true, of(2, 6): false, of(3, 4): false} {
		s := segment(0, 0)
		for timeline := uint32(1); timeline <= 3; timeline++ {
			for number := uint64(4); number <= 6; number++ {
				if of(timeline, number) == missing {
					s = segment(timeline, number)
				}
			}
		}
		if got := found.beyond(s); got != want {
			t.Errorf("beyond %s: %t", missing, got)
		}
	}
	if nothing, err := readTip(t.Context(), store, lineage, segment(2, 9).Start()); err != nil || nothing.newest != 0 {
		t.Errorf("after all of it: %+v, %v", nothing, err)
	}
}

func TestALineageThatTheSourceWritesInsteadIsFound(t *testing.T) {
	store := archived(t, map[string]string{of(1, 2): "a"})
	claim := func(name, uid string, created time.Duration) {
		t.Helper()
		owner := layout.Lineage{Lineage: name, Writer: layout.Writer{UID: uid, Namespace: "demo", Name: "shop"}, SystemIdentifier: "7", Generation: name[2:], SegmentSize: size, Created: time.Now().Add(created)}
		if _, err := layout.Claim(t.Context(), store, owner); err != nil {
			t.Fatal(err)
		}
		if err := wal.New(store).Put(t.Context(), name, of(1, 2), []byte("b"), wal.Info{Writer: "test"}); err != nil {
			t.Fatal(err)
		}
	}
	moved := func(stored time.Time) string {
		t.Helper()
		name, err := movedTo(t.Context(), store, lineage, stored)
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	claim("7-g9", "another cluster", time.Hour)
	claim("7-g8", "u0", -time.Hour)
	if got := moved(time.Time{}); got != "" {
		t.Errorf("it moved to %s", got)
	}
	claim("7-g1", "u0", time.Hour)
	if got := moved(time.Time{}); got != "7-g1" {
		t.Errorf("it moved to %q", got)
	}
	if got := moved(time.Now().Add(time.Hour)); got != "" { // a restore that was undone
		t.Errorf("it moved to %s, which was left again", got)
	}
}
