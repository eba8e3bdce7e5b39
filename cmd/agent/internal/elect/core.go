// Package elect decides who is primary. Core is the whole decision: it has no clock, no network and no lock, takes what was
// seen together with the time at which it was, and answers with what is to be done. Package member connects it to the Lease, the peers and the server.
//
// docs/high-availability.md says why two servers never accept writes simultaneously.
package elect

import (
	"slices"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

// Time is what a monotonic clock of this machine shows. Two machines never compare theirs.
type Time = time.Duration

// Core is the state of one instance in the election.
type Core struct {
	self   Self
	config Config
	limits pacing
	server Server

	lease     lease
	replicas  replicas
	positions positions
	round     round
	contact   contact
	handing   *handover

	holds   bool
	begun   Time // when the lease was taken
	renewed Time // when the last renewal that counts was sent
	alone   bool // the instance was alone when the agent started
	solo    bool // it has led without the lease since it held it: nobody else has what it has
	passed  bool // another instance has been primary since it was said who begins
	promise Time // until when the lease is not taken
	asks    asks
	given   given
	yielded yielded
	ended   int64 // term whose holder is known to have ended
	ends    ends
	target  Sync // what PostgreSQL was asked to have
	answers agentapi.SwitchoverStatus
}

// New makes the core of an instance that has seen nothing yet.
func New(self Self, config Config) *Core {
	limits := config.limits()
	c := &Core{self: self, config: config, limits: pacing{limits, limits}, replicas: expected(0, nil), positions: positions{heard: map[string]answer{}}}
	c.alone, c.ends.fenced = c.Alone(), config.Failover.fenced(self.Name)
	return c
}

// Alone says whether this instance leads whatever the Lease says. Another one may have been started with a configuration from
// before there were several.
func (c *Core) Alone() bool { return c.config.Alone && slices.Contains(c.config.Peers, c.self.Name) }

// Configure takes in what the cluster asks for now.
func (c *Core) Configure(config Config) {
	if config.Begins != c.config.Begins {
		c.passed = false
	}
	c.config, c.limits.wanted, c.ends.fenced = config, config.limits(), config.Failover.fenced(c.self.Name)
}

// Reread says that what is known of the Lease is not what it says.
func (c *Core) Reread() { c.lease.refresh = true }

// SawLease takes in the Lease as it was read.
func (c *Core) SawLease(now Time, record Record) {
	c.lease.refresh = false
	if c.holds && record.Version == "" { // there is none: it is created again, as it was
		record = *c.lease.record
		record.Version = ""
		c.lease.record, c.lease.confirmed = &record, false
		return
	}
	if !c.lease.news(&record, c.holds) {
		c.lease.doubtful(&record)
		return
	}
	if c.holds && (record.blank() || damaged(&record, c.lease.record)) { // somebody has deleted or edited it; it is written again as it was
		version, created := record.Version, record.Created
		record = *c.lease.record
		record.Version, record.Created = version, created
		c.lease.confirmed = c.lease.confirmed && record.Word == 0 // at the next renewal, or soon where there is none
	}
	if record.Generation == c.self.Generation && record.LastHolder != c.self.Name {
		c.passed = true
	}
	if c.holds {
		c.lease.sawOwn(&record)
	}
	if known := c.lease.record; known != nil && !c.holds && (record.blank() || record.createdAfter(known)) {
		forgetTerms(c)
	}
	c.lease.record, c.lease.seen, c.lease.conflict, c.lease.rolledBack = &record, now, false, false
	if c.holds && !c.self.holds(&record) {
		c.lose()
	}
	if !c.holds {
		c.positions.forget() // what was heard before is about the lease before
	}
}

// forgetTerms of a Lease that was deleted: those of the one that was created in its place begin again. A word that was given still holds
// for its time.
func forgetTerms(c *Core) {
	c.promise = c.given.promised(c.promise, c.lease.record, c.ended)
	c.given, c.ended = given{}, 0
}

// damaged: the record is the one that was known, and somebody has made the rest of it unreadable.
func damaged(record, known *Record) bool {
	return record.Damaged != "" && record.Holder == known.Holder && record.Term == known.Term
}

// Outcome of a write.
type Outcome int

// The outcomes.
const (
	Written  Outcome = iota
	Conflict         // somebody has written since
	Unknown          // it may have been written, or may still be
)

// Wrote takes in how a write ended; version is the new one if it was written.
func (c *Core) Wrote(now Time, write *Write, outcome Outcome, version string) {
	if c.lease.writing != write {
		return
	}
	c.lease.ended(outcome)
	if outcome != Unknown {
		c.contact.note(write.Sent)
	}
	if outcome == Written {
		record := write.Record
		record.Version = version
		c.taken(now, write, record)
	}
}

// taken notes that a record of ours is the one that counts.
func (c *Core) taken(now Time, write *Write, record Record) {
	if known := c.lease.record; known == nil || !known.newer(&record) {
		c.lease.record, c.lease.seen, c.lease.refresh, c.lease.rolledBack = &record, now, false, false
	} else if !c.self.holds(known) || known.Term != record.Term {
		c.lose() // a later one was seen already
		return
	}
	c.lease.unsure, c.lease.doubt, c.lease.ways, c.lease.since = nil, false, [2]way{}, 0
	if record.Holder == "" {
		c.lose()
		return
	}
	if !c.holds {
		c.begin(now)
	}
	c.renewed = max(c.renewed, write.Sent)
	c.limits.lengthen(write.Record.Duration, write.Record.Word)
}

// begin is the first moment as the holder.
func (c *Core) begin(now Time) {
	c.holds, c.alone, c.solo, c.handing, c.promise = true, false, false, nil, 0
	c.positions.forget()
	c.begun, c.renewed = now, 0
	c.contact.note(now)
	c.asks = asks{}
	record := c.lease.record
	c.target = Sync{Quorum: record.Quorum, Members: names(record.Members)}
	c.replicas = expected(now, record.Members)
	if members, quorum := c.membership().desired(); record.Quorum == 0 && quorum > 0 {
		c.target = Sync{Quorum: quorum, Members: names(members)}
	}
}

// lose is the end of being the holder, at once.
func (c *Core) lose() {
	c.holds, c.handing = false, nil
	c.positions.forget()
	c.round.end()
	c.asks = asks{}
}

// Heard takes in the position of another instance, which it has looked up for a question that was sent at the time asked.
func (c *Core) Heard(asked Time, position agentapi.Position) {
	if position.Generation == c.self.Generation {
		c.contact.note(asked)
		c.positions.note(asked, position)
	}
}

// Follow takes in what the server knows of its replicas. Those that are not named are away.
func (c *Core) Follow(now Time, followers map[string]Follower) {
	c.replicas.note(now, followers)
	if c.replicas.anyStreams() {
		c.contact.note(now)
	}
}

// Observe takes in how the instance's own server is. Replicas can't follow what doesn't run: for them time begins when it does.
func (c *Core) Observe(now Time, server Server) {
	if server.Mode == Primary || server.Mode == Replica { // whatever it was when the agent started
		c.self.Whole, c.self.Timeline = true, max(c.self.Timeline, server.Position.Timeline)
		c.self.Standby = server.Mode == Replica
	}
	c.self.Checkpoint = later(c.self.Checkpoint, server.Checkpoint)
	if end, orderly := server.end(); orderly && server.Mode == Down {
		c.self.Checkpoint = later(c.self.Checkpoint, end)
	}
	if server.Mode == Primary && c.server.Mode != Primary {
		c.replicas.wait(now)
	}
	if server.Mode == Primary {
		c.replicas.follow(server.Position)
	}
	c.server = server
}

// HolderEnded says that Kubernetes knows for sure that the process which holds the lease of this term has ended, with all that
// it had started. Its lease need not run out.
func (c *Core) HolderEnded(now Time, term int64) {
	if c.lease.record == nil || c.lease.record.Term != term || c.lease.record.Holder == "" || c.ended == term {
		return
	}
	c.ended = term
	c.positions.forget()
}

// Leave says that the pod ends.
func (c *Core) Leave() { c.ends.leaving = true }

// Holds says whether this instance is the primary by the lease.
func (c *Core) Holds() bool { return c.holds }

// Record is the Lease as it is known; nil: not at all.
func (c *Core) Record() *Record { return c.lease.record }

// Age of the lease: since the last renewal that counts was sent, or since the present version was seen.
func (c *Core) Age(now Time) time.Duration {
	if c.holds {
		return now - max(c.renewed, c.asks.proven(c.lease.by(byWord).members))
	}
	return now - max(c.lease.seen, c.given.at)
}

// Promised says whether the lease is not to be taken now, because the primary was promised that.
func (c *Core) Promised(now Time) bool {
	return now < c.given.promised(c.promise, c.lease.record, c.ended)
}
