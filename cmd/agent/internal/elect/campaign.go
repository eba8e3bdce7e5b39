package elect

import (
	"fmt"
	"slices"

	"howdah.dev/howdah/pkg/agentapi"
)

// campaign is a step of who doesn't hold the lease.
func (c *Core) campaign(now Time, acts *Acts) {
	who := c.candidate(now)
	acts.Want = who.following()
	acts.Want.CampaignAsIs = acts.Want.Role == Follow && who.mayCampaignAsIs()
	acts.Want.Delayed = acts.Want.Role == Follow && who.mayDelay()
	if c.lease.writing != nil {
		return
	}
	take, why := who.mayTake()
	acts.Ask, acts.Request = who.ask, agentapi.PositionRequest{Version: c.lease.record.Version}
	acts.Wake = min(acts.Wake, who.wake)
	if free, _ := who.free(); free || acts.Want.Leader.Name == "" {
		acts.Want.Why = why
	}
	switch {
	case acts.Refresh:
	case take:
		acts.Write = c.lease.write(now, who.claim(), c.limits.duration())
	case now >= max(who.expires(), c.lease.reread+c.limits.Renew), // nobody is primary, as far as is known here
		now >= c.lease.reread+c.limits.Retry && who.outdated() != "":
		c.lease.reread, acts.Refresh = now, true
	}
}

// candidate is an instance without the lease at one moment: what it knows, from which follows whether it may take it.
type candidate struct {
	now    Time
	self   Self
	config Config
	limits Limits
	server Server
	record *Record
	seen   Time // when the record was

	promise   Time  // until when the lease is not taken
	given     given // by the word of the members
	ended     int64 // term whose holder is known to have ended
	passed    bool  // another instance has been primary since it was said who begins
	solo      bool  // it has led without the lease since it held it: nobody else has what it has
	restored  bool  // the Lease lies in a store that was restored from a backup
	yields    bool  // somebody may take the lease by this instance's position
	firstborn bool  // nobody has ever taken a lease from it
	positions *positions

	// What the decision asks for.
	ask  []Member // for their positions
	wake Time     // to decide again
}

func (c *Core) candidate(now Time) *candidate {
	return &candidate{
		now: now, self: c.self, config: c.config, limits: c.limits.Limits, server: c.server, record: c.lease.record, seen: c.lease.seen,
		promise: c.given.promised(c.promise, c.lease.record, c.ended), given: c.given, ended: c.ended, passed: c.passed, solo: c.solo, restored: c.lease.rolledBack, yields: c.yielded.still(c.lease.record), firstborn: c.firstborn(), positions: &c.positions, wake: Forever,
	}
}

// wait until then at most.
func (c *candidate) wait(until Time) { c.wake = min(c.wake, until) }

// question asks members for their positions.
func (c *candidate) question(members []Member) {
	var again Time
	c.ask, again = c.positions.ask(c.now, members, c.self.Name)
	c.wait(again)
}

// following is what PostgreSQL is to be without the lease.
func (c *candidate) following() Want {
	r := c.record
	switch {
	case c.firstborn:
		return Want{Role: Lead, Until: Forever, Term: r.Term}
	case c.server.Mode == Primary:
		return Want{Role: Stop, Term: r.Term}
	case r.Generation != c.self.Generation || c.outdated() != "":
		return Want{Role: Idle, Term: r.Term}
	case c.yields && r.LastHolder != c.self.Name:
		return Want{Role: Follow, Detached: true, Term: r.Term}
	case r.Holder != "" && r.Holder != c.self.Name:
		return Want{Role: Follow, Leader: Member{Name: r.Holder, Address: r.Address}, Term: r.Term}
	case r.LastHolder == c.self.Name:
		return Want{Role: Idle, Term: r.Term} // it may be ahead of all others: it is not theirs to follow yet
	}
	return Want{Role: Follow, Term: r.Term}
}

// free says whether the lease is anybody's to take, and when it is if not.
func (c *candidate) free() (is bool, expires Time) {
	r := c.record
	expires = c.expires()
	return r.Holder == "" || c.now >= expires || r.Term == c.ended, expires
}

// mayCampaignAsIs says whether a member whose server is down may start it to say how far it is, though it can't follow anybody: whoever was
// primary after it may be lost for good.
func (c *candidate) mayCampaignAsIs() bool {
	free, _ := c.free()
	return free && c.now >= c.promise && c.self.Whole && c.server.Mode != Primary && has(c.record.Members, c.self.Name)
}

// mayDelay says whether a replica may replay WAL late: nobody counts on it.
func (c *candidate) mayDelay() bool {
	return c.config.Failover.delayed(c.self.Name) && !has(c.record.Members, c.self.Name)
}

