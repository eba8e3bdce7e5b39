package pitr

import (
	"cmp"
	"slices"
	"time"

	"howdah.dev/howdah/pkg/postgres"
)

// Graph is the timelines of one lineage, the backups on them, and the WAL that connects them. It doesn't change.
type Graph struct {
	listing   Listing
	backups   []Backup // by the position where they stop
	runs      map[uint32][]Run
	histories map[uint32]postgres.TimelineHistory
	newest    uint32
}

// New makes the graph of a listing.
func New(listing Listing) *Graph {
	g := &Graph{listing: listing, runs: map[uint32][]Run{}, histories: map[uint32]postgres.TimelineHistory{}}
	g.backups = slices.Clone(listing.Backups)
	slices.SortFunc(g.backups, func(a, b Backup) int {
		return cmp.Or(cmp.Compare(a.StopLSN, b.StopLSN), a.StopTime.Compare(b.StopTime), cmp.Compare(a.ID, b.ID))
	})
	for _, run := range listing.WAL {
		g.runs[run.First.Timeline] = append(g.runs[run.First.Timeline], run)
		g.newest = max(g.newest, run.First.Timeline)
	}
	for _, b := range g.backups {
		g.newest = max(g.newest, b.Timeline)
	}
	for _, history := range listing.Histories {
		g.histories[history.Timeline] = history
	}
	return g
}

// Newest is the timeline that is, or was, written last: the newest one that has WAL or a backup. 0: there is none.
func (g *Graph) Newest() uint32 { return g.newest }

// Timelines are all that a backup, a segment or a history file is of, in order.
func (g *Graph) Timelines() []uint32 {
	var all []uint32
	for timeline := range g.runs {
		all = append(all, timeline)
	}
	for timeline := range g.histories {
		all = append(all, timeline)
	}
	for _, b := range g.backups {
		all = append(all, b.Timeline)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Backups are all that can be read, by the position where they stop.
func (g *Graph) Backups() []Backup { return slices.Clone(g.backups) }

// Unlinked is the newest timeline if its history is not in the archive, so that nothing tells where it begins; else 0. The
// first timeline has no history.
func (g *Graph) Unlinked() uint32 {
	if _, known := g.histories[g.newest]; known || g.newest <= 1 {
		return 0
	}
	return g.newest
}

// history is how a timeline came to be. One whose history is not known has no ancestors.
func (g *Graph) history(timeline uint32) postgres.TimelineHistory {
	if h, known := g.histories[timeline]; known {
		return h
	}
	return postgres.TimelineHistory{Timeline: timeline}
}

// Leads says that replay from a backup can reach a timeline: the backup is on it, or stopped before the timeline, or an
// ancestor of it, branched off from that of the backup.
func (g *Graph) Leads(b Backup, timeline uint32) bool {
	if b.Timeline == timeline {
		return true
	}
	left, related := g.history(timeline).Left(b.Timeline)
	return related && b.StopLSN <= left
}

// Leading are the backups that lead to a timeline, newest first.
func (g *Graph) Leading(timeline uint32) []Backup {
	var leading []Backup
	for _, b := range slices.Backward(g.backups) {
		if g.Leads(b, timeline) {
			leading = append(leading, b)
		}
	}
	return leading
}

// LeadingAt is the newest backup that leads to a timeline and stopped at or before a time, so that replay to that time may
// begin with it.
func (g *Graph) LeadingAt(timeline uint32, at time.Time) (Backup, bool) {
	for _, b := range g.Leading(timeline) {
		if !b.StopTime.After(at) {
			return b, true
		}
	}
	return Backup{}, false
}

// Onward is the newest timeline with WAL or a backup that continues from a backup; its own, if none does.
func (g *Graph) Onward(b Backup) uint32 {
	onward := b.Timeline
	for timeline := range g.histories {
		if timeline > onward && g.written(timeline) && g.Leads(b, timeline) {
			onward = timeline
		}
	}
	return onward
}

// written says that there is something of a timeline besides its history.
func (g *Graph) written(timeline uint32) bool {
	return len(g.runs[timeline]) > 0 || slices.ContainsFunc(g.backups, func(b Backup) bool { return b.Timeline == timeline })
}

// NewestRestorable is the backup that a lineage is restored from to the latest state: the newest one that leads to the newest
// timeline and whose own WAL is there, by its names. Where no backup leads there, it is the newest of all timelines.
func (g *Graph) NewestRestorable() (Backup, bool) {
	for _, b := range g.Leading(g.newest) {
		if g.Whole(b) {
			return b, true
		}
	}
	var newest Backup
	found := false
	for _, b := range g.backups {
		if g.Whole(b) && (!found || !b.StopTime.Before(newest.StopTime)) {
			newest, found = b, true
		}
	}
	return newest, found
}

// Whole says that all WAL without which the backup can't be restored is there, by its names.
func (g *Graph) Whole(b Backup) bool {
	first, last := b.FirstSegment(g.listing.SegmentSize), b.LastSegment(g.listing.SegmentSize)
	run := g.holder(first)
	return run != nil && last.Number <= run.Last.Number
}

// holder is the run that a segment is in, or nil.
func (g *Graph) holder(segment postgres.Segment) *Run {
	for i, run := range g.runs[segment.Timeline] {
		if run.First.Number <= segment.Number && segment.Number <= run.Last.Number {
			return &g.runs[segment.Timeline][i]
		}
	}
	return nil
}

// lastOf is the last run of a timeline, or nil.
func (g *Graph) lastOf(timeline uint32) *Run {
	if runs := g.runs[timeline]; len(runs) > 0 {
		return &runs[len(runs)-1]
	}
	return nil
}
