package retention

import (
	"slices"
	"time"

	"howdah.dev/howdah/pkg/pitr"
)

// graph is that of the lineage, by which its windows are found and restores are planned. Damaged backups are in it: they tell of
// timelines, too.
func (l *Lineage) graph() *pitr.Graph {
	listing := pitr.Listing{}
	for _, b := range l.Backups {
		listing.Backups = append(listing.Backups, b.onTimeline())
	}
	for _, t := range l.Timelines {
		listing.Histories = append(listing.Histories, t.History)
	}
	return pitr.New(listing)
}

func (b *Backup) onTimeline() pitr.Backup {
	return pitr.Backup{ID: b.ID, Timeline: b.Timeline, StopLSN: b.Stop, StopTime: b.Time}
}

// known are the timelines that backups or histories name, in order. There is at least one.
func (p *planner) known() []uint32 {
	if timelines := p.timelines.Timelines(); len(timelines) > 0 {
		return timelines
	}
	return []uint32{1}
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

// leads says that replay from a backup can reach a timeline.
func (p *planner) leads(b *Backup, timeline uint32) bool {
	return p.timelines.Leads(b.onTimeline(), timeline)
}
