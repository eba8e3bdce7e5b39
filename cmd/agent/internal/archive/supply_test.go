package archive

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/fault"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/pkg/walsocket"
)

// left is a history in which timeline 1 was left in the middle of segment 8, for 3. Timeline 2 is somebody else's.
var left = postgres.TimelineHistory{Timeline: 3, Ancestors: []postgres.TimelineSwitch{{Timeline: 1, LSN: 8*postgres.DefaultSegSize + 100}}}

// of names a segment.
func of(timeline uint32, number uint64) string {
	return postgres.Segment{Timeline: timeline, Number: number, SegSize: postgres.DefaultSegSize}.Name()
}

// behind makes the archiver of a replica, beside an archive with these segments, of which the last is the newest that the
// primary says it has archived.
func behind(t *testing.T, store objstore.Store, segments ...string) *Archiver {
	t.Helper()
	for _, name := range segments {
		if err := wal.New(store).Put(t.Context(), layout.LineageName(system, "g1"), name, []byte(name), wal.Info{}); err != nil {
			t.Fatal(err)
		}
	}
	a := newArchiver(t, store, nil)
	a.SetPrimary(false)
	a.Confirmed(segments[len(segments)-1], true)
	return a
}

// supplied lets it fetch, and says where what was fetched ahead waits.
func (a *Archiver) supplied(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "fetched")
	if err := a.Supply(left, dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // before the folder goes
		a.EndSupply()
		a.removing.Wait()
	})
	return dir
}

// get asks for a file as restore_command does.
func (a *Archiver) get(name string) (string, error) {
	path := filepath.Join(a.walDir, "RECOVERYXLOG")
	if err := a.Fetch(context.Background(), name, path); err != nil {
		return "", err
	}
	content, err := os.ReadFile(path)
	return string(content), errors.Join(err, os.Remove(path))
}

func TestAReplicaThatFellBehindGetsTheWALOfItsPrimaryAndNoOther(t *testing.T) {
	a := behind(t, mem.New(), of(1, 6), of(1, 7), of(1, 8), of(1, 9), of(2, 8), of(3, 8), of(3, 9), of(3, 10))
	a.Confirmed(of(3, 9), true)
	if _, err := a.get(of(1, 6)); !errors.Is(err, walsocket.ErrNotArchived) {
		t.Errorf("before it may: %v", err)
	}
	a.supplied(t)
	for name, want := range map[string]bool{
		of(1, 6): true, of(1, 7): true, of(3, 8): true, of(3, 9): true,
		of(1, 8):           false, // it was left in it
		of(1, 9):           false, // a former primary's
		of(2, 8):           false, // a branch that was left
		of(3, 10):          false, // not confirmed
		of(1, 5):           false, // not there
		"00000003.history": false, of(1, 8) + ".partial": false, "nonsense": false,
	} {
		content, err := a.get(name)
		if want && (err != nil || content != name) {
			t.Errorf("%s: %q, %v", name, content, err)
		}
		if !want && !errors.Is(err, walsocket.ErrNotArchived) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheArchiveOffersWhatTheReplicaGoesOnWith(t *testing.T) {
	store := newAway()
	a := behind(t, store, of(1, 6), of(3, 8), of(3, 9))
	for name, test := range map[string]struct {
		lsn  postgres.LSN
		want bool
	}{
		"on the former timeline":              {6*postgres.DefaultSegSize + 1, true},
		"where its segment is gone":           {7 * postgres.DefaultSegSize, false},
		"on it, in the segment it was left":   {8 * postgres.DefaultSegSize, true},
		"on the timeline":                     {9*postgres.DefaultSegSize + 5, true},
		"beyond what the primary has there":   {10 * postgres.DefaultSegSize, false},
		"before everything that was archived": {postgres.DefaultSegSize, false},
	} {
		if got, err := a.Offers(t.Context(), left, test.lsn); got != test.want || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	store.gone.Store(true)
	if _, err := a.Offers(t.Context(), left, 6*postgres.DefaultSegSize); !errors.Is(err, objstore.ErrUnavailable) {
		t.Errorf("while the store is away: %v", err)
	}
	a.Confirmed("", true)
	if _, err := a.Offers(t.Context(), left, 6*postgres.DefaultSegSize); err == nil {
		t.Error("it knows what is archived though nobody has said so")
	}
	a.Confirmed("", false)
	if got, err := a.Offers(t.Context(), left, 6*postgres.DefaultSegSize); got || err != nil {
		t.Errorf("of a primary without an archive: %v, %v", got, err)
	}
}

func TestAnArchiveThatFailsIsGivenUpAndAnsweredForWithoutEndingRecovery(t *testing.T) {
	store := newAway()
	a := behind(t, store, of(1, 6), of(3, 8))
	a.supplied(t)
	store.gone.Store(true)
	for range maxFailures {
		if _, err := a.get(of(1, 6)); !errors.Is(err, walsocket.ErrNotArchived) {
			t.Fatalf("%v", err)
		}
	}
	store.gone.Store(false)
	if got, err := a.Offers(t.Context(), left, 6*postgres.DefaultSegSize); got || err != nil {
		t.Errorf("it is still offered: %v, %v", got, err)
	}
	a.EndSupply()
	if got, err := a.Offers(t.Context(), left, 6*postgres.DefaultSegSize); !got || err != nil {
		t.Errorf("for another try: %v, %v", got, err)
	}
}

func TestAPromotionWaitsForNoStoreThatHangs(t *testing.T) {
	store := newAway()
	a := behind(t, store, of(1, 6), of(3, 8))
	dir := a.supplied(t)
	store.hangs.Store(true)
	answer := make(chan error, 1)
	go func() {
		_, err := a.get(of(1, 6))
		answer <- err
	}()
	for deadline := time.Now().Add(time.Minute); !a.Fetching(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("it doesn't say that the server waits")
		}
	}
	a.SetPrimary(true)
	if err := <-answer; !errors.Is(err, walsocket.ErrNotArchived) {
		t.Error(err)
	}
	if a.Fetching() {
		t.Error("it says that the server waits")
	}
	for deadline := time.Now().Add(time.Minute); ; {
		left, err := os.ReadDir(dir)
		if err == nil && len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("what was fetched ahead is not removed: %v, %v", left, err)
		}
		runtime.Gosched()
	}
}

// away is a store that can be away, or hang until a request is given up.
type away struct {
	objstore.Store
	gone, hangs atomic.Bool
}

func newAway() *away {
	s := &away{}
	s.Store = fault.New(mem.New(), fault.Plan{Before: func(fault.Call) error {
		if s.gone.Load() {
			return objstore.ErrUnavailable
		}
		return nil
	}})
	return s
}

func (s *away) Get(ctx context.Context, key string, limit int64) ([]byte, error) {
	if s.hangs.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Store.Get(ctx, key, limit)
}
