package recover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"howdah.dev/howdah/cmd/agent/internal/walsocket"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
)

// errMissing is a segment that should be in the archive.
var errMissing = errors.New("WAL is missing in the archive")

const (
	aheadSegments = 6        // that are fetched before they are asked for, on disk
	fetchMemory   = 96 << 20 // bytes for those on their way: each takes up to two segments
)

// source is what restore_command asks: it serves WAL up to the planned end, and fetches ahead of replay.
type source struct {
	archive *wal.Archive
	lineage string
	last    postgres.Segment
	// spool takes what was fetched ahead; it is on the volume, so that handing over is a rename.
	spool string
	// served is told of each segment that replay has come to.
	served func(postgres.Segment)

	slots   chan struct{}
	working sync.WaitGroup
	mu      sync.Mutex
	ahead   map[string]*ahead
	err     error
}

// ahead is one segment on its way.
type ahead struct {
	done chan struct{}
	path string
	err  error // once done is closed
}

func newSource(archive *wal.Archive, lineage string, last postgres.Segment, spool string, served func(postgres.Segment)) *source {
	slots := max(1, fetchMemory/(2*int(last.SegSize)))
	return &source{
		archive: archive, lineage: lineage, last: last, spool: spool, served: served,
		slots: make(chan struct{}, slots), ahead: map[string]*ahead{},
	}
}

// Archive is archive_command, which a server under restore doesn't have.
func (s *source) Archive(context.Context, string) error {
	return errors.New("nothing is archived during a restore")
}

// Fetch is restore_command. What is wrong ends recovery, and is kept: PostgreSQL would only say that it got nothing.
func (s *source) Fetch(ctx context.Context, name, path string) error {
	err := s.fetch(ctx, name, path)
	if err != nil && !errors.Is(err, walsocket.ErrNotArchived) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.err == nil && ctx.Err() == nil {
			s.err = err
		}
	}
	return err
}

// wait waits for what is still being fetched ahead, once the context of the requests has ended.
func (s *source) wait() { s.working.Wait() }

// failed is the first error that ended recovery, or nil.
func (s *source) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *source) fetch(ctx context.Context, name, path string) error {
	file, err := postgres.ParseWALFile(name, s.last.SegSize)
	if err != nil { // such as the history of timeline 1, which nobody writes
		return fmt.Errorf("%s: %w", name, walsocket.ErrNotArchived)
	}
	if file.Kind != postgres.WALSegment {
		return s.direct(ctx, name, path)
	}
	if beyond(file.Segment, s.last) {
		return fmt.Errorf("%s is behind the planned end: %w", name, walsocket.ErrNotArchived)
	}
	err = s.segment(ctx, file.Segment, path)
	if errors.Is(err, objstore.ErrNotFound) {
		if file.Timeline < s.last.Timeline {
			// A timeline that was left: its end is no longer needed. That replay came far enough is checked at its end.
			return fmt.Errorf("%s: %w", name, walsocket.ErrNotArchived)
		}
		return fmt.Errorf("%w: segment %s of lineage %s", errMissing, name, s.lineage)
	}
	return err
}

// beyond says that a segment is not part of the plan: it was archived later, or on a timeline that isn't followed.
func beyond(segment, last postgres.Segment) bool {
	return segment.Timeline > last.Timeline || segment.Number > last.Number
}

func (s *source) segment(ctx context.Context, segment postgres.Segment, path string) error {
	this := s.want(ctx, segment)
	for next, n := segment, 0; n < aheadSegments; n++ {
		if next = next.Next(); beyond(next, s.last) {
			break
		}
		s.want(ctx, next)
	}
	select {
	case <-this.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	// Asked for again, it is fetched again: at the end of recovery PostgreSQL reads a segment twice.
	s.mu.Lock()
	delete(s.ahead, segment.Name())
	s.mu.Unlock()
	if this.err != nil {
		return this.err
	}
	s.served(segment)
	return os.Rename(this.path, path)
}

// want fetches a segment into the spool, unless it is on its way or there.
func (s *source) want(ctx context.Context, segment postgres.Segment) *ahead {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := segment.Name()
	if found := s.ahead[name]; found != nil {
		return found
	}
	this := &ahead{done: make(chan struct{}), path: filepath.Join(s.spool, name)}
	s.ahead[name] = this
	s.working.Go(func() {
		defer close(this.done)
		select {
		case s.slots <- struct{}{}:
			defer func() { <-s.slots }()
			this.err = s.direct(ctx, name, this.path)
		case <-ctx.Done():
			this.err = ctx.Err()
		}
	})
	return this
}

// direct fetches one file. A segment that isn't there is objstore.ErrNotFound, any other file ErrNotArchived.
func (s *source) direct(ctx context.Context, name, path string) error {
	content, _, err := s.archive.Get(ctx, s.lineage, name)
	if errors.Is(err, objstore.ErrNotFound) && len(name) != 24 {
		return fmt.Errorf("%s: %w", name, walsocket.ErrNotArchived)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}
