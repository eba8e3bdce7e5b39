// Package way finds out which points in the history of a database a repository leads to: with which backup to begin, and how
// far the WAL behind it goes.
package way

import (
	"context"
	"fmt"
	"slices"
	"time"

	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/repository"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
)

// Archive is the WAL of one lineage, by the names in it.
type Archive struct {
	Coverage  wal.Coverage
	wal       *wal.Archive
	histories []postgres.TimelineHistory
}

// Open lists the archive of a lineage.
func Open(ctx context.Context, store objstore.Store, lineage string) (*Archive, error) {
	a := &Archive{wal: wal.New(store)}
	var err error
	if a.Coverage, err = a.wal.Coverage(ctx, lineage); err != nil {
		return nil, err
	}
	for _, name := range a.Coverage.Histories {
		file, err := postgres.ParseWALFile(name, a.Coverage.SegmentSize)
		if err != nil {
			return nil, err
		}
		content, _, err := a.wal.Get(ctx, lineage, name)
		if err != nil {
			return nil, fmt.Errorf("history of timeline %d: %w", file.Timeline, err)
		}
		history, err := postgres.ParseTimelineHistory(file.Timeline, content)
		if err != nil {
			return nil, err
		}
		a.histories = append(a.histories, history)
	}
	return a, nil
}

// Reach is how far the WAL behind a backup leads without a gap.
type Reach struct {
	Timeline    uint32 // the one that leads furthest
	First, Last string // segments; empty: there are none
	Segments    int64
	// Missing is the segment that isn't there although it is needed, or although there is WAL behind it; empty: none.
	Missing string
	// EndLSN is behind the last whole record.
	EndLSN postgres.LSN
	// LastCommit is the time of the last commit behind the backup's begin. Nil: there is none, or it is Unsure.
	LastCommit *time.Time
	Unsure     bool // too much WAL without a commit was looked at to know

	runs []run
}

// run is an unbroken row of segments of one timeline.
type run struct{ first, last postgres.Segment }

// leg is a stretch of WAL on one timeline. The last leg has no end.
type leg struct {
	timeline uint32
	from, to postgres.LSN
}

// follow finds the way from a backup to the newest timeline that goes on from it.
func follow(histories []postgres.TimelineHistory, head *backup.Head) []leg {
	path := postgres.TimelineHistory{Timeline: head.Timeline}
	for _, h := range histories {
		if left, related := h.Left(head.Timeline); related && h.Timeline > path.Timeline && left >= head.StopLSN {
			path = h
		}
	}
	var legs []leg
	from, behind := head.StartLSN, false
	for _, ancestor := range path.Ancestors {
		behind = behind || ancestor.Timeline == head.Timeline
		if behind {
			legs = append(legs, leg{ancestor.Timeline, from, ancestor.LSN})
			from = ancestor.LSN
		}
	}
	return append(legs, leg{timeline: path.Timeline, from: from})
}

// Behind says how far the WAL behind a backup leads, by names only: it costs nothing.
func (a *Archive) Behind(head *backup.Head) Reach {
	legs := follow(a.histories, head)
	r := Reach{Timeline: legs[len(legs)-1].timeline}
	for i, l := range legs {
		if r.Missing = r.walk(a.Coverage, l, i == len(legs)-1); r.Missing != "" {
			break
		}
	}
	if len(r.runs) == 0 {
		if r.Missing == "" {
			r.Missing = head.WAL.First
		}
		return r
	}
	r.First, r.Last = r.runs[0].first.Name(), r.runs[len(r.runs)-1].last.Name()
	r.EndLSN = r.runs[len(r.runs)-1].last.End()
	return r
}

// walk adds what there is of a leg, and names the segment that is missing on it. A segment in which a timeline begins is read
// from the younger one.
func (r *Reach) walk(coverage wal.Coverage, l leg, open bool) string {
	first := postgres.SegmentOf(l.timeline, l.from, coverage.SegmentSize)
	end := postgres.SegmentOf(l.timeline, l.to, coverage.SegmentSize) // not needed itself
	if !open && first.Number >= end.Number {
		return ""
	}
	last, there := unbroken(coverage, first, open)
	if !there {
		if open && len(r.runs) > 0 && newest(coverage, l.timeline) < first.Number {
			return "" // the timeline was begun, and has archived nothing yet
		}
		return first.Name()
	}
	if !open {
		last.Number = min(last.Number, end.Number-1)
	}
	r.runs = append(r.runs, run{first, last})
	r.Segments += int64(last.Number-first.Number) + 1
	if !open && last.Number+1 < end.Number || open && last.Number < newest(coverage, l.timeline) {
		return last.Next().Name()
	}
	return ""
}

// unbroken is the last segment of the row that begins with the given one. One that is there in pieces counts only at the end of
// the way: what goes on on the next timeline goes on behind the whole one.
func unbroken(coverage wal.Coverage, first postgres.Segment, open bool) (postgres.Segment, bool) {
	for _, t := range coverage.Timelines {
		if t.ID != first.Timeline || first.Number < t.First.Number || first.Number > t.Last.Number {
			continue
		}
		for _, hole := range t.Holes {
			if hole.First.Number <= first.Number && first.Number <= hole.Last.Number {
				return first, false
			}
			if hole.First.Number > first.Number {
				last := hole.First
				last.Number--
				return last, true
			}
		}
		last := t.Last
		if t.Open && !open {
			last.Number--
		}
		return last, last.Number >= first.Number
	}
	return first, false
}

// newest is the number of the last segment of a timeline.
func newest(coverage wal.Coverage, timeline uint32) uint64 {
	for _, t := range coverage.Timelines {
		if t.ID == timeline {
			return t.Last.Number
		}
	}
	return 0
}

// commitDepth bounds how many headers are read back from the end to find a commit.
const commitDepth = 512

// Measure reads where exactly the WAL ends and when the last commit in it was.
func (a *Archive) Measure(ctx context.Context, r *Reach) error {
	depth := 0
	for i, run := range slices.Backward(r.runs) {
		for segment := run.last; segment.Number >= run.first.Number; segment.Number-- {
			if depth++; depth > commitDepth {
				r.Unsure = true
				return nil
			}
			header, err := a.wal.ReadHeader(ctx, a.Coverage.Lineage, segment.Name())
			if err != nil {
				return err
			}
			if i == len(r.runs)-1 && segment == run.last && !header.EndLSN.IsZero() {
				r.EndLSN = header.EndLSN
			}
			if header.LastCommit != nil {
				r.LastCommit = header.LastCommit
				return nil
			}
			if segment.Number == 0 {
				break
			}
		}
	}
	return nil
}

// Covers says that everything the backup itself needs is there.
func (r Reach) Covers(head *backup.Head) bool { return r.Segments > 0 && r.EndLSN >= head.StopLSN }

// Lineage is what a repository has of one line of a database.
type Lineage struct {
	repository.Lineage
	Archive *Archive
	Heads   []*backup.Head // by the position where they stop
	Damaged []error        // what is wrong with those that can't be read
}
