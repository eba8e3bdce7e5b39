package archive

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/pkg/walsocket"
)

// A replica that fell behind finds WAL in the archive that its primary has no more. It gets what is part of the primary's
// history, and nothing else: a former primary may have archived WAL that nobody follows, and the segment in which a timeline
// was left, whole. Histories of timelines come from the primary, as the archive has those of branches that were left too.

const (
	fetchTime   = time.Minute // for one segment
	maxFailures = 3           // one after the other, after which the archive is given up
)

// supply is what the server of a replica may fetch.
type supply struct {
	history postgres.TimelineHistory // of the primary
	ahead   *Ahead
	dir     string
	ctx     context.Context
	cancel  context.CancelFunc
	using   sync.WaitGroup // those who fetch

	fetching int // how many that are
	failures int // one after the other
}

// Offers says whether the archive has the segment that a replica at lsn continues with. The history is the primary's. An error
// says nothing about that, and may pass.
func (a *Archiver) Offers(ctx context.Context, history postgres.TimelineHistory, lsn postgres.LSN) (bool, error) {
	a.mu.Lock()
	t, confirmed := a.target, a.server.confirmed
	givenUp := a.supply != nil && a.supply.failures >= maxFailures
	a.mu.Unlock()
	switch {
	case t == nil:
		return false, nil
	case t.Err != nil:
		return false, t.Err
	case givenUp:
		return false, nil
	case !confirmed.known || confirmed.archives && confirmed.last == "":
		return false, errors.New("the primary has not said yet what is archived")
	}
	segment := postgres.SegmentOf(history.Timeline, lsn, t.Claim.SegmentSize)
	segment.Timeline = history.At(segment.End().Add(-1))
	if !confirmed.has(segment) {
		return false, nil
	}
	_, err := t.archive.ReadHeader(ctx, t.Claim.Lineage, segment.Name())
	if errors.Is(err, objstore.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// has says whether the primary has this segment in the archive.
func (c confirmation) has(segment postgres.Segment) bool {
	return c.archives && c.covers(postgres.WALFile{Segment: segment})
}

// follows says whether a segment is one to replay for who follows a history: from its begin to its end on that timeline.
func follows(history postgres.TimelineHistory, segment postgres.Segment) bool {
	left, is := history.Left(segment.Timeline)
	return is && (left == 0 || segment.End() <= left)
}

// Supply lets the server fetch archived WAL of this history, until EndSupply. What is fetched ahead waits in a folder on the
// volume of the server.
func (a *Archiver) Supply(history postgres.TimelineHistory, dir string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.supply != nil {
		a.supply.history = history
		return nil
	}
	if a.target == nil || a.target.Err != nil {
		return errors.New("there is no archive")
	}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)); err != nil {
		return err
	}
	own, err := os.MkdirTemp(dir, "") // one that ends may still be at work beside it
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(a.target.ctx)
	a.supply = &supply{
		history: history, dir: own, ctx: ctx, cancel: cancel,
		ahead: NewAhead(a.target.archive, a.target.Claim.Lineage, own, a.target.Claim.SegmentSize),
	}
	return nil
}

// EndSupply has every request answered at once that there is no such file.
func (a *Archiver) EndSupply() {
	a.mu.Lock()
	s := a.supply
	a.supply = nil
	a.mu.Unlock()
	if s == nil {
		return
	}
	s.cancel()
	a.removing.Go(func() { // a promotion doesn't wait for it
		s.using.Wait()
		if err := errors.Join(s.ahead.Close(), os.RemoveAll(s.dir)); err != nil {
			a.log.Warn("WAL that was fetched and is not needed can't be removed", "error", err)
		}
	})
}

// Fetching says whether the server waits for a segment. It doesn't do so for ever.
func (a *Archiver) Fetching() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.supply != nil && a.supply.fetching > 0
}

// Fetch is restore_command, which the server of a replica has that fell behind. Whatever is wrong, the answer is that there
// is no such file: the server asks its primary then.
func (a *Archiver) Fetch(ctx context.Context, name, path string) error {
	if err := a.fetch(ctx, name, path); err != nil {
		return fmt.Errorf("%s: %w", name, walsocket.ErrNotArchived)
	}
	return nil
}

func (a *Archiver) fetch(ctx context.Context, name, path string) error {
	a.mu.Lock()
	t, s := a.target, a.supply
	if t == nil || s == nil || filepath.Dir(path) != a.walDir {
		a.mu.Unlock()
		return walsocket.ErrNotArchived
	}
	segment, err := postgres.ParseSegment(name, t.Claim.SegmentSize)
	if err != nil || !a.given(s, segment) {
		a.mu.Unlock()
		return walsocket.ErrNotArchived
	}
	s.using.Add(1)
	s.fetching++
	a.mu.Unlock()
	defer s.using.Done()
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	err = s.ahead.Segment(ctx, segment, path, func(next postgres.Segment) bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.given(s, next)
	})
	a.fetched(s, name, err)
	return err
}

// given says whether a segment is part of a supply. The lock is held.
func (a *Archiver) given(s *supply, segment postgres.Segment) bool {
	return follows(s.history, segment) && a.server.confirmed.has(segment)
}

// fetched notes how a fetch went.
func (a *Archiver) fetched(s *supply, name string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s.fetching--
	switch {
	case err == nil:
		s.failures = 0
		a.releaseLater()
	case s.ctx.Err() == nil && !errors.Is(err, objstore.ErrNotFound):
		s.failures++
		a.log.Warn("WAL can't be fetched from the archive", "file", name, "failures", s.failures, "error", objstore.Explain(err))
	}
}
