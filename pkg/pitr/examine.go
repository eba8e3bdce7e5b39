package pitr

import (
	"cmp"
	"math"
	"slices"
	"time"

	"howdah.dev/howdah/pkg/postgres"
)

// Candidate is what a lineage has for a target.
type Candidate struct {
	Lineage string
	// LastWritten is the latest time of which the lineage knows.
	LastWritten time.Time
	// Timeline that is followed.
	Timeline uint32
	// Left says that there is a newer timeline, so that nothing more comes on the one that is followed.
	Left bool
	// Unlinked is a newer timeline whose history isn't in the archive, although the target may lie on it; 0: none.
	Unlinked uint32
	// Places of the wanted restore point on the way, oldest first.
	Places []RestorePoint
	// Reach of the latest backup that leads to the target; nil: there is none, or all are too young.
	Reach *Reach

	graph *Graph
	// elsewhere: a backup would do that leads to another timeline.
	elsewhere bool
}

// Examine finds out what the lineage has for a target: the latest backup that leads there, because replay from it is the
// shortest, and how far WAL reaches after it. With the id of a backup it looks at that one only, and follows the newest timeline
// that continues from it.
func (g *Graph) Examine(target Target, backupID string, headers Headers) (Candidate, error) {
	c := g.candidate(target, backupID)
	if err := c.findPlaces(target, headers); err != nil {
		return c, err
	}
	if b, found := c.choose(target); found {
		reach := g.Reach(b, c.Timeline)
		c.Reach = &reach
	}
	if target.Timeline == 0 && (c.Reach == nil && c.elsewhere || c.Reach != nil && c.Timeline != g.newest) {
		c.Unlinked = g.Unlinked()
	}
	return c, c.measure(headers)
}

// Choose is the backup that Examine begins with, of the one or all. That of a restore point depends on where that is: without
// Headers, the newest one is chosen.
func (g *Graph) Choose(target Target, backupID string) (Backup, bool) {
	c := g.candidate(target, backupID)
	return c.choose(target)
}

func (g *Graph) candidate(target Target, backupID string) Candidate {
	c := Candidate{Lineage: g.listing.Lineage, graph: g.only(backupID), Timeline: g.newest}
	switch {
	case target.Timeline != 0:
		c.Timeline = target.Timeline
	case backupID != "" && len(c.graph.backups) > 0:
		c.Timeline = g.Onward(c.graph.backups[0])
	}
	c.Left = c.Timeline < g.newest
	return c
}

func (c *Candidate) choose(target Target) (Backup, bool) {
	for _, b := range slices.Backward(c.graph.backups) {
		if !target.Follows(b) || len(c.Places) > 0 && b.StopLSN > c.Places[len(c.Places)-1].LSN {
			continue
		}
		if c.graph.Leads(b, c.Timeline) {
			return b, true
		}
		c.elsewhere = true
	}
	return Backup{}, false
}

// only is the graph with that backup alone.
func (g *Graph) only(backupID string) *Graph {
	if backupID == "" {
		return g
	}
	narrow := *g
	narrow.backups = slices.DeleteFunc(slices.Clone(g.backups), func(b Backup) bool { return b.ID != backupID })
	return &narrow
}

// measure reads the ends of the WAL.
func (c *Candidate) measure(headers Headers) error {
	g := c.graph
	latest := g.listing.Created
	for _, b := range g.backups {
		latest = later(latest, &b.StopTime)
	}
	if c.Reach != nil {
		if err := c.Reach.Measure(headers); err != nil {
			return err
		}
		latest = later(latest, c.Reach.LastCommit)
	}
	if tip := g.lastOf(g.newest); tip != nil && (c.Reach == nil || c.Reach.Last() != tip.Last) {
		end := Reach{Runs: []Run{*tip}}
		if err := end.Measure(headers); err != nil {
			return err
		}
		latest = later(latest, end.LastCommit)
	}
	c.LastWritten = latest
	return nil
}

func later(a time.Time, b *time.Time) time.Time {
	if b != nil && b.After(a) {
		return *b
	}
	return a
}

// findPlaces finds the wanted restore point after the oldest backup, on the timelines that are followed. The segment in which a
// timeline was left may be in the archive twice, and counts once.
func (c *Candidate) findPlaces(target Target, headers Headers) error {
	g := c.graph
	if target.RestorePoint == "" || len(g.backups) == 0 {
		return nil
	}
	from := g.backups[0].StartLSN
	for _, b := range g.backups {
		from = min(from, b.StartLSN)
	}
	history := g.history(c.Timeline)
	for _, part := range append(slices.Clone(history.Ancestors), postgres.TimelineSwitch{Timeline: history.Timeline, LSN: math.MaxUint64}) {
		found, err := headers.RestorePoints(g.segments(part.Timeline, from, part.LSN), target.RestorePoint)
		if err != nil {
			return err
		}
		for _, p := range found {
			if p.LSN < part.LSN && !slices.ContainsFunc(c.Places, func(known RestorePoint) bool { return known.LSN == p.LSN }) {
				c.Places = append(c.Places, p)
			}
		}
	}
	slices.SortFunc(c.Places, func(a, b RestorePoint) int { return cmp.Compare(a.LSN, b.LSN) })
	return nil
}

// segments of a timeline that hold something between two positions.
func (g *Graph) segments(timeline uint32, from, to postgres.LSN) []postgres.Segment {
	var found []postgres.Segment
	for _, run := range g.runs[timeline] {
		for segment := run.First; segment.Number <= run.Last.Number && segment.Start() < to; segment = segment.Next() {
			if segment.End() > from {
				found = append(found, segment)
			}
		}
	}
	return found
}
