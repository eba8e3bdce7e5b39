package inventory

import (
	"context"
	"errors"
	"slices"
	"time"

	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/pitr"
	"howdah.dev/howdah/pkg/postgres"
)

// Window is the newest stretch of time of which every point can be restored. It is empty if From is zero.
type Window struct {
	From, To time.Time
	// Missing is the last file without which there is a gap before the window or it ends too early: a segment, or the history of
	// the newest timeline.
	Missing string
}

// findWindows asks pitr, as a Restore does, so that both say the same.
func (l *listing) findWindows(ctx context.Context, r *Reader, store objstore.Store, seen *Reader) error {
	facts := l.wal
	facts.Lineage, facts.Created, facts.SegmentSize = l.Lineage.Lineage.Lineage, l.Created, l.SegmentSize
	for _, b := range l.Backups {
		facts.Backups = append(facts.Backups, pitr.Backup{ID: b.ID, Timeline: b.Timeline, StartLSN: b.Start, StopLSN: b.Stop, StopTime: b.Stopped})
	}
	l.WAL = facts.WAL
	for _, t := range l.Timelines {
		facts.Histories = append(facts.Histories, t.History)
	}
	graph := pitr.New(facts)
	for i, b := range facts.Backups {
		l.Backups[i].Incomplete = !graph.Whole(b)
	}
	if unlinked := graph.Unlinked(); unlinked != 0 && !slices.ContainsFunc(graph.Leading(unlinked), graph.Whole) {
		l.Unlinked = unlinked
	}
	found, err := graph.Windows(&headers{ctx: ctx, archive: wal.New(store), lineage: facts.Lineage, known: r.headers, seen: seen.headers, open: openOf(facts)})
	if err != nil {
		return err
	}
	l.Windows = found.Windows
	if n := len(found.Windows); n > 0 {
		l.Window.From, l.Window.To = found.Windows[n-1].From, found.Windows[n-1].To
	}
	switch unlinked := graph.Unlinked(); {
	case found.Missing != postgres.Segment{}:
		l.Window.Missing = found.Missing.Name()
	case unlinked != 0 && len(graph.Leading(unlinked)) < len(facts.Backups):
		l.Window.Missing = postgres.HistoryName(unlinked)
	}
	return nil
}

// openOf are the segments that are still written.
func openOf(listing pitr.Listing) map[postgres.Segment]bool {
	open := map[postgres.Segment]bool{}
	for _, run := range listing.WAL {
		if run.Open {
			open[run.Last] = true
		}
	}
	return open
}

// headers reads those of segments. Of whole ones it reads each once, as they don't change. It implements pitr.Headers.
type headers struct {
	ctx         context.Context // pitr, which knows none, calls back
	archive     *wal.Archive
	lineage     string
	known, seen map[string]pitr.Header
	open        map[postgres.Segment]bool
}

// Header implements pitr.Headers. One that can't be read tells nothing: whoever verifies the archive or restores from it says so.
func (h *headers) Header(segment postgres.Segment) (pitr.Header, error) {
	key := h.lineage + "/" + segment.Name()
	header, known := h.known[key]
	if !known {
		read, err := h.archive.ReadHeader(h.ctx, h.lineage, segment.Name())
		switch {
		case errors.Is(err, objstore.ErrNotFound), errors.Is(err, wal.ErrCorrupt), errors.Is(err, wal.ErrFormat):
			return pitr.Header{}, nil
		case err != nil:
			return pitr.Header{}, err
		}
		header = pitr.Header{EndLSN: read.EndLSN, LastCommit: read.LastCommit}
	}
	if !h.open[segment] {
		h.seen[key] = header
	}
	return header, nil
}

// RestorePoints implements pitr.Headers; windows ask for none.
func (h *headers) RestorePoints([]postgres.Segment, string) ([]pitr.RestorePoint, error) {
	return nil, nil
}