// mayTake says whether the lease is this instance's to take, or why not.
func (c *candidate) mayTake() (bool, string) {
	r := c.record
	free, expires := c.free()
	if !free {
		c.wait(expires)
	}
	switch {
	case r.Damaged != "":
		return false, r.Damaged
	case c.now < c.promise:
		c.wait(c.promise)
		return false, "This instance has promised the primary not to take over."
	case c.firstborn:
		return true, ""
	case c.server.Stalled:
		return false, "The disk of this instance does not respond, so it can't take over."
	case c.outdated() != "":
		return false, c.outdated()
	case c.self.holds(r) && c.self.Whole && c.rolledBack() == "":
		return true, ""
	case !free:
		return false, fmt.Sprintf("The lease of %s runs out soon, unless it comes back.", r.Holder)
	case r.Generation != c.self.Generation:
		return c.mayBegin()
	case r.LastHolder == c.self.Name:
		return c.mayReturn()
	case c.mayDelay():
		return false, c.config.Failover.lateReplica(c.self.Name)
	case !has(r.Members, c.self.Name) && !c.complete(r):
		return false, c.lags()
	}
	return c.mayReplace()
}

// mayBegin: of a data generation that nobody has led yet, or whose Lease was taken away, one instance has every commit. An
// original may be older than the clone that was primary last, so who it is is said, where that is known.
func (c *candidate) mayBegin() (bool, string) {
	begins := c.config.Begins
	switch {
	case begins == "" && c.self.Original && !c.passed:
		return true, ""
	case begins == "":
		return false, fmt.Sprintf("Waiting for the instance with the original copy of data generation %s to become primary.", c.self.Generation)
	case begins != c.self.Name:
		return false, fmt.Sprintf("Waiting for %s to become primary on data generation %s.", begins, c.self.Generation)
	case !c.self.Whole:
		return false, fmt.Sprintf("%s should start the cluster on data generation %s, but its volume has no complete copy of it. "+
			"If that is lost for good, %s", c.self.Name, c.self.Generation, decide)
	case c.passed:
		return false, "Another instance has been primary since, and it is not known who has every commit."
	}
	return true, ""
}

// complete says whether this instance is known to have all that the last holder had when it gave the lease up.
func (c *candidate) complete(r *Record) bool {
	return r.Holder == "" && r.Complete && r.End.LSN > 0 && c.server.Mode == Replica && r.End.reached(c.server.Position)
}

// lags says why this instance may not take over, and who may.
func (c *candidate) lags() string {
	r := c.record
	if len(r.Members) > 0 {
		return fmt.Sprintf("This instance lags too far behind %s to take over; these may: %v.", r.LastHolder, names(r.Members))
	}
	return fmt.Sprintf("This instance lags too far behind %s to take over. Only %[1]s is known to have every acknowledged commit, and has to come back. "+
		"If its volume is lost for good, %s", r.LastHolder, decide)
}

// decide is what is left when the last primary doesn't come back.
const decide = "a person has to decide which instance continues: see \"When a person has to decide\" in docs/high-availability.md."

// mayReturn: nobody can be ahead of the last holder. If this is a new pod, the old one may still continue by the word of the members,
// where it was deleted by force. Who doesn't respond for long is not waited for: it may be gone for good.
func (c *candidate) mayReturn() (bool, string) {
	r := c.record
	if !c.self.Whole {
		return false, fmt.Sprintf("%s was primary last, but its volume no longer has a complete copy of the data. "+
			"If that is lost for good, %s", c.self.Name, decide)
	}
	if why := c.rolledBack(); why != "" {
		return false, why
	}
	if r.Holder == "" {
		if r.Successor == "" && !c.server.hopeless() || c.now >= c.seen+c.limits.Grace {
			return true, ""
		}
		c.wait(c.seen + c.limits.Grace)
		if r.Successor != "" {
			return false, fmt.Sprintf("%s was chosen to take over.", r.Successor)
		}
		return false, "Waiting for another instance to take over."
	}
	c.question(r.Members)
	for _, m := range r.Members {
		switch a, fresh := c.positions.fresh(c.now, m.Name); {
		case m.Address == "": // it has never followed in this term
		case fresh && (a.Streaming || a.Promised):
			return false, fmt.Sprintf("%s still follows the former pod of %s.", m.Name, c.self.Name)
		case !fresh && c.now < c.positions.since+c.patience():
			return false, fmt.Sprintf("%s has not said whether it still follows the former pod of %s.", m.Name, c.self.Name)
		}
	}
	return true, ""
}

