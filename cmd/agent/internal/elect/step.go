package elect

import (
	"math"
	"slices"

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
	Ask []Member
	// Failsafe is a question to the members; nil: none.
	Failsafe *Question
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
	Idle   Role = iota // it is not started, but a replica that runs goes on
	Stop               // it is stopped
	Lead               // it is the primary
	Follow             // it is a replica
)

// Want is what PostgreSQL shall be.
type Want struct {
	Role Role
	// Leader to follow; without a name: nobody is there yet, and the replica waits.
	Leader Member
	Term   int64
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
	acts := Acts{Wake: now + c.limits.Retry, Refresh: c.refresh || c.record == nil}
	if c.holds && now >= c.until() {
		c.lose()
	}
	switch {
	case c.Alone() && c.unrivalled():
		c.beAlone(&acts)
	case c.holds:
		c.lead(now, &acts)
	case c.leaving:
		acts.Want, acts.Refresh = Want{Role: Stop, Orderly: c.server.Mode != Primary}, false
		if c.firstborn() {
			acts.Want.Orderly, acts.Want.Until = true, Forever
		}
	case c.record == nil:
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

// unrivalled: nobody can take the lease, as there has never been an election, or as it is held and nobody else is left in it.
func (c *Core) unrivalled() bool {
	return len(c.exposed()) == 0 && (c.holds || c.record != nil && c.record.blank())
}

// beAlone leads without renewing a lease.
func (c *Core) beAlone(acts *Acts) {
	acts.Want = Want{Role: Lead, Until: Forever}
	switch {
	case c.leaving:
		acts.Want = Want{Role: Stop, Orderly: true, Until: Forever}
		if c.server.Mode == Down { // a new pod of this name takes it
			c.lose()
		}
	case !c.holds:
		c.solo = true
	}
}

// exposed are all that might take the lease by what any write of ours may have said.
func (c *Core) exposed() []Member {
	all := c.unsure
	if c.record != nil {
		all = union(c.record.Members, all)
	}
	if c.writing != nil {
		all = union(all, c.writing.Record.Members)
	}
	return all
}

// until is when the holder stops unless it renews. Where nobody may take over it need not.
func (c *Core) until() Time {
	if len(c.exposed()) == 0 {
		return Forever
	}
	return c.renewed + c.limits.Fence
}

// firstborn: the server has run alone since this agent started, and nobody has ever taken a lease from it.
func (c *Core) firstborn() bool {
	return c.server.Mode == Primary && c.alone &&
		(c.record == nil || c.record.blank() || len(c.record.Members) == 0 && c.record.LastHolder == c.self.Name)
}

func (c *Core) lead(now Time, acts *Acts) {
	acts.Want = c.leadership()
	if c.handing == nil && (c.leaving || c.hopeless() && now >= c.begun+c.limits.Revive && len(c.record.Members) > 0) {
		c.handing = &handover{}
	}
	next, due := c.renewal(now)
	if c.handing != nil {
		if released, done := c.handOver(now, acts); done {
			next, due = released, true
		}
	}
	if acts.Want.Role == Lead {
		acts.Want.Sync = c.target
	}
	if due && c.writing == nil && !acts.Refresh {
		c.write(now, acts, next)
	}
	if at := c.wrote + c.limits.Renew; at > now {
		acts.Wake = min(acts.Wake, at)
	}
	c.askFailsafe(now, acts)
	acts.Want.Until = c.until()
	acts.Wake = min(acts.Wake, acts.Want.Until)
}

// hopeless: the server was primary and does not come up again.
func (c *Core) hopeless() bool { return c.server.Hopeless && c.server.Mode == Down }

// leadership is what the holder wants of its server.
func (c *Core) leadership() Want {
	return Want{Role: Lead, Term: c.record.Term, Timeline: c.record.Timeline, Sync: c.target, Until: c.until()}
}

func (c *Core) write(now Time, acts *Acts, record Record) {
	c.writing, c.wrote, c.confirmed = &Write{Record: record, Sent: now}, now, false
	acts.Write = c.writing
}

// renewal is the next record of a holder, and whether it is time to write it.
func (c *Core) renewal(now Time) (Record, bool) {
	next := *c.record
	next.Holder, next.HolderUID, next.Address, next.LastHolder = c.self.Name, c.self.UID, c.self.Address, c.self.Name
	next.Started, next.Timeline = c.self.Started, max(next.Timeline, c.timeline())
	next.Successor, next.Complete = "", false
	pause := c.limits.Renew
	if !c.confirmed {
		pause = c.limits.Retry
	}
	if c.Alone() {
		next.Members, next.Quorum = nil, 0
		return next, len(c.exposed()) > 0 && now >= c.wrote+c.limits.Retry
	}
	switch {
	case c.handing == nil && c.server.Mode == Primary:
		next.Members, next.Quorum = c.membership(now)
	case c.handing != nil && c.leaving && c.server.Mode != Primary && next.Quorum == 0:
		next.Members = c.connected(next.Members)
	}
	steady := c.confirmed && now < c.renewed+c.limits.Failsafe
	if !steady && !subset(next.Members, c.record.Members) { // whoever is added could fence a primary that can't renew just now
		next.Members, next.Quorum = c.record.Members, c.record.Quorum
	}
	urgent := !subset(next.Members, c.record.Members) || c.handing != nil && len(next.Members) < len(c.record.Members) || next.Quorum != c.record.Quorum || next.Timeline != c.record.Timeline
	return next, now >= c.wrote+pause || urgent && steady
}

// connected are those members that get the last of the WAL from a server that is shut down. The others are taken out of the Lease
// before it is given up: should the agent end in between, nobody may come who lacks what was acknowledged.
func (c *Core) connected(members []Member) []Member {
	return slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return c.server.Deserted || !c.streams(m.Name) })
}

