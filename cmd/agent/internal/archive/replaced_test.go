package archive

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
)

// replaceable is an archiver of two segments whose repository can be replaced by another, and whose clock can be moved.
type replaceable struct {
	*Archiver
	store   *mem.Store
	elapsed atomic.Int64
	names   []string
}

func (r *replaceable) clock() time.Time { return time.Unix(1e9, r.elapsed.Load()) }

func newReplaceable(t *testing.T) *replaceable {
	t.Helper()
	dir, r := t.TempDir(), &replaceable{store: mem.New()}
	for n := uint64(1); n <= 2; n++ {
		segment := postgres.Segment{Timeline: 1, Number: n, SegSize: postgres.DefaultSegSize}
		if err := os.WriteFile(filepath.Join(dir, segment.Name()), walFile(segment, 64<<10, n), 0o600); err != nil {
			t.Fatal(err)
		}
		r.names = append(r.names, segment.Name())
	}
	r.Archiver = New(dir, slog.New(slog.DiscardHandler), r.clock, Limits{Patience: 5 * time.Second, LastPatience: time.Second, Pause: time.Millisecond})
	t.Cleanup(r.Close)
	return r
}

// replace empties the store and marks it as a repository that was created at a time, or not at all. Minutes pass meanwhile.
func (r *replaceable) replace(t *testing.T, created time.Time) {
	t.Helper()
	var keys []string
	for info := range r.store.List(t.Context(), "", "") {
		keys = append(keys, info.Key)
	}
	err := r.store.Delete(t.Context(), keys...)
	if err == nil && !created.IsZero() {
		_, err = layout.Ensure(t.Context(), r.store, created)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.elapsed.Add(int64(2 * time.Minute))
}

// aim has the archiver go to the store, whose repository is known by when it was created.
func (r *replaceable) aim(known time.Time) {
	r.SetTarget(&Target{
		Store: r.store, Writer: "pod shop-0", Identity: func() (string, error) { return layout.Marker{Created: known}.Identity(), nil },
		Claim: layout.Lineage{
			Lineage: layout.LineageName(system, "g1"), SystemIdentifier: system, Generation: "g1", SegmentSize: postgres.DefaultSegSize,
			Writer: layout.Writer{UID: "u", Namespace: "demo", Name: "shop"}, PGMajor: 15, Created: time.Unix(1, 0).UTC(),
		},
	})
}

func (r *replaceable) archived(t *testing.T, name string) bool {
	t.Helper()
	_, err := wal.New(r.store).ReadHeader(t.Context(), layout.LineageName(system, "g1"), name)
	return err == nil
}

// TestNothingIsArchivedIntoARepositoryThatIsAnotherThanBefore: the bucket was emptied, or replaced by another, while the agent was away or
// while it ran. WAL that is put there is of no use beside backups that are gone, and PostgreSQL removes what it is told is archived.
func TestNothingIsArchivedIntoARepositoryThatIsAnotherThanBefore(t *testing.T) {
	known := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for name, created := range map[string]time.Time{"an emptied one": {}, "another one": known.Add(time.Hour)} {
		for _, when := range []string{"from the start", "while it runs"} {
			t.Run(name+" "+when, func(t *testing.T) {
				r := newReplaceable(t)
				if when == "while it runs" {
					r.replace(t, known)
					r.aim(known)
					if err := <-r.ask(r.names[0]); err != nil || !r.archived(t, r.names[0]) {
						t.Fatal(err)
					}
				}
				r.replace(t, created)
				if when == "from the start" {
					r.aim(known)
				}
				r.refuses(t, r.names[1])
				if _, err := layout.ReadMarker(t.Context(), r.store); (err == nil) == created.IsZero() {
					t.Errorf("the mark of the repository was changed: %v", err)
				}
				r.replace(t, known) // it is put back
				if err := <-r.ask(r.names[1]); err != nil || !r.archived(t, r.names[1]) {
					t.Errorf("after it was put back: %v", err)
				}
			})
		}
	}
}

// refuses says that a file isn't archived, and that the reason names the repository that was there before.
func (r *replaceable) refuses(t *testing.T, name string) {
	t.Helper()
	err := <-r.ask(name)
	if err == nil || r.archived(t, name) {
		t.Fatalf("it was archived there: %v", err)
	}
	if said := r.Status().Error; !strings.Contains(said, "howdah.json") || !strings.Contains(said, "2026-03-04T05:06:07Z") {
		t.Errorf("status says %q", said)
	}
}
