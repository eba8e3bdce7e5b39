package pitr

import (
	"slices"
	"time"

	"howdah.dev/howdah/pkg/postgres"
)

// Reach says how far the WAL after a backup leads along a timeline.
type Reach struct {
	Backup Backup
	// Timeline that is followed.
	Timeline uint32
	// Runs are the segments that replay reads, without a gap, each of one timeline.
	Runs []Run
	// Missing is the segment that isn't there although it is needed, or although there is WAL after it. Its zero value: none.
	Missing postgres.Segment

	// What follows is known once it is measured.

	// EndLSN is the end of the last whole record.
	EndLSN postgres.LSN
	// LastCommit is the time of the last commit behind the begin of the backup. Nil: there is none, or it is Unsure.
	LastCommit *time.Time
	// Unsure: too much WAL without a commit was looked at to know.
	Unsure bool
	// commitIn is the segment that LastCommit is in.
	commitIn postgres.Segment
}

// First segment that replay reads.
func (r *Reach) First() postgres.Segment {
	if len(r.Runs) == 0 {
		return postgres.Segment{}
	}
	return r.Runs[0].First
}

// Last segment that replay reads.
func (r *Reach) Last() postgres.Segment {
	if len(r.Runs) == 0 {
		return postgres.Segment{}
	}
	return r.Runs[len(r.Runs)-1].Last
}

// open says that the last segment is still written, and how far it goes is known.
func (r *Reach) open() bool {
	return len(r.Runs) > 0 && r.Runs[len(r.Runs)-1].Open && r.EndLSN > r.Last().Start()
}

// Segments is how many there are from First to Last, on all timelines.
func (r *Reach) Segments() int64 {
	total := int64(0)
	for _, run := range r.Runs {
		total += run.count()
	}
	return total
}

// Broken says that a segment is missing.
func (r *Reach) Broken() bool { return r.Missing != postgres.Segment{} }

// Covers says that everything the backup itself needs is there.
func (r *Reach) Covers() bool { return len(r.Runs) > 0 && r.EndLSN >= r.Backup.StopLSN }

// leg is a stretch of WAL on one timeline. The last leg has no end.
type leg struct {
	timeline uint32
	from, to postgres.LSN
}

// legs lead from a backup along a history of timelines.
func legs(history postgres.TimelineHistory, b Backup) []leg {
	var found []leg
	from, behind := b.StartLSN, false
	for _, ancestor := range history.Ancestors {
		behind = behind || ancestor.Timeline == b.Timeline
		if behind {
			found = append(found, leg{ancestor.Timeline, from, ancestor.LSN})
			from = ancestor.LSN
		}
	}
	return append(found, leg{timeline: history.Timeline, from: from})
}

// Reach follows a timeline from a backup that leads to it, to the end or to the first segment that is missing.
func (g *Graph) Reach(b Backup, timeline uint32) Reach {
	r := Reach{Backup: b, Timeline: timeline}
	all := legs(g.history(timeline), b)
	for i, l := range all {
		if i < len(all)-1 {
			g.pass(&r, l)
		} else {
			g.finish(&r, l)
		}
		if r.Broken() {
			break
		}
	}
	return r
}

// pass adds what there is of a leg that another one follows: up to the segment in which that begins, which is read from the
// younger timeline.
func (g *Graph) pass(r *Reach, l leg) {
	first := postgres.SegmentOf(l.timeline, l.from, g.listing.SegmentSize)
	end := postgres.SegmentOf(l.timeline, l.to, g.listing.SegmentSize) // not needed itself
	if first.Number >= end.Number {
		return
	}
	run := g.holder(first)
	if run == nil {
		r.Missing = first
		return
	}
	last := run.Last
	if run.Open { // what continues on the next timeline continues after the whole segment
		last.Number--
	}
	last.Number = min(last.Number, end.Number-1)
	if last.Number < first.Number {
		r.Missing = first
		return
	}
	r.Runs = append(r.Runs, Run{First: first, Last: last})
	if last.Number+1 < end.Number {
		r.Missing = last.Next()
	}
}

// finish adds what there is of the last leg.
func (g *Graph) finish(r *Reach, l leg) {
	first := postgres.SegmentOf(l.timeline, l.from, g.listing.SegmentSize)
	tip, run := g.lastOf(l.timeline), g.holder(first)
	switch {
	case run == nil && len(r.Runs) > 0 && (tip == nil || tip.Last.Number < first.Number):
		// The timeline was begun, and has archived nothing yet.
	case run == nil:
		r.Missing = first
	default:
		r.Runs = append(r.Runs, Run{First: first, Last: run.Last, Open: run.Open})
		if run.Last.Number < tip.Last.Number {
			r.Missing = run.Last.Next()
		}
	}
}

// commitDepth bounds how many headers are read back from the end to find a commit.
const commitDepth = 2048

// Measure reads where exactly the WAL ends and when the last commit in it was.
func (r *Reach) Measure(headers Headers) error {
	r.EndLSN, r.LastCommit, r.Unsure = 0, nil, false
	depth, last := 0, r.Last()
	for segment := range r.backward() {
		if depth++; depth > commitDepth {
			r.Unsure = true
			return nil
		}
		header, err := headers.Header(segment)
		if err != nil {
			return err
		}
		if segment == last {
			if r.EndLSN = header.EndLSN; r.EndLSN.IsZero() {
				r.EndLSN = last.End()
			}
		}
		if header.LastCommit != nil {
			r.LastCommit, r.commitIn = header.LastCommit, segment
			return nil
		}
	}
	return nil
}

// measureLike measures by what was found out for a reach with the same end, as far as that tells.
func (r *Reach) measureLike(known *Reach, headers Headers) error {
	if known == nil {
		return r.Measure(headers)
	}
	first := r.First().Number
	switch r.EndLSN = known.EndLSN; {
	case known.LastCommit != nil && known.commitIn.Number >= first:
		r.LastCommit, r.commitIn = known.LastCommit, known.commitIn
	case known.LastCommit == nil && known.Unsure:
		r.Unsure = r.Segments() > commitDepth
	case known.LastCommit == nil && first < known.First().Number:
		return r.Measure(headers)
	}
	return nil
}

// backward yields the segments from the last to the first.
func (r *Reach) backward() func(yield func(postgres.Segment) bool) {
	return func(yield func(postgres.Segment) bool) {
		for _, run := range slices.Backward(r.Runs) {
			for segment := run.Last; segment.Number >= run.First.Number; segment.Number-- {
				if !yield(segment) {
					return
				}
				if segment.Number == 0 {
					break
				}
			}
		}
	}
}

// LastKnown is the time of the last commit, or the end of the backup if there is none after it.
func (r *Reach) LastKnown() time.Time {
	if r.LastCommit != nil && r.LastCommit.After(r.Backup.StopTime) {
		return *r.LastCommit
	}
	return r.Backup.StopTime
}

// knownUntil is a time until which nothing was committed that is not in the WAL that was measured: a later backup on the path
// proves it.
func (g *Graph) knownUntil(r *Reach) time.Time {
	known := r.LastKnown()
	for _, b := range g.backups {
		if b.StopLSN <= r.EndLSN && b.StopTime.After(known) && g.Leads(b, r.Timeline) {
			known = b.StopTime
		}
	}
	return known
}