// timeline that the server is on, or would begin if it were promoted.
func (c *Core) timeline() int64 {
	if c.server.Mode == Replica {
		return c.server.Position.Timeline + 1
	}
	return c.server.Position.Timeline
}

// round is a failsafe round.
type round struct {
	id      int
	started Time
	left    []string // who has not said yes
}

func (c *Core) askFailsafe(now Time, acts *Acts) {
	members := c.exposed()
	due := max(c.renewed+c.limits.Failsafe, c.round.started+c.limits.Retry)
	if len(members) == 0 || c.handing != nil {
		return
	}
	if now < due {
		acts.Wake = min(acts.Wake, due)
		return
	}
	c.round = round{id: c.round.id + 1, started: now, left: names(members)}
	acts.Failsafe = &Question{ID: c.round.id, Members: members, Request: agentapi.FailsafeRequest{
		Leader: c.self.Name, Generation: c.self.Generation, Term: c.record.Term,
	}}
}

// HeardFailsafe takes in what a member answers in a round. When all have said yes, the round counts as a renewal from the
// moment when it was started.
func (c *Core) HeardFailsafe(id int, member string, follows bool) {
	if !c.holds || id != c.round.id || !follows {
		return
	}
	if i := slices.Index(c.round.left, member); i >= 0 {
		c.round.left = slices.Delete(c.round.left, i, i+1)
		if len(c.round.left) == 0 {
			c.renewed = max(c.renewed, c.round.started)
		}
	}
}

// AskedFailsafe answers a primary that can't reach the API server. A yes is a promise not to take the lease for a while.
func (c *Core) AskedFailsafe(now Time, request agentapi.FailsafeRequest) agentapi.FailsafeAnswer {
	r := c.record
	switch {
	case r == nil:
		return agentapi.FailsafeAnswer{Message: "the Lease has not been read yet"}
	case c.holds || c.writing != nil:
		return agentapi.FailsafeAnswer{Message: "this instance takes over"}
	case request.Generation != c.self.Generation || request.Term < r.Term || request.Term == r.Term && request.Leader != r.Holder:
		return agentapi.FailsafeAnswer{Message: "another term has begun"}
	}
	c.promise = max(c.promise, now+c.limits.Expire)
	return agentapi.FailsafeAnswer{Follows: true}
}

// Failsafe says whether the holder goes on by the word of its members alone.
func (c *Core) Failsafe() bool { return c.holds && c.round.id > 0 && c.renewed == c.round.started }
