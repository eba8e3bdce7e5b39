package archive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/pkg/walsocket"
)

// A replica keeps its WAL until the primary has archived it, and so has what the primary had not when it takes over. It
// pushes nothing but the histories of timelines, which are the same wherever they come from.

// serverState is what the server is, for its archiver.
type serverState struct {
	replica   bool
	ending    ending
	confirmed confirmation
}

// ending is how little a server waits for the archive that is about to end.
type ending int

const (
	running  ending = iota
	stopping        // it asks three times and then ends
	givingUp        // somebody else waits for its end
)

// confirmation is what the primary has said of its archive.
type confirmation struct {
	known    bool
	archives bool
	last     string // segment that is archived, and all before it
}

// covers says whether the primary has archived a file of WAL, or never will. A primary archives segments in the order of their names: on one
// timeline by position, and an older timeline's first.
func (c confirmation) covers(file postgres.WALFile) bool {
	if !c.known || !c.archives {
		return c.known
	}
	last, err := postgres.ParseSegment(c.last, file.Segment.SegSize)
	return err == nil && file.Segment.Compare(last) <= 0
}

// unsure: the segment is of an earlier timeline than what the primary has archived last, so the primary may never have had it. It has not if it was
// cloned while nothing could be archived. To push what is there already changes nothing.
func (c confirmation) unsure(file postgres.WALFile) bool {
	if !c.known || !c.archives || file.Kind != postgres.WALSegment {
		return false
	}
	last, err := postgres.ParseSegment(c.last, file.Segment.SegSize)
	return err == nil && file.Segment.Timeline < last.Timeline
}

// wake tells those who wait that something has changed. The lock is held.
func (a *Archiver) wake() {
	close(a.changed)
	a.changed = make(chan struct{})
}

func (a *Archiver) setServer(change func(*serverState)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.server
	change(&a.server)
	if a.server != before {
		a.wake()
	}
}

// SetPrimary says whether the server is a primary, as it is at first. It is said after a promotion. What a former primary
// has confirmed still holds.
func (a *Archiver) SetPrimary(primary bool) {
	if primary {
		a.EndSupply()
		if err := a.askForLeftovers(); err != nil {
			a.log.Warn("segments of the former timeline may be archived late", "error", err)
		}
	}
	a.setServer(func(s *serverState) { s.replica = !primary })
}

// askForLeftovers has the server ask for the segments of former timelines that it has forgotten. A replica notes a segment
// when it has received it to its end. If the primary died before that, right after a switch of segments, the last one
// would be archived not before it is to be removed.
func (a *Archiver) askForLeftovers() error {
	a.mu.Lock()
	t := a.target
	a.mu.Unlock()
	newest, err := newestHistory(a.walDir)
	if err != nil || t == nil || len(newest.Ancestors) == 0 {
		return err
	}
	entries, err := os.ReadDir(a.walDir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		segment, err := postgres.ParseSegment(entry.Name(), t.Claim.SegmentSize)
		if left, is := newest.Left(segment.Timeline); err != nil || !is || left == 0 || segment.End() > left {
			continue
		}
		if err := a.askFor(entry.Name()); err != nil {
			return err
		}
	}
	return nil
}

