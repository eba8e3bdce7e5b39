package archive

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
)

// walFile is the content of a segment of PostgreSQL 15: a page's header, and bytes of the seed that no zstd makes less.
func walFile(segment postgres.Segment, size int, seed uint64) []byte {
	content := make([]byte, size)
	source := rand.NewChaCha8([32]byte{byte(seed)})
	_, _ = source.Read(content)
	binary.LittleEndian.PutUint16(content, 0xD110)
	binary.LittleEndian.PutUint16(content[2:], 0x0002) // a long header
	binary.LittleEndian.PutUint32(content[4:], segment.Timeline)
	binary.LittleEndian.PutUint64(content[8:], uint64(segment.Start()))
	binary.LittleEndian.PutUint64(content[16:], 0) // nothing continues
	binary.LittleEndian.PutUint64(content[24:], 7) // system
	binary.LittleEndian.PutUint32(content[32:], uint32(segment.SegSize))
	binary.LittleEndian.PutUint32(content[36:], 8192)
	clear(content[40:64]) // no record
	return content
}

// together is a store that holds every put of WAL until two have come.
type together struct {
	objstore.Store
	mu      sync.Mutex
	waiting map[string]chan struct{}
}

func (s *together) Put(ctx context.Context, key string, body []byte, opts objstore.PutOptions) error {
	if strings.Contains(key, "/wal/") {
		s.mu.Lock()
		other, second := s.waiting[key]
		if second {
			close(other)
		} else {
			other = make(chan struct{})
			s.waiting[key] = other
		}
		s.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return s.Store.Put(ctx, key, body, opts)
}

// TestOfTwoWritersOfOneLineageOneIsRefusedAndBothAreNamed: two pods run on copies of one volume, and have the same cluster
// and the same data generation, so that nothing but the content tells them apart.
func TestOfTwoWritersOfOneLineageOneIsRefusedAndBothAreNamed(t *testing.T) {
	store := &together{Store: mem.New(), waiting: map[string]chan struct{}{}}
	for n := uint64(1); n <= 5; n++ {
		segment := postgres.Segment{Timeline: 1, Number: n, SegSize: postgres.DefaultSegSize}
		contents, writers := [][]byte{}, []*Archiver{}
		for pod := range 2 {
			content := walFile(segment, 64<<10, 2*n+uint64(pod))
			a := newArchiver(t, nil, map[string]string{segment.Name(): string(content)})
			a.SetTarget(&Target{Store: store, Writer: fmt.Sprintf("pod shop-%d", pod), Claim: layout.Lineage{
				Lineage: layout.LineageName(system, "g1"), SystemIdentifier: system, Generation: "g1", SegmentSize: postgres.DefaultSegSize,
				Writer: layout.Writer{UID: "u", Namespace: "demo", Name: "shop"}, PGMajor: 15,
			}})
			contents, writers = append(contents, content), append(writers, a)
		}
		answers := []<-chan error{writers[0].ask(segment.Name()), writers[1].ask(segment.Name())}
		errs := []error{<-answers[0], <-answers[1]}
		winner := 0
		if errs[0] != nil {
			winner = 1
		}
		loser := 1 - winner
		if errs[winner] != nil || errs[loser] == nil {
			t.Fatalf("%s: %v", segment, errs)
		}
		status := writers[loser].Status()
		for _, said := range []string{errs[loser].Error(), status.Error} {
			if !strings.Contains(said, "shop-0") || !strings.Contains(said, "shop-1") || !strings.Contains(said, segment.Name()) {
				t.Errorf("it doesn't name both: %s", said)
			}
		}
		if status.FailingSince.IsZero() || writers[winner].Status().Error != "" {
			t.Errorf("%+v, %+v", status, writers[winner].Status())
		}
		got, _, err := wal.New(store).Get(t.Context(), layout.LineageName(system, "g1"), segment.Name())
		if err != nil || !bytes.Equal(got, contents[winner]) {
			t.Errorf("the archive has another content than that of who was told yes: %v", err)
		}
	}
}

// The claim is made before a file is pushed, and may be noted after that.
func TestThatTheLineageIsOursSaysNothingAboutAFileThatIsNotArchived(t *testing.T) {
	a := newArchiver(t, nil, nil)
	a.target = &target{}
	file := aheadSegment(1).Name()
	for _, test := range []struct {
		failing, archived string
		fails             bool
	}{{file, "", true}, {file, file, false}, {"", "", false}, {"", file, false}} {
		a.note(a.target, test.failing, wal.ErrConflict)
		a.note(a.target, test.archived, nil)
		if fails := a.health.Error != ""; fails != test.fails || a.health.FailingSince.IsZero() == fails {
			t.Errorf("%q failed, and then %q did not: %+v", test.failing, test.archived, a.health)
		}
	}
	a.target = nil
}

// swallow is a store that keeps nothing of WAL.
type swallow struct{ objstore.Store }

func (s swallow) Put(ctx context.Context, key string, body []byte, opts objstore.PutOptions) error {
	if strings.Contains(key, "/wal/") {
		return nil
	}
	return s.Store.Put(ctx, key, body, opts)
}

// TestABacklogThatDoesNotCompressTakesNoMoreMemoryThanItsBound: 200 segments wait, and PostgreSQL asks for one after the other
// until nothing more is to be learnt from that.
func TestABacklogThatDoesNotCompressTakesNoMoreMemoryThanItsBound(t *testing.T) {
	const segments, enough, bound = 200, 48, 64 << 20
	a := newArchiver(t, nil, nil)
	first := postgres.Segment{Timeline: 1, Number: 1, SegSize: postgres.DefaultSegSize}
	path := filepath.Join(a.walDir, first.Name())
	if err := os.WriteFile(path, walFile(first, postgres.DefaultSegSize, 1), 0o600); err != nil {
		t.Fatal(err)
	}
	var names []string
	for segment := first; len(names) < segments; segment = segment.Next() {
		names = append(names, segment.Name())
		if segment != first {
			if err := os.Link(path, filepath.Join(a.walDir, segment.Name())); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.askFor(segment.Name()); err != nil {
			t.Fatal(err)
		}
	}
	peak := watchHeap(t)
	a.SetTarget(&Target{Store: swallow{mem.New()}, Writer: "test", Memory: bound, Claim: layout.Lineage{
		Lineage: layout.LineageName(system, "g1"), SystemIdentifier: system, Generation: "g1", SegmentSize: postgres.DefaultSegSize,
		Writer: layout.Writer{UID: "u", Namespace: "demo", Name: "shop"}, PGMajor: 15,
	}})
	for _, name := range names[:enough] {
		if err := <-a.ask(name); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(a.walDir, "archive_status", name+".ready"), filepath.Join(a.walDir, "archive_status", name+".done")); err != nil {
			t.Fatal(err)
		}
	}
	most := peak()
	t.Logf("%d MiB at most", most>>20)
	if most > bound+bound/2 { // encoders, and what was given up and not yet collected
		t.Errorf("%d MiB, where segments of %d MiB may be held", most>>20, bound>>20)
	}
}

func TestAStoreThatHangsShowsBeforeItIsGivenUp(t *testing.T) {
	store := &together{Store: mem.New(), waiting: map[string]chan struct{}{}} // the other writer never comes
	name := "00000002.history"
	a := newArchiver(t, nil, map[string]string{name: "1\t0/3000000\treason\n"})
	a.limits.Overdue = time.Millisecond
	a.SetTarget(&Target{Store: store, Writer: "test", Claim: layout.Lineage{
		Lineage: layout.LineageName(system, "g1"), SystemIdentifier: system, Generation: "g1", SegmentSize: 1 << 20,
		Writer: layout.Writer{UID: "u", Namespace: "demo", Name: "shop"}, PGMajor: 15,
	}})
	answer := a.ask(name)
	for !strings.Contains(a.Status().Error, "has not answered for") {
		select {
		case err := <-answer:
			t.Fatalf("it was given up: %v", err)
		default:
			runtime.Gosched()
		}
	}
}
