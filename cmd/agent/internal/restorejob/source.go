package restorejob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"howdah.dev/howdah/cmd/agent/internal/archive"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/pkg/walsocket"
)

// errMissing is a segment that should be in the archive.
var errMissing = errors.New("WAL is missing from the archive")

// source is what restore_command asks: it serves WAL up to the planned end, and fetches ahead of replay.
type source struct {
	ahead   *archive.Ahead
	lineage string
	last    postgres.Segment
	spool   string
	// served is told of each segment that replay has come to.
	served func(postgres.Segment)
	// keep: the last segment stays what it was when it was first asked for. It may be one that is still written, and whether anything lies
	// beyond a target is found by replaying it.
	keep bool
	kept string // the copy of it; empty: there is none yet

	mu     sync.Mutex
	err    error
	lacked string
}

// newSource fetches into a spool on the volume.
func newSource(from *wal.Archive, lineage string, last postgres.Segment, spool string, served func(postgres.Segment)) *source {
	return &source{ahead: archive.NewAhead(from, lineage, spool, last.SegSize), lineage: lineage, last: last, spool: spool, served: served}
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

// close gives up what is still being fetched ahead, once the context of the requests has ended, and throws it away.
func (s *source) close() error { return s.ahead.Close() }

// failed is the first error that ended recovery, or nil.
func (s *source) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// lacks notes a segment that may not have been needed.
func (s *source) lacks(segment postgres.Segment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lacked = segment.Name()
}

// lacking is the segment without which replay may have ended too early, or empty.
func (s *source) lacking() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lacked
}

func (s *source) fetch(ctx context.Context, name, path string) error {
	file, err := postgres.ParseWALFile(name, s.last.SegSize)
	if err != nil { // such as the history of timeline 1, which nobody writes
		return fmt.Errorf("%s: %w", name, walsocket.ErrNotArchived)
	}
	if file.Kind != postgres.WALSegment {
		return s.other(ctx, name, path)
	}
	if beyond(file.Segment, s.last) {
		return fmt.Errorf("%s lies beyond the planned end: %w", name, walsocket.ErrNotArchived)
	}
	if s.kept != "" && file.Segment == s.last {
		return copyFile(s.kept, path)
	}
	err = s.ahead.Segment(ctx, file.Segment, path, func(next postgres.Segment) bool { return !beyond(next, s.last) })
	if err == nil {
		s.served(file.Segment)
		return s.keepLast(file.Segment, path)
	}
	if errors.Is(err, objstore.ErrNotFound) {
		if file.Timeline < s.last.Timeline {
			// A timeline that was left: its end is no longer needed. That replay came far enough is checked at its end.
			s.lacks(file.Segment)
			return fmt.Errorf("%s: %w", name, walsocket.ErrNotArchived)
		}
		return fmt.Errorf("%w: segment %s of lineage %s", errMissing, name, s.lineage)
	}
	return err
}

// keepLast keeps the last segment. PostgreSQL may overwrite what it was given.
func (s *source) keepLast(segment postgres.Segment, path string) error {
	if !s.keep || segment != s.last {
		return nil
	}
	kept := filepath.Join(s.spool, "last")
	if err := copyFile(path, kept); err != nil {
		return err
	}
	s.kept = kept
	return nil
}

func copyFile(from, to string) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}

// beyond says that a segment is not part of the plan: it was archived later, or on a timeline that isn't followed.
func beyond(segment, last postgres.Segment) bool {
	return segment.Timeline > last.Timeline || segment.Number > last.Number
}

// other fetches a file that is no segment.
func (s *source) other(ctx context.Context, name, path string) error {
	err := s.ahead.File(ctx, name, path)
	if errors.Is(err, objstore.ErrNotFound) {
		return fmt.Errorf("%s: %w", name, walsocket.ErrNotArchived)
	}
	return err
}