// askFor notes a file as one to be archived, unless it is noted.
func (a *Archiver) askFor(name string) error {
	note := filepath.Join(a.walDir, "archive_status", name)
	if _, err := os.Lstat(note + ".done"); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(note+".ready", os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// Confirmed says what the primary that a replica follows has archived: the segment of this name and all before it, or
// nothing at all where it has no archive.
func (a *Archiver) Confirmed(name string, archives bool) {
	a.setServer(func(s *serverState) { s.confirmed = confirmation{true, archives, name} })
}

// Stopping makes the archiver give answers quickly, because a server that shuts down waits for them.
func (a *Archiver) Stopping(is bool) { a.end(is, stopping) }

// GivingUp makes the archiver say no at once to what is not archived, because another instance waits for this server to
// end. It has the WAL too.
func (a *Archiver) GivingUp(is bool) { a.end(is, givingUp) }

func (a *Archiver) end(is bool, how ending) {
	a.setServer(func(s *serverState) {
		s.ending = running
		if is {
			s.ending = how
		}
	})
}

// awaitTurn waits until it is up to this server to push a file, and returns the target. Without one the file needs no
// push: there is no archive, or the primary has it there, or nobody needs it.
func (a *Archiver) awaitTurn(ctx context.Context, name string) (*target, error) {
	for {
		a.mu.Lock()
		t, is, changed := a.target, a.server, a.changed
		a.mu.Unlock()
		if t == nil {
			return nil, nil
		}
		file, err := postgres.ParseWALFile(name, t.Claim.SegmentSize)
		switch {
		case err != nil:
			return nil, err
		case file.Kind == postgres.WALHistory && isSkipped(a.walDir, name):
			return nil, nil
		case file.Kind == postgres.WALHistory:
			return t, nil
		case !is.replica && wasLeft(a.walDir, file):
			return nil, nil
		case !is.replica:
			return t, nil
		case is.confirmed.covers(file) && (!is.confirmed.unsure(file) || wasLeft(a.walDir, file)):
			return nil, nil
		case is.ending != running:
			return nil, fmt.Errorf("%s: %w", name, walsocket.ErrGivenUp)
		case is.confirmed.covers(file):
			return t, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("%s is not archived yet by the primary", name)
		}
	}
}

// isSkipped says whether a timeline is only a number that a promotion has passed over. Whoever has begun it archives its history.
func isSkipped(walDir, history string) bool {
	info, err := os.Stat(filepath.Join(walDir, history))
	return err == nil && info.Size() == 0
}

// wasLeft says whether a segment is one that its timeline was left in or before. A former replica has it as far as it got,
// under the name of a whole one; what counts of it is in the segment of the next timeline.
func wasLeft(walDir string, file postgres.WALFile) bool {
	if file.Kind != postgres.WALSegment {
		return false
	}
	newest, err := newestHistory(walDir)
	if err != nil || newest.Timeline <= file.Timeline {
		return false
	}
	left, is := newest.Left(file.Timeline)
	return is && file.Segment.End() > left
}

// newestHistory is the history of the newest timeline that the server knows; that of timeline 1 where it knows none.
func newestHistory(walDir string) (postgres.TimelineHistory, error) {
	names, err := filepath.Glob(filepath.Join(walDir, "????????.history"))
	if err != nil || len(names) == 0 {
		return postgres.TimelineHistory{Timeline: 1}, err
	}
	newest := names[len(names)-1] // they are in the order of their names
	file, err := postgres.ParseWALFile(filepath.Base(newest), postgres.DefaultSegSize)
	if err != nil {
		return postgres.TimelineHistory{}, err
	}
	content, err := os.ReadFile(newest)
	if err != nil {
		return postgres.TimelineHistory{}, err
	}
	return postgres.ParseTimelineHistory(file.Timeline, content)
}

// Archived is the segment up to which the server has everything archived: what a primary tells its replicas. Empty: it is
// not known to have archived any.
func (a *Archiver) Archived() (string, error) {
	entries, err := os.ReadDir(filepath.Join(a.walDir, "archive_status"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	a.mu.Lock()
	answered := a.answered
	a.mu.Unlock()
	last := ""
	for _, entry := range entries { // in the order of names
		name, status, _ := strings.Cut(entry.Name(), ".")
		switch {
		case len(name) != segmentName:
		case status == "ready" && name <= answered:
			return last, nil // it came late
		case status == "ready":
			return max(last, answered), nil
		case status == "done":
			last = name
		}
	}
	return max(last, answered), nil
}

const segmentName = 24 // hexadecimal digits
