package restorejob

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/pkg/walsocket"
)

func segment(n uint64) postgres.Segment {
	return postgres.Segment{Timeline: 2, Number: n, SegSize: postgres.DefaultSegSize}
}

// sourceOf serves the given segments of timeline 2 up to segment 5, and the history of that timeline.
func sourceOf(t *testing.T, store objstore.Store, numbers ...uint64) *source {
	t.Helper()
	archive := wal.New(store)
	for _, n := range numbers {
		if err := archive.Put(t.Context(), "7-g0", segment(n).Name(), []byte{byte(n)}, wal.Info{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Put(t.Context(), "7-g0", "00000002.history", []byte("1\t0/1000000\tx\n"), wal.Info{}); err != nil {
		t.Fatal(err)
	}
	s := newSource(archive, "7-g0", segment(5), t.TempDir(), func(postgres.Segment) {})
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func fetched(t *testing.T, s *source, name string) ([]byte, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "RECOVERYXLOG")
	if err := s.Fetch(t.Context(), name, path); err != nil {
		return nil, err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content, nil
}

func TestSegmentsAreServedAndServedAgain(t *testing.T) {
	s := sourceOf(t, mem.New(), 3, 4, 5)
	for _, n := range []uint64{3, 4, 5, 4, 5} {
		content, err := fetched(t, s, segment(n).Name())
		if err != nil || len(content) != 1 || content[0] != byte(n) {
			t.Errorf("%d: %v, %v", n, content, err)
		}
	}
	if s.failed() != nil {
		t.Error(s.failed())
	}
}

func TestTheLastSegmentStaysWhatItWasIfAnythingMayLieBeyondATarget(t *testing.T) {
	store := mem.New()
	s := sourceOf(t, store, 4, 5)
	s.keep = true
	for _, n := range []uint64{4, 5} {
		if _, err := fetched(t, s, segment(n).Name()); err != nil {
			t.Fatal(err)
		}
	}
	var all []string
	for object, err := range store.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, object.Key)
	}
	if err := store.Delete(t.Context(), all...); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if content, err := fetched(t, s, segment(5).Name()); err != nil || content[0] != 5 {
			t.Errorf("%v, %v", content, err)
		}
	}
}

func TestRecoveryEndsOnlyWhereThePlanEnds(t *testing.T) {
	s := sourceOf(t, mem.New(), 3, 5, 6)
	for name, want := range map[string]error{
		segment(6).Name():          walsocket.ErrNotArchived, // archived, but not planned
		"000000030000000000000004": walsocket.ErrNotArchived, // another timeline
		"000000010000000000000004": walsocket.ErrNotArchived, // a timeline that was left
		"00000003.history":         walsocket.ErrNotArchived,
		"00000001.history":         walsocket.ErrNotArchived,
	} {
		if _, err := fetched(t, s, name); !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s.failed() != nil {
		t.Errorf("a failure: %v", s.failed())
	}
	if got := s.lacking(); got != "000000010000000000000004" {
		t.Errorf("of the timeline that was left %q is noted", got)
	}
	if content, err := fetched(t, s, "00000002.history"); err != nil || len(content) == 0 {
		t.Errorf("history: %v", err)
	}
	if _, err := fetched(t, s, segment(4).Name()); errors.Is(err, walsocket.ErrNotArchived) || !errors.Is(s.failed(), errMissing) {
		t.Errorf("a hole within the plan ends recovery as if it were the end: %v", err)
	}
}

func TestAStoreThatIsAwayDoesNotEndTheArchive(t *testing.T) {
	s := newSource(wal.New(away{}), "7-g0", segment(5), t.TempDir(), func(postgres.Segment) {})
	if _, err := fetched(t, s, segment(3).Name()); errors.Is(err, walsocket.ErrNotArchived) || !errors.Is(s.failed(), objstore.ErrUnavailable) {
		t.Errorf("%v", err)
	}
	if _, err := fetched(t, s, "00000003.history"); errors.Is(err, walsocket.ErrNotArchived) {
		t.Errorf("history: %v", err)
	}
}

// away is a store that can't be reached.
type away struct{ objstore.Store }

func (away) Get(context.Context, string, int64) ([]byte, error) {
	return nil, &objstore.Error{Op: "get", Kind: objstore.ErrUnavailable}
}
