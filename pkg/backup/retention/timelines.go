package retention

import (
	"slices"
	"time"

	"howdah.dev/howdah/pkg/postgres"
)

// known are the timelines that backups or histories name, in order. There is at least one.
func (p *planner) known() []uint32 {
	timelines := []uint32{}
	for _, t := range p.Timelines {
		timelines = append(timelines, t.History.Timeline)
	}
	for i := range p.Backups {
		timelines = append(timelines, p.Backups[i].Timeline)
	}
	if len(timelines) == 0 {
		return []uint32{1}
	}
	slices.Sort(timelines)
	return slices.Compact(timelines)
}

// current is the timeline that is, or was, written last.
func (p *planner) current() uint32 {
	known := p.known()
	return known[len(known)-1]
}

// during are the timelines that the cluster may have been on at or after a time: the newest that had begun by then, and
// all later ones.
func (p *planner) during(since time.Time) []uint32 {
	known := p.known()
	first := known[0]
	for _, t := range p.Timelines {
		if !t.Since.After(since) {
			first = max(first, t.History.Timeline)
		}
	}
	return slices.DeleteFunc(known, func(t uint32) bool { return t < first })
}

// newestLeading is the newest good backup that leads to the end of the lineage; nil: none does.
func (p *planner) newestLeading() *Backup {
	for _, b := range p.good {
		if p.leads(b, p.current()) {
			return b
		}
	}
	return nil
}

// before is the newest good backup that stopped at or before a time and leads to a timeline; where all are younger, the
// oldest one. Nil: none leads there.
func (p *planner) before(timeline uint32, at time.Time) *Backup {
	var oldest *Backup
	for _, b := range p.good {
		if !p.leads(b, timeline) {
			continue
		}
		if !b.Time.After(at) {
			return b
		}
		oldest = b
	}
	return oldest
}

// leads says that replay from a backup can reach a timeline: the backup is on it, or had stopped where it, or an
// ancestor of it, branched off.
func (p *planner) leads(b *Backup, timeline uint32) bool {
	if b.Timeline == timeline {
		return true
	}
	history := p.history(timeline)
	if history == nil {
		return false
	}
	left, ancestor := history.Left(b.Timeline)
	return ancestor && b.Stop <= left
}

func (p *planner) history(timeline uint32) *postgres.TimelineHistory {
	for i := range p.Timelines {
		if p.Timelines[i].History.Timeline == timeline {
			return &p.Timelines[i].History
		}
	}
	return nil
}
