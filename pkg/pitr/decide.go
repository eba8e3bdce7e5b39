package pitr

import (
	"slices"
	"time"

	"howdah.dev/howdah/pkg/postgres"
)

// Facts are what is known from outside of the archive.
type Facts struct {
	Now time.Time
	// Read is when reading the archive began.
	Read time.Time
	// Asked is when somebody first asked for the target.
	Asked time.Time
	// Present is the lineage that the database writes now, if that is known. It goes before all others.
	Present string
	// Live is the lineage that a running cluster archives to without trouble; empty: none does.
	Live string
	// Settle is the time after which everything that the live cluster has committed is in the archive; 0: there is no such
	// time.
	Settle time.Duration
	// Behind is since when WAL of the live cluster has waited to be archived for longer than it should; zero: none has.
	Behind time.Time
}

const (
	// patience is how long to wait for what may never come, where nothing tells.
	patience = 6 * time.Minute
	// clockSkew is how far the clock of a database may be ahead of ours.
	clockSkew = time.Minute
	// farAhead is so much WAL, in bytes, that no archive that works lags by it.
	farAhead = 4 << 30
)

// Decide decides what the lineages of one database mean for the target that they were examined for. Where nobody says which of
// them is the present one, the one that was written last goes first: a younger one that ended before is of a restore that was
// undone.
func Decide(candidates []Candidate, target Target, facts Facts) Verdict {
	if target.Time != nil && target.Time.After(facts.Now.Add(clockSkew)) {
		return Verdict{Code: InFuture, Target: target}
	}
	ordered := slices.Clone(candidates)
	slices.SortStableFunc(ordered, func(a, b Candidate) int { return b.LastWritten.Compare(a.LastWritten) })
	slices.SortStableFunc(ordered, func(a, b Candidate) int {
		switch facts.Present {
		case a.Lineage:
			return -1
		case b.Lineage:
			return 1
		}
		return 0
	})
	chosen := pick(ordered, target)
	switch {
	case chosen == nil:
		return noStart(ordered, target)
	case chosen.Reach == nil:
		return unlinked(chosen, target)
	case !chosen.Reach.Covers():
		return Verdict{Code: BackupIncomplete, Target: target, Candidate: chosen, Missing: missing(chosen)}
	case chosen.Unlinked != 0 && !target.Immediate:
		return unlinked(chosen, target)
	}
	return (&judge{c: chosen, target: target, facts: facts}).judge()
}

// pick is the first lineage that leads to the target, or may do so.
func pick(ordered []Candidate, target Target) *Candidate {
	var first *Candidate
	for i := range ordered {
		c := &ordered[i]
		switch {
		case len(c.Places) > 0 && c.Reach == nil && c.Unlinked == 0:
			return nil // the restore point is here, before every backup
		case c.Reach == nil && c.Unlinked == 0:
			continue
		case target.RestorePoint == "" || len(c.Places) > 0:
			return c
		case first == nil:
			first = c
		}
	}
	return first
}

// noStart refuses because there is no backup to begin with.
func noStart(ordered []Candidate, target Target) Verdict {
	v := Verdict{Code: NoBackup, Target: target}
	leads := false
	for i := range ordered {
		c := &ordered[i]
		v.Damaged = append(v.Damaged, c.graph.listing.Damaged...)
		if len(c.graph.backups) == 0 {
			continue
		}
		v.Candidate, v.Oldest = c, c.graph.backups[0]
		leading := c.graph.Leading(c.Timeline)
		if leads = len(leading) > 0; leads {
			v.Oldest = leading[len(leading)-1]
		}
	}
	switch {
	case v.Candidate == nil:
	case !leads:
		v.Code = NoBackupOnTimeline
	default:
		v.Code = BeforeOldestBackup
	}
	return v
}

// unlinked refuses what may lie on a timeline of which nobody knows where it begins.
func unlinked(c *Candidate, target Target) Verdict {
	v := Verdict{Code: HistoryMissing, Target: target, Candidate: c}
	for _, timeline := range c.graph.Timelines() {
		if timeline < c.Unlinked {
			v.Before = timeline
		}
	}
	return v
}

func missing(c *Candidate) postgres.Segment {
	if c.Reach.Broken() {
		return c.Reach.Missing
	}
	return c.Reach.Backup.LastSegment(c.graph.listing.SegmentSize)
}
