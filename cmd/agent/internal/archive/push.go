package archive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
)

// Ready lists the files that the server wants archived, in the order in which it asks: histories of timelines first,
// then by name.
func Ready(walDir string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(walDir, "archive_status"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range entries { // in the order of names
		if name, ready := strings.CutSuffix(entry.Name(), ".ready"); ready {
			names = append(names, name)
		}
	}
	slices.SortStableFunc(names, func(x, y string) int { return rank(x) - rank(y) })
	return names, nil
}

func rank(name string) int {
	if strings.HasSuffix(name, ".history") {
		return 0
	}
	return 1
}

// put pushes one file and returns when the store has it. It tries again for a while what may pass: the server would
// wait for a minute before it asks again.
func (a *Archiver) put(t *target, name string) error {
	select {
	case t.slots <- struct{}{}:
		defer func() { <-t.slots }()
	case <-t.ctx.Done():
		return t.ctx.Err()
	}
	ctx, cancel := context.WithTimeout(t.ctx, a.limits.Patience)
	defer cancel()
	for {
		ended := a.watch(t, name)
		err := t.put(ctx, filepath.Join(a.walDir, name), name, a.effort(t))
		ended()
		a.note(t, name, err)
		if err == nil {
			a.replacePieces(t, name)
		}
		if err == nil || lasting(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(a.limits.Pause):
		}
	}
}

// lasting says that trying again soon won't help.
func lasting(err error) bool {
	for _, sentinel := range []error{wal.ErrConflict, layout.ErrForeign, layout.ErrReplaced, layout.ErrFormat, layout.ErrName, fs.ErrNotExist} {
		if errors.Is(err, sentinel) {
			return true
		}
	}
	return false
}

// watch notes a push that takes too long, until it is told that the push has an end.
func (a *Archiver) watch(t *target, name string) (ended func()) {
	if a.limits.Overdue == 0 {
		return func() {}
	}
	limit, over := a.limits.Overdue+time.Duration(t.Claim.SegmentSize>>20)*time.Second, false
	timer := time.AfterFunc(limit, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if !over && a.target == t {
			a.noteFailure(name, fmt.Errorf("the store has not answered for %s, and is still waited for", limit))
		}
	})
	return func() {
		timer.Stop()
		a.mu.Lock()
		defer a.mu.Unlock()
		over = true // the timer may have just gone off
	}
}

// releaseLater gives memory back to the system when there was nothing to push for a while. The lock is held.
func (a *Archiver) releaseLater() {
	if a.release == nil {
		a.release = time.AfterFunc(idle, func() {
			a.mu.Lock()
			if a.target != nil {
				a.target.archive.Release()
			}
			a.mu.Unlock()
			runtime.GC() // a pool lets go at the second collection
			debug.FreeOSMemory()
		})
		return
	}
	a.release.Reset(idle)
}
