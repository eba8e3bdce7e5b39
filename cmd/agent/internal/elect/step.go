package elect

import (
	"math"

	"howdah.dev/howdah/pkg/agentapi"
)

// Forever is later than any time.
const Forever Time = math.MaxInt64

// Acts are what is to be done now. Everything but Want may be done in the background; what comes of it is told to the Core.
type Acts struct {
	// Write the Lease; nil: not now.
	Write *Write
	// Refresh: read the Lease.
	Refresh bool
	// Ask these for their positions.
	Ask     []Member
	Request agentapi.PositionRequest
	// Failsafe is a question to the members; nil: none.
	Failsafe *Question
	// Word is a question to all that may be members soon; nil: none. The answers, or the questions, may be lost.
	Word *WordQuestion
	// Want is what PostgreSQL shall be from now on.
	Want Want
	// Wake is when to step again, if nothing happens before.
	Wake Time
}

// Write of the Lease. Record.Version is its precondition.
type Write struct {
	Record Record
	Sent   Time
}

// Question of a failsafe round.
type Question struct {
	ID      int
	Request agentapi.FailsafeRequest
	Members []Member
}

// Role is what PostgreSQL shall be.
type Role int

// The roles.
const (
	Idle   Role = iota // it is not started, but a replica that runs continues
	Stop               // it is stopped
	Lead               // it is the primary
	Follow             // it is a replica
)

// Want is what PostgreSQL shall be.
type Want struct {
	Role Role
	// Leader to follow; without a name: nobody is there yet, and the replica waits.
	Leader Member
	// Detached: the replica receives no WAL, from whomever.
	Detached bool
	// CampaignAsIs: a copy that has to be rewound or cloned is started as a replica as it is. Nobody is there to do that from, and it may have
	// every commit.
	CampaignAsIs bool
	// Delayed: the replica replays WAL late, as a person has asked for.
	Delayed bool
	Term    int64
	// Timeline that a promotion begins; 0: whichever is next. A server that has reached it can't: it waits for a later one.
	Timeline int64
	// Sync of a primary, set before it accepts writes.
	Sync Sync
	// Until when a primary may accept writes.
	Until Time
	// Orderly: it is stopped so that the replicas get everything. Else at once.
	Orderly bool
	// Why there is nothing to do but to wait, in a sentence.
	Why string
}

// Step decides. It is called whenever something was told to the Core, and at the time that the last call has named.
func (c *Core) Step(now Time) Acts {
	if c.holds {
		c.limits.shorten(c.tenure().ages(now))
	} else if c.lease.writing == nil { // a claim that is on its way says what the limits were
		c.limits.settle()
	}
	if c.holds && now >= c.tenure().until() {
		c.lose()
	}
	acts := Acts{Wake: now + c.limits.Retry, Refresh: c.lease.stale(c.holds)}
	switch {
	case c.Alone() && c.lease.unrivalled(c.holds):
		c.beAlone(&acts)
	case c.holds:
		c.lead(now, &acts)
	case c.ends.any():
		acts.Want = Want{Role: Stop, Orderly: c.server.Mode != Primary, Why: c.ends.why(c.self.Name)}
		acts.Refresh = acts.Refresh && !c.ends.leaving
		if c.firstborn() {
			acts.Want.Orderly, acts.Want.Until = true, Forever
		}
	case c.lease.record == nil:
		acts.Want = Want{Role: Idle, Why: "The Lease has not been read yet."}
		if c.firstborn() {
			acts.Want = Want{Role: Lead, Until: Forever}
		}
	default:
		c.campaign(now, &acts)
	}
	c.settleSwitchover()
	return acts
}

// beAlone leads without renewing a lease.
func (c *Core) beAlone(acts *Acts) {
	acts.Want = Want{Role: Lead, Until: Forever}
	switch {
	case c.ends.any():
		acts.Want = Want{Role: Stop, Orderly: true, Until: Forever, Why: c.ends.why(c.self.Name)}
		if c.ends.leaving && c.server.Mode == Down { // a new pod of this name takes it
			c.lose()
		}
	case !c.holds:
		c.solo = true
	}
}

