package archive

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/fault"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
)

const aheadLineage = "7-g1"

func aheadSegment(n uint64) postgres.Segment {
	return postgres.Segment{Timeline: 2, Number: n, SegSize: postgres.DefaultSegSize}
}

// archived puts segments with a byte of their number in them.
func archived(t *testing.T, store objstore.Store, numbers ...uint64) *wal.Archive {
	t.Helper()
	archive := wal.New(store)
	for _, n := range numbers {
		if err := archive.Put(t.Context(), aheadLineage, aheadSegment(n).Name(), []byte{byte(n)}, wal.Info{}); err != nil {
			t.Fatal(err)
		}
	}
	return archive
}

func always(postgres.Segment) bool { return true }

func numbers(from, to uint64) (all []uint64) {
	for n := from; n <= to; n++ {
		all = append(all, n)
	}
	return all
}

func TestSegmentsAreFetchedAheadWithinABoundAndThrownAway(t *testing.T) {
	dir := t.TempDir()
	a := NewAhead(archived(t, mem.New(), numbers(1, 40)...), aheadLineage, dir, postgres.DefaultSegSize)
	path := filepath.Join(t.TempDir(), "RECOVERYXLOG")
	for n := uint64(1); n <= 20; n++ {
		if err := a.Segment(t.Context(), aheadSegment(n), path, always); err != nil {
			t.Fatal(err)
		}
		if content, err := os.ReadFile(path); err != nil || len(content) != 1 || content[0] != byte(n) {
			t.Errorf("%d: %v, %v", n, content, err)
		}
	}
	a.working.Wait()
	if left, err := os.ReadDir(dir); err != nil || len(left) != maxAhead {
		t.Errorf("%d segments wait, %v", len(left), err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v are left, %v", left, err)
	}
}

func TestLargeSegmentsAreFetchedAheadOneAtATime(t *testing.T) {
	for size, want := range map[uint64]int{1 << 20: maxAhead, 16 << 20: 8, 64 << 20: 2, 1 << 30: 1} {
		if got := NewAhead(nil, "", "", size).depth; got != want {
			t.Errorf("%d bytes: %d ahead", size, got)
		}
	}
}

func TestAFailureAheadCountsOnlyOnceItIsAsked(t *testing.T) {
	broken := true
	store := mem.New()
	archived(t, store, 1, 2)
	flaky := fault.New(store, fault.Plan{Before: func(c fault.Call) error {
		if broken && filepath.Base(c.Key) == aheadSegment(2).Name() {
			return objstore.ErrUnavailable
		}
		return nil
	}})
	a := NewAhead(wal.New(flaky), aheadLineage, t.TempDir(), postgres.DefaultSegSize)
	defer a.Close()
	path := filepath.Join(t.TempDir(), "x")
	if err := a.Segment(t.Context(), aheadSegment(1), path, always); err != nil {
		t.Fatal(err)
	}
	a.working.Wait()
	broken = false
	archived(t, store, 3)
	for n := uint64(2); n <= 3; n++ {
		if err := a.Segment(t.Context(), aheadSegment(n), path, always); err != nil {
			t.Errorf("%d: %v", n, err)
		}
	}
	if err := a.Segment(t.Context(), aheadSegment(4), path, always); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("%v", err)
	}
}

func TestADamagedSegmentIsNeverHandedOver(t *testing.T) {
	store := mem.New()
	archive := archived(t, store, 1)
	key, err := wal.Key(aheadLineage, aheadSegment(1).Name())
	if err != nil {
		t.Fatal(err)
	}
	object, err := store.Get(t.Context(), key, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	object[len(object)-1] ^= 1
	if err := store.Put(t.Context(), key, object, objstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	a := NewAhead(archive, aheadLineage, t.TempDir(), postgres.DefaultSegSize)
	path := filepath.Join(t.TempDir(), "x")
	none := func(postgres.Segment) bool { return false }
	if err := a.Segment(t.Context(), aheadSegment(1), path, none); !errors.Is(err, wal.ErrCorrupt) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Error("it is there")
	}
	if left, _ := os.ReadDir(a.dir); len(left) != 0 {
		t.Errorf("%v are left", left)
	}
}
