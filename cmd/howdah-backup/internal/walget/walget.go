// Package walget is restore_command: it fetches one file of the archive, and on the way those that will be asked for next.
package walget

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
)

var (
	// ErrNotArchived says that the archive ends before this file, or never has one of the name. Recovery takes it for the end.
	ErrNotArchived = errors.New("not in the archive")
	// ErrHole says that a segment is missing although there are ones after it: the end of the archive this is not.
	ErrHole = errors.New("WAL is missing from the archive")
)

// Getter fetches files of one lineage.
type Getter struct {
	Store   objstore.Store
	Lineage string
	// Spool is a folder for segments that are fetched ahead; empty: none are.
	Spool string
	Ahead int // how many
	// Patience is how long to wait for a segment to come while those after it are there: an archiver that uploads several at
	// a time may do that for a moment.
	Patience time.Duration
	Poll     time.Duration // between two looks; 0 is a second
	// Last is the last segment that recovery is to read, and Until the end of it where that is within the segment; empty: all there is.
	// The archive may go on while recovery runs. Until is cut off, as PostgreSQL doesn't end in order at a target that nothing lies beyond.
	Last  string
	Until postgres.LSN
	// Least is the last segment that the archive had when recovery was planned. Before it, and before Last, nothing is the end of the archive,
	// not even where the rest of a timeline is gone: retention, or a lifecycle rule of the bucket, may have removed it since. Empty: not known.
	Least string
}

const (
	memory     = 64 << 20 // bytes for segments on their way
	maxFetches = 4
)

// Get puts a file at a path. It is whole, or not there.
func (g *Getter) Get(ctx context.Context, name, to string) error {
	file, err := postgres.ParseWALName(name)
	if err != nil && strings.HasSuffix(name, ".history") {
		return fmt.Errorf("%w: %s", ErrNotArchived, name) // of timeline 1, which nobody writes
	}
	if err != nil {
		return err
	}
	if taken, err := g.fromSpool(name, to); taken || err != nil {
		return err
	}
	owner, err := layout.ReadLineage(ctx, g.Store, g.Lineage)
	if err != nil { // a wrong bucket or prefix is not the end of the archive
		return fmt.Errorf("lineage %s: %w", g.Lineage, err)
	}
	if file.Kind == postgres.WALSegment && g.beyond(name) {
		return fmt.Errorf("%w: %s lies beyond the end of this recovery, %s", ErrNotArchived, name, g.Last)
	}
	if file.Kind == postgres.WALSegment && g.Spool != "" {
		g.fetchAhead(ctx, name, owner.SegmentSize)
		if taken, err := g.fromSpool(name, to); taken || err != nil {
			return err
		}
	}
	err = g.fetch(ctx, name, to)
	if err == nil && name == g.Last {
		return g.cut(to, owner.SegmentSize)
	}
	if !errors.Is(err, objstore.ErrNotFound) {
		return err
	}
	if file.Kind != postgres.WALSegment {
		return fmt.Errorf("%w: %s", ErrNotArchived, name)
	}
	return g.absent(ctx, name, to)
}

// beyond says whether a segment comes after Last, on its timeline or a later one.
func (g *Getter) beyond(name string) bool {
	if g.Last == "" {
		return false
	}
	return name[:timelineDigits] > g.Last[:timelineDigits] || name[timelineDigits:] > g.Last[timelineDigits:]
}

const timelineDigits = 8

// cut makes what lies beyond Until zeroes: recovery ends at the first record that is none.
func (g *Getter) cut(file string, size uint64) error {
	last, err := postgres.ParseSegment(g.Last, size)
	if err != nil || g.Until <= last.Start() || g.Until >= last.End() {
		return err
	}
	return errors.Join(os.Truncate(file, int64(g.Until-last.Start())), os.Truncate(file, int64(size)))
}

// errOpen is a segment that is still written.
var errOpen = errors.New("the segment is still written")

// fetch takes a file from the archive.
func (g *Getter) fetch(ctx context.Context, name, to string) error {
	return g.take(ctx, name, to, true)
}

// take does it, or refuses a segment that is still written.
func (g *Getter) take(ctx context.Context, name, to string, open bool) error {
	return write(to, func(file io.Writer) error {
		header, err := wal.New(g.Store).GetTo(ctx, g.Lineage, name, file)
		if err == nil && header.SegmentSize > 0 && !open {
			return errOpen
		}
		return err
	})
}

