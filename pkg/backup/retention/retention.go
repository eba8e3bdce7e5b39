// Package retention decides which backups of a lineage stay, why, and from where on its WAL is needed. It reads and
// writes nothing. Whatever the policy and whoever wrote the lineage, the newest good backup stays, as does the newest one
// that leads to the end of the lineage, with all WAL from it on: only a person gives up what may be the last copy.
package retention

import (
	"cmp"
	"math"
	"slices"
	"time"

	"howdah.dev/howdah/pkg/pitr"
	"howdah.dev/howdah/pkg/postgres"
)

// Policy says what stays. A backup that no rule names goes; a zero rule names none, and with the zero Policy all stay.
type Policy struct {
	KeepLast       int           // the newest this many backups
	KeepWithin     time.Duration // backups that are younger
	RecoveryWindow time.Duration // every point of so long a time stays reachable

	// The newest backup of each of this many days, weeks (from Monday), months and years, in UTC, that have one.
	KeepDaily, KeepWeekly, KeepMonthly, KeepYearly int
}

// Empty says that nothing ever goes.
func (p Policy) Empty() bool { return p == Policy{} }

// onlyCounts says that nothing gets too old by itself.
func (p Policy) onlyCounts() bool { return p.RecoveryWindow <= 0 && p.KeepWithin <= 0 }

// Backup is what matters of a backup here.
type Backup struct {
	ID       string
	Time     time.Time // when it stopped: the earliest time that it can be restored to
	Timeline uint32
	Stop     postgres.LSN // the first position that it can be restored to
	First    uint64       // number of the first WAL segment that it needs
	// Held backups stay until they are let go.
	Held bool
	// Damaged backups can't be counted on: they keep no other one from staying.
	Damaged bool
	// DamagedPages are in a backup that is as the database was, which had such pages. It can be restored, but it does not
	// stand for one without them.
	DamagedPages bool
}

// Timeline is a timeline that has a history: one that a failover began.
type Timeline struct {
	History postgres.TimelineHistory
	Since   time.Time // when it came into the archive
}

// Lineage is all that is known of one.
type Lineage struct {
	Backups   []Backup
	Timelines []Timeline
	// Living: a cluster may still write here.
	Living bool
	// End is when something was written last.
	End time.Time
	// FirstSeen is when the lineage was first seen by whoever applies the policy; zero: just now. Once nobody here writes
	// it, the time between End and FirstSeen doesn't count as age: nobody could have restored anything here meanwhile.
	FirstSeen time.Time
	// Foreign: nobody here is known to have ever written it. A policy that only counts removes nothing from it: by itself it has
	// no age, and what whoever wrote it had promised isn't known here.
	Foreign bool
	// GivenUp: a person has said by name that nothing of it is needed any more, but for what is held. Nobody writes it.
	GivenUp bool
}

// clock is the time that ages and windows of the lineage are counted from.
func (l *Lineage) clock(now time.Time) time.Time {
	seen := l.FirstSeen
	if seen.IsZero() || seen.After(now) {
		seen = now
	}
	if l.Living || !seen.After(l.End) {
		return now
	}
	return now.Add(l.End.Sub(seen))
}

// Reason is why a backup stays.
type Reason string

// The reasons, in the order in which they are named.
const (
	Newest  Reason = "Newest"         // the newest good one, or the newest that leads to the end of the lineage
	Held    Reason = "Held"           // spec.hold
	Window  Reason = "RecoveryWindow" // a promised point can't be reached without it, or soon could not
	Last    Reason = "KeepLast"
	Within  Reason = "KeepWithin"
	Daily   Reason = "KeepDaily"
	Weekly  Reason = "KeepWeekly"
	Monthly Reason = "KeepMonthly"
	Yearly  Reason = "KeepYearly"
	Damage  Reason = "Damaged" // damaged, and among those that stay
	NoRule  Reason = "NoPolicy"
	Foreign Reason = "Foreign" // counts alone remove nothing that others wrote
)

