package survey

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/postgres"
)

// Facts are what is known from outside of the bucket.
type Facts struct {
	Now   time.Time
	Asked time.Time // when the restore was asked for
	// Source names what is restored, for sentences: "cluster shop", "Backup shop-first".
	Source string
	// Live is the lineage that a running cluster archives to without trouble; empty: none does.
	Live string
	// Settle is the time after which everything that the live cluster has committed is in the archive; 0: there is no
	// such time.
	Settle time.Duration
}

// Verdict says what to do. Exactly one of Choice, Wait and Refusal is set.
type Verdict struct {
	Choice *Choice
	// Wait says what is not there yet, and may come.
	Wait string
	// Refusal says why the target can't be reached, and what can; Reason is that of the condition.
	Refusal, Reason string
}

// Choice is a way to the target.
type Choice struct {
	Lineage *Lineage
	// StopAt is where replay stops. Its zero value: at the end of Lineage.Reach.Last.
	StopAt Target
}

const (
	// patience is how long to wait for what may never come, where nothing tells.
	patience = 6 * time.Minute
	// clockSkew is how far the clock of a database may be ahead of ours.
	clockSkew = time.Minute
	// farAhead is so much WAL, in bytes, that no archive that works is behind by it.
	farAhead = 4 << 30
)

// Judge decides what a report means for a target.
func Judge(report Report, target Target, facts Facts) Verdict {
	if target.Time != nil && target.Time.After(facts.Now.Add(clockSkew)) {
		return refuse("spec.target.time %s is in the future (it is %s now): write a time that has passed, or leave spec.target out",
			Stamp(*target.Time), Stamp(facts.Now.Truncate(time.Second)))
	}
	lineage := pick(report, target)
	if lineage == nil {
		return noStart(report, target, facts)
	}
	if !lineage.Reach.covers(lineage.Chosen) {
		return refuse("WAL segment %s is missing in the archive (lineage %s), and backup %s can't be restored without it: restore another backup",
			missingOf(lineage), lineage.Name, lineage.Chosen.ID)
	}
	if lineage.Unlinked != 0 && !target.Immediate {
		return unlinked(lineage)
	}
	b := &bench{report: report, lineage: lineage, target: target, facts: facts}
	switch {
	case target.Time != nil:
		return b.judgeTime()
	case !target.LSN.IsZero():
		return b.judgeLSN()
	case target.RestorePoint != "":
		return b.judgePoint()
	case target.XID != 0:
		return b.judgeXID()
	case target.Immediate:
		return b.stopAt(target)
	}
	return b.judgeEnd()
}

// pick is the newest lineage that begins before the target.
func pick(report Report, target Target) *Lineage {
	var first *Lineage
	for i := range report.Lineages {
		l := &report.Lineages[i]
		if len(l.Points) > 0 && l.Chosen == nil {
			return nil // the point is here, before every backup
		}
		if l.Chosen == nil {
			continue
		}
		if target.RestorePoint == "" || len(l.Points) > 0 {
			return l
		}
		if first == nil {
			first = l
		}
	}
	return first
}

// noStart refuses because there is no backup to begin with.
func noStart(report Report, target Target, facts Facts) Verdict {
	var oldest *Lineage
	var damaged []string
	for i := range report.Lineages {
		l := &report.Lineages[i]
		for _, err := range l.Damaged {
			damaged = append(damaged, err.Error())
		}
		if len(l.Heads) > 0 {
			oldest = l
		}
	}
	switch {
	case oldest != nil && target.Timeline != 0 && !slices.ContainsFunc(oldest.Heads, oldest.leadsFrom):
		return refuse("no backup of %s leads to timeline %d: its history is not in the archive, or all backups are of other timelines",
			facts.Source, target.Timeline)
	case oldest != nil && oldest.Unlinked != 0:
		return unlinked(oldest)
	case oldest != nil:
		head := oldest.Heads[0]
		verdict := refuse("%s can't be restored to %s: the earliest that its oldest backup (%s) leads to is %s (LSN %s)",
			facts.Source, target, head.ID, Stamp(head.StopTime), head.StopLSN)
		if len(damaged) > 0 {
			verdict.Refusal += "; what can't be read might lead there: " + strings.Join(damaged, "; ")
		}
		return verdict
	case len(damaged) > 0:
		return Verdict{Reason: v1alpha1.ReasonDataCorrupt, Refusal: "no backup of " + facts.Source + " can be read: " + strings.Join(damaged, "; ")}
	}
	return Verdict{Reason: v1alpha1.ReasonBackupNotFound, Refusal: "the repository has no backup of " + facts.Source + ": replay needs one to begin with"}
}

// unlinked refuses what may lie on a timeline of which nobody knows where it begins.
func unlinked(l *Lineage) Verdict {
	return refuse("the history of timeline %d (%s) is missing in the archive (lineage %s), so nothing tells where that timeline begins: "+
		"write spec.target.timeline: %d to restore what is on the one before",
		l.Unlinked, postgres.HistoryName(l.Unlinked), l.Name, l.Heads[len(l.Heads)-1].Timeline)
}

func refuse(format string, args ...any) Verdict {
	return Verdict{Reason: v1alpha1.ReasonTargetUnreachable, Refusal: fmt.Sprintf(format, args...)}
}

// bench is where one target is weighed against one lineage.
type bench struct {
	report  Report
	lineage *Lineage
	target  Target
	facts   Facts
}

