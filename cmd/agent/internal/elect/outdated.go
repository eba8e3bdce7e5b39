package elect

import (
	"fmt"

	"howdah.dev/howdah/pkg/agentapi"
)

// What the data says of the Lease. A Lease can be restored from a backup, edited, or created anew, and a volume can be restored from an
// older snapshot: neither is believed where the other knows more.

// outdated says why the Lease is older than what this instance, or another one, knows; empty: it isn't.
func (c *candidate) outdated() string {
	r := c.record
	switch {
	case c.firstborn || c.solo || r.blank() || r.Generation != c.self.Generation:
		return ""
	case c.restored:
		return fmt.Sprintf("The Lease is older than the one this instance last read (term %d): etcd was restored, or the Lease was edited. "+
			"The primary writes it again. If there is none, %s", r.Term, decide)
	case r.Timeline > 0 && c.self.Timeline > r.Timeline:
		return fmt.Sprintf("The Lease is older than the data of this instance: it knows timeline %d, and there is timeline %d on the volume. "+
			"If no primary writes the Lease again, %s", r.Timeline, c.self.Timeline, decide)
	}
	for name, a := range c.positions.heard {
		if p := a.position; knowsMore(p, r) {
			return fmt.Sprintf("The Lease is older than what %s knows: it is in term %d on timeline %d, and %[1]s in term %[4]d on timeline %[5]d. "+
				"If no primary writes the Lease again, %[6]s", name, r.Term, r.Timeline, p.Term, p.Timeline, decide)
		}
	}
	return ""
}

// knowsMore says whether another instance knows a later term, or data that this one doesn't. A term of a Lease that was deleted is of no
// worth, however long ago it was named.
func knowsMore(p agentapi.Position, r *Record) bool {
	theirs := &Record{Created: p.LeaseCreated, Term: p.Term}
	return r.Timeline > 0 && p.Timeline > r.Timeline || theirs.Term > r.Term && !r.createdAfter(theirs)
}

// rolledBack says why the volume of the last holder is not the one that it had as the primary, or an older state of that; empty: it is that, or has
// everything.
func (c *candidate) rolledBack() string {
	own, r := c.self.Checkpoint, c.record
	ended := r.Complete && r.End.LSN > 0
	switch {
	case own.LSN > 0 && (own.before(r.Checkpoint) || ended && own.before(r.End)):
		return fmt.Sprintf("%s was primary last, and its volume is older than that: it was restored from a snapshot, or replaced. "+
			"If what it had is lost for good, %s", c.self.Name, decide)
	case c.self.Standby && !ended && r.Checkpoint.LSN > 0: // which it wrote when its server was a primary
		return fmt.Sprintf("%s was primary last, but its volume has the data of a replica: the volumes of two instances were swapped, or the volume was replaced. "+
			"If what it had is lost for good, %s", c.self.Name, decide)
	}
	return ""
}