// mayReplace: a member takes over when it can't be behind an acknowledged commit, and nobody is ahead.
func (c *candidate) mayReplace() (bool, string) {
	r := c.record
	if why := c.reluctant(); why != "" {
		return false, why
	}
	if c.server.Mode != Replica {
		return false, "PostgreSQL is not running here, so this instance can't take over."
	}
	if c.server.Position.Timeline == 0 {
		return false, "PostgreSQL has not read all of its WAL yet, so its position is unknown."
	}
	if own, _ := r.member(c.self.Name); own.Replayed.beyond(c.server.Position) {
		return false, fmt.Sprintf("This instance has less of the data than it had: its volume was rolled back, or replaced. "+
			"It can't take over until it has followed a primary. If there is no other, %s", decide)
	}
	if !r.End.reached(c.server.Position) {
		return false, "This instance is missing commits that were acknowledged before a primary shut down cleanly."
	}
	if r.Holder == "" && r.Successor != "" && r.Successor != c.self.Name && c.now < c.seen+c.limits.Grace {
		c.wait(c.seen + c.limits.Grace)
		return false, fmt.Sprintf("%s was chosen to take over.", r.Successor)
	}
	if c.complete(r) || r.Holder == "" && r.Successor == c.self.Name && r.Complete {
		return true, ""
	}
	c.question(r.Members)
	return c.compare()
}

// compare looks at what the others have answered.
func (c *candidate) compare() (bool, string) {
	r, own := c.record, c.server.Position
	answers, missing, better, equal := 1, 0, "", ""
	for _, m := range without(r.Members, c.self.Name) {
		a, fresh := c.positions.fresh(c.now, m.Name)
		if !fresh {
			missing++
		}
		if !fresh || !able(a) || a.Promised || m.Replayed.beyond(a) { // who has promised still follows, and who was rolled back has lost something
			continue
		}
		answers++
		switch order := ahead(a, own); {
		case (a.Stalled || c.config.Failover.never(m.Name)) && (order == 0 || r.Quorum == 0): // it doesn't take over, and nothing was promised that only it could have
		case order > 0:
			better = m.Name
		case order == 0 && c.before(m.Name):
			equal = m.Name
		}
	}
	needed := 1
	if r.Quorum > 0 {
		needed = len(r.Members) - r.Quorum + 1
	}
	listened := c.positions.since + c.limits.Listen
	switch {
	case answers < needed:
		return false, fmt.Sprintf("%d of %d members must report their WAL position before one can take over without losing a commit; %d have.",
			needed, len(r.Members), answers)
	case better != "" && (r.Quorum > 0 || c.now < listened+c.limits.Grace):
		return false, fmt.Sprintf("%s is ahead of this instance and takes precedence.%s", better, c.config.Failover.unwilling(better))
	case missing > 0 && c.now < listened:
		c.wait(listened)
		return false, "The other members are being asked for their WAL position."
	case equal != "" && c.now < listened+c.limits.Grace:
		return false, fmt.Sprintf("%s has the same position and takes precedence.", equal)
	}
	return true, ""
}

// before says who of two that are equally far takes over.
func (c *candidate) before(other string) bool {
	switch c.record.Successor {
	case c.self.Name:
		return false
	case other:
		return true
	}
	return c.config.Failover.order(other, c.self.Name) < 0
}

// claim is the record of who takes the lease.
func (c *candidate) claim() Record {
	r := c.record
	next := Record{
		Version: r.Version, Created: r.Created, Holder: c.self.Name, HolderUID: c.self.UID, Address: c.self.Address, Started: c.self.Started, Term: r.Term + 1,
		Timeline: c.server.Position.Timeline, Generation: c.self.Generation, LastHolder: c.self.Name,
	}
	next.Full = r.Generation == c.self.Generation && r.full(c.config.number())
	switch {
	case r.Generation != c.self.Generation || c.solo: // nobody else has anything, or all of it
		return next
	case r.LastHolder == c.self.Name: // what it has not begun yet was kept for it
		next.End, next.Checkpoint = r.End, r.Checkpoint
		next.Timeline = max(next.Timeline, r.Timeline)
		next.Members, next.Quorum = r.Members, r.Quorum
		return next
	}
	next.End = r.End
	next.Timeline = max(next.Timeline, r.Timeline) + 1
	next.Members, next.Quorum = without(r.Members, c.self.Name), r.Quorum
	if !c.config.required(r) {
		next.Quorum = min(r.Quorum, c.waiting())
	}
	switch {
	case next.Quorum > 0:
		next.Members = union(next.Members, []Member{{Name: r.LastHolder, Address: r.Address, Replayed: r.Checkpoint}})
	case r.Quorum > 0: // commits can't wait for anybody: nobody else may count on having them
		next.Members = nil
	}
	return next
}

// waiting are how many members will follow at once. The one that has just stopped won't.
func (c *candidate) waiting() int {
	others := without(c.record.Members, c.self.Name)
	if !c.positions.asking() { // the holder has named its successor, and all is in order
		return len(others)
	}
	return len(slices.DeleteFunc(others, func(m Member) bool { return !c.positions.able(m.Name) }))
}