func (b *bench) stopAt(t Target) Verdict {
	return Verdict{Choice: &Choice{Lineage: b.lineage, StopAt: t}}
}

func (b *bench) toTheEnd() Verdict { return b.stopAt(Target{}) }

func (b *bench) live() bool {
	return b.facts.Live != "" && b.facts.Live == b.lineage.Name && !b.lineage.Left
}

func (b *bench) judgeEnd() Verdict {
	if b.lineage.Reach.Missing != "" {
		return b.gap("write a time until then, or restore a later backup")
	}
	return b.toTheEnd()
}

// judgeTime: PostgreSQL stops at a time only when it meets a transaction that ended later. Where the archive has none,
// everything in it is wanted, provided that nothing else was committed until then.
func (b *bench) judgeTime() Verdict {
	at, reach := *b.target.Time, b.lineage.Reach
	const advice = "write a time until then, or leave spec.target out"
	switch {
	case at.Before(b.lineage.lastKnown()) || reach.Unsure, b.target.excludes() && !at.After(b.lineage.lastKnown()):
		return b.stopAt(b.target)
	case !at.After(b.lineage.knownUntil()):
		return b.toTheEnd()
	case reach.Missing != "":
		return b.gap(advice)
	case !b.live():
		return b.beyond(advice)
	case b.facts.Settle > 0 && !b.report.At.Before(at.Add(b.facts.Settle)):
		return b.toTheEnd()
	case b.facts.Settle > 0:
		return b.await(at.Add(b.facts.Settle))
	}
	return b.awaitOrRefuse(advice)
}

func (b *bench) judgeLSN() Verdict {
	at, reach := b.target.LSN, b.lineage.Reach
	const advice = "write a position until there, or leave spec.target out"
	switch {
	case at <= reach.Last.End():
		return b.stopAt(b.target)
	case reach.Missing != "":
		return b.gap(advice)
	case at.Sub(reach.Last.End()) > farAhead || !b.live():
		return b.beyond(advice)
	}
	return b.awaitOrRefuse(advice)
}

// judgeXID: only replay finds a transaction. What had committed when the restore was asked for is archived first.
func (b *bench) judgeXID() Verdict {
	if until := b.facts.Asked.Add(b.facts.Settle); b.live() && b.facts.Settle > 0 && b.report.At.Before(until) {
		return b.await(until)
	}
	return b.stopAt(b.target)
}

func (b *bench) judgePoint() Verdict {
	var places []string
	for _, point := range b.lineage.Points {
		if point.LSN >= b.lineage.Chosen.StopLSN {
			places = append(places, fmt.Sprintf("%s (%s)", point.LSN, Stamp(point.Time)))
		}
	}
	switch {
	case len(places) > 1:
		return refuse("there is more than one restore point %q behind backup %s, at LSN %s: write spec.target.lsn instead",
			b.target.RestorePoint, b.lineage.Chosen.ID, strings.Join(places, " and "))
	case len(places) == 1 && b.lineage.Points[len(b.lineage.Points)-1].LSN < b.lineage.Reach.EndLSN:
		return b.stopAt(b.target)
	case b.lineage.Reach.Missing != "":
		return b.gap("restore a later backup")
	case b.live():
		return b.awaitOrRefuse("write the name as it was given to pg_create_restore_point")
	}
	return b.noPoint()
}

func (b *bench) noPoint() Verdict {
	return refuse("there is no %s in the archive behind backup %s (%s to %s): write the name as it was given to pg_create_restore_point, or a time",
		b.target, b.lineage.Chosen.ID, Stamp(b.lineage.Chosen.StopTime), Stamp(b.lineage.knownUntil()))
}

// awaitOrRefuse gives WAL that may be under way some time to come.
func (b *bench) awaitOrRefuse(advice string) Verdict {
	wait := b.facts.Settle
	if wait == 0 {
		wait = patience
	}
	if until := b.facts.Asked.Add(wait); b.report.At.Before(until) {
		return b.await(until)
	}
	if b.target.RestorePoint != "" {
		return b.noPoint()
	}
	return b.beyond(advice)
}

func (b *bench) await(until time.Time) Verdict {
	return Verdict{Wait: fmt.Sprintf("%s is behind what is archived by now (LSN %s, last commit %s); waiting for the cluster to archive more, until %s at most",
		b.target, b.lineage.Reach.EndLSN, Stamp(b.lineage.lastKnown()), Stamp(until.Truncate(time.Second)))}
}

// gap refuses a target behind a hole in the archive.
func (b *bench) gap(advice string) Verdict {
	return refuse("WAL segment %s is missing in the archive, so %s can't be reached: replay leads to LSN %s, and the last commit before it is at %s; %s",
		b.lineage.Reach.Missing, b.target, b.lineage.Reach.EndLSN, Stamp(b.lineage.lastKnown()), advice)
}

// beyond refuses a target behind the end of the archive.
func (b *bench) beyond(advice string) Verdict {
	return refuse("%s can't be reached: the archive of %s ends at LSN %s; the last commit in it is at %s: %s",
		b.target, b.facts.Source, b.lineage.Reach.EndLSN, Stamp(b.lineage.lastKnown()), advice)
}

func missingOf(l *Lineage) string {
	if l.Reach.Missing != "" {
		return l.Reach.Missing
	}
	return l.Chosen.WAL.Last
}