// Verdict is what becomes of a backup: it goes if it has no reason to stay.
type Verdict struct {
	Backup
	Stays []Reason
}

// Goes says that nothing keeps the backup.
func (v Verdict) Goes() bool { return len(v.Stays) == 0 }

// NoWAL is a Plan.KeepWAL that no segment reaches: only the WAL that backups need for themselves stays.
const NoWAL = uint64(math.MaxUint64)

// Plan is what becomes of a lineage.
type Plan struct {
	Verdicts []Verdict // newest first
	// KeepWAL is the number of the first segment from which on all WAL stays, on every timeline. What is before it goes,
	// but for the segments that a backup which is still there needs for itself. 0: all stays.
	KeepWAL uint64
	// Relied are the backups that stay for what comes after them: the newest, and those with which a recovery window begins. Others go
	// because these can be restored, so whoever carries the plan out makes sure that they are all there.
	Relied []Backup
}

// Going are the backups that go, oldest first.
func (p Plan) Going() []Backup {
	var going []Backup
	for _, v := range slices.Backward(p.Verdicts) {
		if v.Goes() {
			going = append(going, v.Backup)
		}
	}
	return going
}

// Make makes the plan of a lineage.
func Make(lineage Lineage, policy Policy, now time.Time) Plan {
	p := newPlanner(lineage, policy, now)
	if lineage.GivenUp && !lineage.Living {
		p.keepHeld()
		return p.plan(NoWAL)
	}
	if policy.Empty() {
		p.keepAll(NoRule)
		return p.plan(0)
	}
	if lineage.Foreign && !lineage.Living && policy.onlyCounts() {
		p.keepAll(Foreign)
		return p.plan(0)
	}
	p.keepHeld()
	p.keepNewest()
	p.keepWindow()
	p.keepRecent()
	p.keepPeriods()
	p.keepDamaged()
	first := p.firstWAL()
	return p.plan(min(first, p.keepUndamaged()))
}

// keepUndamaged keeps what the rules would keep if there were no backups with damaged pages: a later one must not cause the
// last one without them to be deleted, nor the WAL that leads from it past the damage. It returns the first segment of that.
func (p *planner) keepUndamaged() uint64 {
	q := *p
	q.bases = nil
	q.good = slices.DeleteFunc(slices.Clone(p.good), func(b *Backup) bool { return b.DamagedPages })
	if len(q.good) == len(p.good) {
		return NoWAL
	}
	q.keepNewest()
	q.keepWindow()
	q.keepRecent()
	q.keepPeriods()
	return firstOf(q.bases)
}

// firstOf is the first segment that a backup among them needs.
func firstOf(bases []*Backup) uint64 {
	first := NoWAL
	for _, b := range bases {
		first = min(first, b.First)
	}
	return first
}

type planner struct {
	Lineage
	policy Policy
	now    time.Time
	good   []*Backup // newest first
	stays  map[*Backup][]Reason
	// timelines of the lineage, and what leads to them.
	timelines *pitr.Graph
	// bases are backups from which on all WAL stays.
	bases []*Backup
	// relied are those of Plan.Relied.
	relied map[*Backup]bool
}

func newPlanner(lineage Lineage, policy Policy, now time.Time) *planner {
	p := &planner{Lineage: lineage, policy: policy, now: lineage.clock(now), stays: map[*Backup][]Reason{}, relied: map[*Backup]bool{}, timelines: lineage.graph()}
	p.Backups = slices.Clone(lineage.Backups)
	slices.SortFunc(p.Backups, func(a, b Backup) int {
		return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(b.Stop, a.Stop), cmp.Compare(b.ID, a.ID))
	})
	for i := range p.Backups {
		if !p.Backups[i].Damaged {
			p.good = append(p.good, &p.Backups[i])
		}
	}
	return p
}

func (p *planner) keep(b *Backup, why Reason) {
	if !slices.Contains(p.stays[b], why) {
		p.stays[b] = append(p.stays[b], why)
	}
}

