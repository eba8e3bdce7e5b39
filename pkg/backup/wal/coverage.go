package wal

import (
	"context"
	"iter"
	"path"
	"strconv"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
)

// Coverage is what an archive holds, by the names in it.
type Coverage struct {
	Lineage     string
	SegmentSize uint64 // of the lineage, bytes
	Timelines   []Timeline
	Histories   []string // names of history files, in order
	from        postgres.LSN
}

// Timeline is the WAL of one timeline.
type Timeline struct {
	ID          uint32
	First, Last postgres.Segment // whole segments
	Segments    int
	Holes       []Hole
	Partial     string // name of a partial segment after Last, if there is one
	Open        bool   // Last is still written, and there in pieces
	Bytes       int64  // as stored
}

// Hole is a run of segments that are not there, between ones that are.
type Hole struct {
	First, Last postgres.Segment // both missing
}

// Coverage lists the WAL of a lineage. A lineage without WAL has no timelines; one that was never
// claimed is objstore.ErrNotFound.
func (a *Archive) Coverage(ctx context.Context, lineage string) (Coverage, error) {
	return a.CoverageFrom(ctx, lineage, 0)
}

// CoverageFrom is Coverage of the segments that hold a position or what comes after it, on any timeline. Those before are
// not asked for.
func (a *Archive) CoverageFrom(ctx context.Context, lineage string, from postgres.LSN) (Coverage, error) {
	owner, err := layout.ReadLineage(ctx, a.store, lineage)
	if err != nil {
		return Coverage{}, err
	}
	coverage := Coverage{Lineage: lineage, SegmentSize: owner.SegmentSize, from: from}
	if from.IsZero() {
		return coverage, a.cover(ctx, &coverage, layout.WALPrefix(lineage), "")
	}
	for folder, err := range a.store.Folders(ctx, layout.WALPrefix(lineage)) {
		if err != nil {
			return Coverage{}, err
		}
		prefix := layout.WALPrefix(lineage) + folder + "/"
		after := ""
		if timeline, err := strconv.ParseUint(folder, 16, 32); err == nil {
			after = beforeSegment(prefix, postgres.SegmentOf(uint32(timeline), from, owner.SegmentSize))
		}
		if err := a.cover(ctx, &coverage, prefix, after); err != nil {
			return Coverage{}, err
		}
	}
	return coverage, nil
}

func (a *Archive) cover(ctx context.Context, coverage *Coverage, prefix, after string) error {
	for info, err := range a.store.List(ctx, prefix, after) {
		if err != nil {
			return err
		}
		coverage.add(info)
	}
	return nil
}

// beforeSegment is a key that comes right before those of a segment: its name without the last digit.
func beforeSegment(prefix string, segment postgres.Segment) string {
	name := segment.Name()
	return prefix + name[:len(name)-1]
}

// add takes in the next object of a list in order. Names that are none of the archive's are left out.
func (c *Coverage) add(info objstore.Info) {
	if p, is := parsePiece(path.Base(info.Key)); is {
		c.addOpen(p, info.Size)
		return
	}
	file, err := postgres.ParseWALFile(path.Base(info.Key), c.SegmentSize)
	if err != nil || file.Kind != postgres.WALHistory && file.Segment.End() <= c.from {
		return
	}
	switch file.Kind {
	case postgres.WALHistory:
		c.Histories = append(c.Histories, file.Name)
	case postgres.WALPartial:
		if n := len(c.Timelines); n > 0 && c.Timelines[n-1].ID == file.Timeline {
			c.Timelines[n-1].Partial = file.Name
			c.Timelines[n-1].Bytes += info.Size
		}
	case postgres.WALSegment:
		c.addSegment(file.Segment, info.Size)
	}
}

// addOpen takes in a piece of an open segment, if it is the one after all that are whole.
func (c *Coverage) addOpen(p piece, size int64) {
	segment, err := postgres.ParseSegment(p.segment, c.SegmentSize)
	if err != nil || segment.End() <= c.from {
		return
	}
	n := len(c.Timelines)
	known := n > 0 && c.Timelines[n-1].ID == segment.Timeline
	switch {
	case known && c.Timelines[n-1].Open && c.Timelines[n-1].Last == segment:
		c.Timelines[n-1].Bytes += size
	case p.from == 0 && (!known || c.Timelines[n-1].Last.Next() == segment):
		c.addSegment(segment, size)
		c.Timelines[len(c.Timelines)-1].Open = true
	}
}

// closed takes an open segment out again that has whole ones after it: nothing continues from it.
func (c *Coverage) closed() {
	n := len(c.Timelines)
	if n == 0 || !c.Timelines[n-1].Open {
		return
	}
	t := &c.Timelines[n-1]
	if t.Open = false; t.Segments == 1 {
		c.Timelines = c.Timelines[:n-1]
		return
	}
	t.Segments--
	t.Last.Number--
}

func (c *Coverage) addSegment(segment postgres.Segment, size int64) {
	if n := len(c.Timelines); n > 0 && c.Timelines[n-1].ID == segment.Timeline {
		c.closed()
	}
	n := len(c.Timelines)
	if n == 0 || c.Timelines[n-1].ID != segment.Timeline {
		c.Timelines = append(c.Timelines, Timeline{ID: segment.Timeline, First: segment, Last: segment, Segments: 1, Bytes: size})
		return
	}
	t := &c.Timelines[n-1]
	if expected := t.Last.Next(); expected.Compare(segment) < 0 {
		last := segment
		last.Number--
		t.Holes = append(t.Holes, Hole{First: expected, Last: last})
	}
	t.Last = segment
	t.Segments++
	t.Bytes += size
}

// segments yields the archived segments of a timeline, in order, from one on.
func (a *Archive) segments(ctx context.Context, lineage string, from postgres.Segment) iter.Seq2[postgres.Segment, error] {
	prefix := layout.TimelinePrefix(lineage, from.Timeline)
	after := beforeSegment(prefix, from)
	return func(yield func(postgres.Segment, error) bool) {
		for info, err := range a.store.List(ctx, prefix, after) {
			if err != nil {
				yield(postgres.Segment{}, err)
				return
			}
			segment, err := postgres.ParseSegment(path.Base(info.Key), from.SegSize)
			if err == nil && segment.Compare(from) >= 0 && !yield(segment, nil) {
				return
			}
		}
	}
}

// maxMissing bounds a list that is for people and for counting down to none.
const maxMissing = 1000

// MissingSegments names the segments between two of one timeline, both included, that are not
// archived: in order, and at most a thousand.
func (a *Archive) MissingSegments(ctx context.Context, lineage string, first, last postgres.Segment) ([]string, error) {
	var missing []string
	next := first
	skipTo := func(segment postgres.Segment) {
		for ; next.Compare(segment) < 0 && len(missing) < maxMissing; next = next.Next() {
			missing = append(missing, next.Name())
		}
	}
	for segment, err := range a.segments(ctx, lineage, first) {
		if err != nil {
			return nil, err
		}
		if segment.Compare(last) > 0 {
			break
		}
		skipTo(segment)
		next = segment.Next()
	}
	skipTo(last.Next())
	return missing, nil
}