// firstborn: the server has run alone since this agent started, and nobody has ever taken a lease from it.
func (c *Core) firstborn() bool {
	return c.server.Mode == Primary && c.alone &&
		(c.lease.record == nil || c.lease.record.blank() || len(c.lease.record.Members) == 0 && c.lease.record.LastHolder == c.self.Name)
}

func (c *Core) lead(now Time, acts *Acts) {
	acts.Want = c.leadership()
	automatic := !c.config.Failover.paused(now)
	if c.handing == nil && (c.ends.any() || automatic && c.server.hopeless() && now >= c.begun+c.limits.Revive && len(c.lease.record.Members) > 0) {
		c.handing = &handover{}
	}
	if automatic && c.server.stuck(c.lease.record, &c.replicas) {
		c.handing = c.handing.cutShort()
	}
	next, due := c.renewal(now)
	if c.handing != nil {
		due = due && !c.handing.hangs(c.server)
		if released, done := c.handOver(now, acts); done {
			next, due = released, true
		}
	}
	if acts.Want.Role == Lead {
		acts.Want.Sync = c.target
	}
	if due && c.lease.writing == nil && !acts.Refresh {
		acts.Write = c.lease.write(now, next, c.limits.duration())
	}
	if at := c.lease.wrote + c.limits.Renew; at > now {
		acts.Wake = min(acts.Wake, at)
	}
	c.tenure().askFailsafe(now, acts)
	if c.handing == nil || !c.handing.hangs(c.server) {
		c.tenure().askWord(now, acts)
	}
	if c.handing == nil && len(c.lease.exposed()) == 0 {
		c.contact.reach(now, acts, &c.config, &c.replicas, &c.limits.Limits)
	}
	acts.Want.Until = c.tenure().until()
	acts.Wake = min(acts.Wake, acts.Want.Until)
}

// leadership is what the holder wants of its server.
func (c *Core) leadership() Want {
	return Want{Role: Lead, Term: c.lease.record.Term, Timeline: c.lease.record.Timeline, Sync: c.target, Until: c.tenure().until()}
}

// renewal is the next record of a holder, and whether it is time to write it.
func (c *Core) renewal(now Time) (Record, bool) {
	record := c.lease.record
	next := *record
	next.Holder, next.HolderUID, next.Address, next.LastHolder = c.self.Name, c.self.UID, c.self.Address, c.self.Name
	next.Started, next.Timeline = c.self.Started, max(next.Timeline, c.server.timeline())
	next.Checkpoint = later(next.Checkpoint, c.server.Checkpoint)
	next.Successor, next.Complete = "", false
	pause := c.limits.Renew
	if !c.lease.confirmed {
		pause = c.limits.Retry
	}
	if c.Alone() {
		next.Members, next.Quorum, next.Word = nil, 0, 0
		return next, len(c.lease.exposed()) > 0 && now >= c.lease.wrote+c.limits.Retry
	}
	switch {
	case c.handing == nil && c.server.Mode == Primary:
		next.Members, next.Quorum, c.target = c.membership().next()
	case c.handing != nil && c.ends.any() && c.server.Mode != Primary && next.Quorum == 0:
		next.Members = c.membership().connected(next.Members)
	}
	steady := c.lease.confirmed && now < c.renewed+c.limits.Failsafe
	if record.Word > 0 {
		steady = c.lease.confirmed && c.asks.heardAll(now, record.Members, c.limits.Word.Silent)
	}
	if !steady && !subset(next.Members, record.Members) { // whoever is added could fence a primary that can't renew just now
		next.Members, next.Quorum = record.Members, record.Quorum
	}
	next.Full = next.full(c.config.number())
	next.Members = c.membership().marked(next.Members)
	if next.Word = c.tenure().word(now, next.Members, steady); next.Word > 0 && record.Word > 0 && c.lease.confirmed {
		pause = c.limits.Word.Keep
		if next.Checkpoint != record.Checkpoint { // that tells an older volume
			pause = min(pause, newCheckpoint)
		}
	}
	urgent := !subset(next.Members, record.Members) || c.handing != nil && len(next.Members) < len(record.Members) || next.Quorum != record.Quorum || next.Timeline != record.Timeline || next.Word != record.Word || c.limits.changing()
	return next, now >= c.lease.wrote+pause || urgent && steady || c.tenure().takesBack(now, &next)
}