// write makes a file that is whole at once.
func write(to string, fill func(io.Writer) error) error {
	file, err := os.CreateTemp(filepath.Dir(to), "."+filepath.Base(to)+".*")
	if err != nil {
		return err
	}
	if err = errors.Join(fill(file), file.Close()); err == nil {
		err = os.Rename(file.Name(), to)
	}
	if err != nil {
		os.Remove(file.Name())
	}
	return err
}

// fromSpool takes a segment that was fetched ahead.
func (g *Getter) fromSpool(name, to string) (bool, error) {
	if g.Spool == "" {
		return false, nil
	}
	from := filepath.Join(g.folder(), name)
	err := os.Rename(from, to)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		return true, nil
	}
	there, err := os.Open(from) // on another file system
	if err != nil {
		return false, err
	}
	defer there.Close()
	err = write(to, func(file io.Writer) error {
		_, err := io.Copy(file, there)
		return err
	})
	if err != nil {
		return false, err
	}
	return true, os.Remove(from)
}

// folder is the spool's for this lineage: other ones have segments of the same names.
func (g *Getter) folder() string { return filepath.Join(g.Spool, g.Lineage) }

// fetchAhead puts a segment and those after it into the spool, several at a time. What doesn't come, for whatever reason, is
// found out when it is asked for by itself. One that is still written isn't kept: there is more of it when it is asked for.
func (g *Getter) fetchAhead(ctx context.Context, name string, size uint64) {
	segment, err := postgres.ParseSegment(name, size)
	if err != nil || os.MkdirAll(g.folder(), 0o700) != nil {
		return
	}
	ended := atomic.Bool{}
	skipped := func(name string) bool { return name == g.Last || g.beyond(name) }
	slots := make(chan struct{}, max(1, min(maxFetches, memory/int(size))))
	var fetches sync.WaitGroup
	for range 1 + g.Ahead {
		next := segment.Name()
		slots <- struct{}{}
		if ended.Load() || skipped(next) {
			break
		}
		fetches.Go(func() {
			defer func() { <-slots }()
			to := filepath.Join(g.folder(), next)
			if _, err := os.Stat(to); err == nil {
				return
			}
			if g.take(ctx, next, to, false) != nil {
				ended.Store(true)
			}
		})
		segment = segment.Next()
	}
	fetches.Wait()
}

// absent tells the end of the archive from a hole in it.
func (g *Getter) absent(ctx context.Context, name, to string) error {
	poll := g.Poll
	if poll == 0 {
		poll = time.Second
	}
	patience := time.NewTimer(g.Patience)
	defer patience.Stop()
	for {
		later, err := g.later(ctx, name)
		if err != nil {
			return err
		}
		if later == "" {
			return fmt.Errorf("%w: %s", ErrNotArchived, name)
		}
		select {
		case <-time.After(poll):
		case <-patience.C:
			return fmt.Errorf("%w: segment %s of lineage %s, although %s exists, or did when the restore was planned", ErrHole, name, g.Lineage, later)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := g.fetch(ctx, name, to); !errors.Is(err, objstore.ErrNotFound) {
			return err
		}
	}
}

// later is a segment behind the named one on its timeline, or itself, if it is listed and nevertheless not there, or the planned end, or empty.
func (g *Getter) later(ctx context.Context, name string) (string, error) {
	timeline, err := postgres.ParseSegment(name, postgres.MinSegSize)
	if err != nil {
		return "", err
	}
	prefix := layout.TimelinePrefix(g.Lineage, timeline.Timeline)
	for _, planned := range []string{g.Last, g.Least} {
		if planned != "" && name[timelineDigits:] <= planned[timelineDigits:] {
			return planned, nil
		}
	}
	for info, err := range g.Store.List(ctx, prefix, prefix+name[:len(name)-1]) { // which comes right before the names that begin so
		if err != nil {
			return "", err
		}
		if path.Base(info.Key) < name {
			continue
		}
		if found := path.Base(info.Key); len(found) == len(name) { // no partial one
			return found, nil
		}
	}
	return "", nil
}
