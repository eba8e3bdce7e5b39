package standbyjob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
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

const (
	lineage = "7-g0"
	size    = postgres.DefaultSegSize
)

func segment(timeline uint32, number uint64) postgres.Segment {
	return postgres.Segment{Timeline: timeline, Number: number, SegSize: size}
}

func of(timeline uint32, number uint64) string { return segment(timeline, number).Name() }

// archived is a store with a lineage of these files.
func archived(t *testing.T, files map[string]string) *mem.Store {
	t.Helper()
	store := mem.New()
	claim := layout.Lineage{Lineage: lineage, Writer: layout.Writer{UID: "u0", Namespace: "demo", Name: "shop"}, SystemIdentifier: "7", Generation: "g0", SegmentSize: size, Created: time.Now()}
	if _, err := layout.Claim(t.Context(), store, claim); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		put(t, store, name, content)
	}
	return store
}

func put(t *testing.T, store objstore.Store, name, content string) {
	t.Helper()
	if err := wal.New(store).Put(t.Context(), lineage, name, []byte(content), wal.Info{Writer: "test"}); err != nil {
		t.Fatal(err)
	}
}

// putOpen puts a piece of an open segment.
func putOpen(t *testing.T, store objstore.Store, s postgres.Segment, content string) {
	t.Helper()
	err := wal.New(store).PutOpen(t.Context(), lineage, s, 0, int64(len(content)), wal.Info{Writer: "test", EndLSN: s.Start().Add(int64(len(content)))}, func(w io.Writer) error {
		_, err := w.Write([]byte(content))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

type asking struct {
	*source
	t    *testing.T
	path string
}

func ask(t *testing.T, store objstore.Store) asking {
	t.Helper()
	dir := t.TempDir()
	s, err := newSource(store, lineage, filepath.Join(dir, "spool"), size, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	return asking{s, t, filepath.Join(dir, "RECOVERYXLOG")}
}

// get is the begin of a file; empty: it is not archived.
func (a asking) get(name string) string {
	a.t.Helper()
	err := a.Fetch(a.t.Context(), name, a.path)
	if errors.Is(err, walsocket.ErrNotArchived) {
		return ""
	}
	if err != nil {
		a.t.Fatal(err)
	}
	content, err := os.ReadFile(a.path)
	if err = errors.Join(err, os.Remove(a.path)); err != nil {
		a.t.Fatal(err)
	}
	return string(content[:min(len(content), 5)])
}

func TestAnOpenSegmentIsServedAtTheEndOnly(t *testing.T) {
	store := archived(t, map[string]string{of(1, 4): "four"})
	putOpen(t, store, segment(1, 5), "piece")
	a := ask(t, store)
	if got := a.get(of(1, 4)); got != "four" {
		t.Errorf("a whole one: %q", got)
	}
	if got := a.get(of(1, 5)); got != "" {
		t.Errorf("while it follows: %q", got)
	}
	a.serve(everything)
	if got := a.get(of(1, 5)); got != "piece" {
		t.Errorf("at the end: %q", got)
	}
	a.serve(nothing)
	for _, name := range []string{of(1, 4), of(1, 5), "00000002.history"} {
		if got := a.get(name); got != "" {
			t.Errorf("after that, %s: %q", name, got)
		}
	}
}

func TestASegmentInWhichItsTimelineWasLeftIsNotServed(t *testing.T) {
	left := segment(1, 5).Start().Add(100)
	a := ask(t, archived(t, map[string]string{
		of(1, 4): "four", of(1, 5): "dead", of(1, 6): "dead", of(2, 5): "five", "00000002.history": fmt.Sprintf("1\t%s\tno recovery target specified\n", left),
	}))
	if got := a.get(of(1, 5)); got != "dead" {
		t.Errorf("before the history is known: %q", got)
	}
	if got := a.get("00000002.history"); got == "" {
		t.Error("no history")
	}
	for name, want := range map[string]string{of(1, 4): "four", of(1, 5): "", of(1, 6): "", of(2, 5): "five"} {
		if got := a.get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestAPromotionOfTheSourceIsFollowedAlsoIfItSkipsNumbersOfTimelines(t *testing.T) {
	const history = "1\t0/5000100\tno recovery target specified\n"
	store := archived(t, map[string]string{of(1, 4): "four", "00000004.history": history})
	a := ask(t, store)
	if got := a.get("00000002.history"); got != "" {
		t.Errorf("before the archive was looked at: %q", got)
	}
	found, err := readTip(t.Context(), store, lineage, 0)
	if err != nil {
		t.Fatal(err)
	}
	a.reaches(found)
	for _, name := range []string{"00000002.history", "00000003.history"} {
		if err := a.Fetch(t.Context(), name, a.path); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if content, err := os.ReadFile(a.path); err != nil || len(content) != 0 {
			t.Errorf("%s: %q, %v", name, content, err)
		}
	}
	if got := a.get("00000004.history"); got != history[:5] {
		t.Errorf("the history itself: %q", got)
	}
	if got := a.get("00000005.history"); got != "" {
		t.Errorf("the next one: %q", got)
	}
}

func TestAnUnavailableStoreIsNotTheEndOfTheArchive(t *testing.T) {
	var away atomic.Bool
	inner := archived(t, map[string]string{of(1, 4): "four"})
	a := ask(t, fault.New(inner, fault.Plan{Before: func(call fault.Call) error {
		if away.Load() {
			return &objstore.Error{Op: call.Op, Key: call.Key, Kind: objstore.ErrUnavailable, Err: errors.New("away")}
		}
		return nil
	}}))
	for _, serves := range []serving{wholeOnly, everything} {
		a.serve(serves)
		for _, name := range []string{of(1, 4), of(1, 5), "00000002.history"} {
			away.Store(true)
			answered := make(chan error, 1)
			go func() { answered <- a.Fetch(t.Context(), name, a.path) }()
			for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
				if _, _, trouble := a.state(); trouble != "" {
					break
				}
				if time.Now().After(deadline) {
					t.Fatal("nobody says that the store is away")
				}
			}
			select {
			case err := <-answered:
				t.Fatalf("%s: it was told %v", name, err)
			case <-time.After(20 * time.Millisecond):
			}
			away.Store(false)
			if err := <-answered; err != nil && !errors.Is(err, walsocket.ErrNotArchived) {
				t.Errorf("%s: %v", name, err)
			}
			if _, _, trouble := a.state(); trouble != "" {
				t.Errorf("it is still said that %s", trouble)
			}
		}
	}
}

func TestARequestThatWaitsForTheStoreEndsWithAnImmediatePromotion(t *testing.T) {
	a := ask(t, fault.New(archived(t, nil), fault.Plan{Before: func(call fault.Call) error {
		return &objstore.Error{Op: call.Op, Key: call.Key, Kind: objstore.ErrUnavailable, Err: errors.New("away")}
	}}))
	answered := make(chan error, 1)
	go func() { answered <- a.Fetch(context.Background(), of(1, 4), a.path) }()
	time.Sleep(20 * time.Millisecond)
	a.serve(nothing)
	select {
	case err := <-answered:
		if !errors.Is(err, walsocket.ErrNotArchived) {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it waits")
	}
}

func TestAnArchiveThatIsQuietCostsFewRequests(t *testing.T) {
	store := fault.New(archived(t, map[string]string{of(1, 4): "four"}), fault.Plan{})
	a := ask(t, store)
	found, err := readTip(t.Context(), store, lineage, 0)
	if err != nil {
		t.Fatal(err)
	}
	a.reaches(found)
	before := store.Calls()
	if got := a.get(of(1, 5)) + a.get("00000002.history"); got != "" {
		t.Fatalf("%q", got)
	}
	if calls := store.Calls() - before; calls > 3 {
		t.Errorf("%d requests for a segment and a history that aren't there", calls)
	}
}
