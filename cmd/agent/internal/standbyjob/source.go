package standbyjob

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"sync"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/archive"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/pkg/walsocket"
)

// serving is what restore_command gets.
type serving int

const (
	// wholeOnly: segments that are complete. Pieces of an open one may be on a branch of the timeline that nobody will follow.
	wholeOnly serving = iota
	// everything: the open segment, too. A promotion begins.
	everything
	// nothing: what was replayed has to do.
	nothing
)

// source is what restore_command asks. That a file is not archived is said only if the store says so. While it says nothing, the request waits.
type source struct {
	lineage string
	retry   time.Duration
	segSize uint64
	whole   *archive.Ahead
	open    *archive.Ahead

	mu      sync.Mutex
	serves  serving
	changed chan struct{} // closed when serves does
	// newest is the history of the newest timeline that the server knows.
	newest postgres.TimelineHistory
	// end is the last whole segment of each timeline, as the archive was seen last. None after it is fetched ahead.
	end map[uint32]postgres.Segment
	// latest is the highest number of a timeline that the archive has something of.
	latest uint32
	// lacked is what the server asked for last and is not there; served what it got last.
	lacked, served postgres.Segment
	trouble        string // why the store doesn't answer; empty: it does
}

// newSource fetches into two folders below spool. A nil store serves nothing.
func newSource(store objstore.Store, lineage, spool string, segSize uint64, retry time.Duration) (*source, error) {
	s := &source{lineage: lineage, retry: retry, segSize: segSize, changed: make(chan struct{}), serves: nothing}
	if store == nil {
		return s, nil
	}
	s.serves = wholeOnly
	if err := os.RemoveAll(spool); err != nil {
		return nil, err
	}
	for folder, fetch := range map[string]struct {
		into **archive.Ahead
		from objstore.Store
	}{"/whole": {&s.whole, withoutPieces{store}}, "/open": {&s.open, store}} {
		if err := os.MkdirAll(spool+folder, 0o700); err != nil {
			return nil, err
		}
		*fetch.into = archive.NewAhead(wal.New(fetch.from), lineage, spool+folder, segSize)
	}
	return s, nil
}

// withoutPieces is a store in which no open segment is found. Only for those is anything listed where WAL is fetched.
type withoutPieces struct{ objstore.Store }

// List finds nothing.
func (withoutPieces) List(context.Context, string, string) iter.Seq2[objstore.Info, error] {
	return func(func(objstore.Info, error) bool) {}
}

// close gives up what is on its way. Nobody may ask any more.
func (s *source) close() error {
	if s.whole == nil {
		return nil
	}
	return errors.Join(s.whole.Close(), s.open.Close())
}

// serve changes what is served. Requests that wait are decided anew.
func (s *source) serve(what serving) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.serves != what {
		s.serves = what
		close(s.changed)
		s.changed = make(chan struct{})
	}
}

// reaches notes how far the archive goes.
func (s *source) reaches(t tip) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end, s.latest = t.whole, max(s.latest, t.latest)
}

// state is what the server got last, what it lacks, and why the store doesn't answer.
func (s *source) state() (served, lacked postgres.Segment, trouble string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served, s.lacked, s.trouble
}

// Archive is archive_command, which a standby doesn't have.
func (*source) Archive(context.Context, string) error {
	return errors.New("a standby archives nothing")
}

// Fetch is restore_command. It returns an error only when ctx ends.
func (s *source) Fetch(ctx context.Context, name, path string) error {
	file, err := postgres.ParseWALFile(name, s.segSize)
	if err != nil { // such as the history of timeline 1, which nobody writes
		return fmt.Errorf("%s: %w", name, walsocket.ErrNotArchived)
	}
	for {
		s.mu.Lock()
		serves, changed := s.serves, s.changed
		s.mu.Unlock()
		err := s.fetch(ctx, serves, changed, file, path)
		s.note(file, err)
		switch {
		case err == nil, errors.Is(err, walsocket.ErrNotArchived):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-time.After(s.retry):
		}
	}
}

// fetch tries once. It is given up when something else is to be served.
func (s *source) fetch(ctx context.Context, serves serving, changed <-chan struct{}, file postgres.WALFile, path string) error {
	from := s.whole
	switch serves {
	case everything:
		from = s.open
	case nothing:
		return fmt.Errorf("%s: %w", file.Name, walsocket.ErrNotArchived)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-changed:
			cancel()
		case <-ctx.Done():
		}
	}()
	var err error
	if file.Kind == postgres.WALSegment {
		if s.abandoned(file.Segment) {
			return fmt.Errorf("%s is not part of the history that is followed: %w", file.Name, walsocket.ErrNotArchived)
		}
		err = from.Segment(ctx, file.Segment, path, s.ahead)
	} else if err = from.File(ctx, file.Name, path); err == nil && file.Kind == postgres.WALHistory {
		err = s.learn(file.Timeline, path)
	}
	if errors.Is(err, objstore.ErrNotFound) && file.Kind == postgres.WALHistory && s.skipped(file.Timeline) {
		return os.WriteFile(path, nil, 0o600)
	}
	if errors.Is(err, objstore.ErrNotFound) {
		return fmt.Errorf("%s: %w", file.Name, walsocket.ErrNotArchived)
	}
	return err
}

// abandoned says whether a timeline was left in a segment or before it. Who archived it under that name is not followed any more.
func (s *source) abandoned(segment postgres.Segment) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return leftIn(s.newest, segment)
}

// leftIn says whether a history leaves the timeline of a segment before its end.
func leftIn(history postgres.TimelineHistory, segment postgres.Segment) bool {
	left, is := history.Left(segment.Timeline)
	return is && left != 0 && segment.End() > left
}

// ahead says whether a segment is known to be there as a whole.
func (s *source) ahead(next postgres.Segment) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, known := s.end[next.Timeline]
	return known && next.Number <= last.Number && !leftIn(s.newest, next)
}

// skipped says whether a promotion of the source has passed over the number of a timeline, which has no history then. PostgreSQL looks for
// the newest timeline by asking for one number after the other, and takes the first that has none for the end; an empty history leads it on.
func (s *source) skipped(timeline uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return timeline < s.latest
}

// learn takes in a history that the server gets.
func (s *source) learn(timeline uint32, path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	history, err := postgres.ParseTimelineHistory(timeline, content)
	if err != nil {
		return fmt.Errorf("history of timeline %d: %w", timeline, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if timeline > s.newest.Timeline {
		s.newest = history
	}
	return nil
}

// note remembers how a request went.
func (s *source) note(file postgres.WALFile, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trouble = ""
	switch {
	case err == nil && file.Kind == postgres.WALSegment:
		s.served = file.Segment
		if s.lacked.Number <= file.Segment.Number {
			s.lacked = postgres.Segment{}
		}
	case errors.Is(err, walsocket.ErrNotArchived) && file.Kind == postgres.WALSegment:
		s.lacked = file.Segment
	case err != nil && !errors.Is(err, walsocket.ErrNotArchived) && !errors.Is(err, context.Canceled):
		s.trouble = explain(err)
	}
}