func (p *planner) keepAll(why Reason) {
	for i := range p.Backups {
		p.keep(&p.Backups[i], why)
	}
}

func (p *planner) keepHeld() {
	for i := range p.Backups {
		if p.Backups[i].Held {
			p.keep(&p.Backups[i], Held)
		}
	}
}

// keepNewest keeps the newest good backup, and the newest that leads to the end of the lineage, which is another one
// after a failover that left the newest behind; and the WAL from there on.
func (p *planner) keepNewest() {
	if len(p.good) == 0 {
		return
	}
	for _, b := range []*Backup{p.good[0], p.newestLeading()} {
		if b != nil {
			p.keep(b, Newest)
			p.bases, p.relied[b] = append(p.bases, b), true
		}
	}
}

// keepWindow keeps, for every timeline that the cluster was on within the window, the newest backup that is older than
// the window, and all that came after it: they begin the windows of days to come.
func (p *planner) keepWindow() {
	since := p.now.Add(-p.policy.RecoveryWindow)
	if p.policy.RecoveryWindow <= 0 || !p.Living && p.End.Before(since) {
		return
	}
	for _, timeline := range p.during(since) {
		if base := p.before(timeline, since); base != nil {
			p.keep(base, Window)
			p.bases, p.relied[base] = append(p.bases, base), true
		}
	}
	for _, b := range p.good {
		if b.Time.After(since) {
			p.keep(b, Window)
			p.bases = append(p.bases, b) // clocks of instances differ: what is younger by its time may begin with earlier WAL
		}
	}
}

// keepRecent applies the rules for the newest ones. Where no window is promised, all WAL from the oldest of them on
// stays.
func (p *planner) keepRecent() {
	for i, b := range p.good {
		last, within := i < p.policy.KeepLast, p.policy.KeepWithin > 0 && p.now.Sub(b.Time) <= p.policy.KeepWithin
		if last {
			p.keep(b, Last)
		}
		if within {
			p.keep(b, Within)
		}
		if (last || within) && p.policy.RecoveryWindow <= 0 {
			p.bases = append(p.bases, b)
		}
	}
}

// keepDamaged keeps damaged backups as long as good ones of their time. Where no good one leads to the end of the lineage,
// those that do stay, and where there is no good one at all, all of them: a part of their data is better than nothing.
func (p *planner) keepDamaged() {
	var oldest *Backup
	for _, b := range p.good {
		for _, why := range p.stays[b] {
			if why == Newest || why == Window || why == Last || why == Within {
				oldest = b
			}
		}
	}
	endLost := p.newestLeading() == nil
	for i := range p.Backups {
		b := &p.Backups[i]
		if b.Damaged && (oldest == nil || !b.Time.Before(oldest.Time) || endLost && p.leads(b, p.current())) {
			p.keep(b, Damage)
		}
	}
}

// firstWAL is the first segment from which on all WAL stays.
func (p *planner) firstWAL() uint64 {
	if p.abandoned() {
		return NoWAL
	}
	if p.newestLeading() == nil {
		return 0 // nothing leads to the end of the lineage, so nobody knows what will be needed
	}
	return firstOf(p.bases)
}

// abandoned: the last backup was given up, and nobody writes the lineage any more, whose WAL restores nothing by itself.
func (p *planner) abandoned() bool {
	return !p.Living && len(p.Backups) == 0 && p.now.Sub(p.End) > max(p.policy.RecoveryWindow, p.policy.KeepWithin)
}

func (p *planner) plan(firstWAL uint64) Plan {
	plan := Plan{KeepWAL: firstWAL}
	for i := range p.Backups {
		plan.Verdicts = append(plan.Verdicts, Verdict{Backup: p.Backups[i], Stays: p.stays[&p.Backups[i]]})
		if p.relied[&p.Backups[i]] {
			plan.Relied = append(plan.Relied, p.Backups[i])
		}
	}
	return plan
}
