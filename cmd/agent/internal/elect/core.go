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
	limits Limits

	record  *Record // that was read or written last; nil: none yet
	seen    Time    // when its version was seen first
	refresh bool    // it is known to be old
	reread  Time    // when it was read again without a reason

	writing   *Write // on its way
	wrote     Time   // when the last write was sent
	confirmed bool   // it has been written

	holds   bool
	begun   Time     // when the lease was taken
	renewed Time     // when the last renewal that counts was sent
	unsure  []Member // of writes whose outcome is not known
	doubt   bool     // there are such writes
	alone   bool     // the instance was alone when the agent started
	solo    bool     // it has led without the lease since it held it: nobody else has what it has
	passed  bool     // another instance has been primary since it was said who begins
	members map[string]*watched

	round   round
	promise Time  // until when the lease is not taken
	ended   int64 // term whose holder is known to have ended

	server  Server
	heard   map[string]answer
	asking  Time // since when positions are being asked for; 0: they aren't
	asked   Time // when they were asked for last
	handing *handover
	answers agentapi.SwitchoverStatus
	leaving bool
	target  Sync // what PostgreSQL was asked to have
}

// watched is what a holder remembers of a replica.
type watched struct {
	Follower
	last Time // when it streamed last
}

type answer struct {
	position agentapi.Position
	asked    Time
}

// handover is a primary's way out while somebody is there to take over.
type handover struct {
	token, to string
	members   []Member // that there were when it began
	stopped   Time     // when the server had ended
	asked     bool     // by a person; else the pod ends, or the server is hopeless
	released  bool     // the lease may have been given up by now: there is no way back without writing it again
}

// New makes the core of an instance that has seen nothing yet.
func New(self Self, config Config, limits Limits) *Core {
	c := &Core{self: self, config: config, limits: limits, members: map[string]*watched{}, heard: map[string]answer{}}
	c.alone = c.Alone()
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
	c.config = config
}

// Reread says that what is known of the Lease is not what it says.
func (c *Core) Reread() { c.refresh = true }

// SawLease takes in the Lease as it was read.
func (c *Core) SawLease(now Time, record Record) {
	c.refresh = false
	if !record.newer(c.record) {
		return
	}
	if c.holds && record.blank() { // somebody has deleted it; it is written again as it was
		version := record.Version
		record = *c.record
		record.Version = version
	}
	if record.Generation == c.self.Generation && record.LastHolder != c.self.Name {
		c.passed = true
	}
	c.record, c.seen = &record, now
	if c.holds && !c.mine(&record) {
		c.lose()
	}
	if !c.holds {
		c.asking = 0 // what was heard before is about the lease before
	}
}

// mine says whether a record names this very pod as the holder.
func (c *Core) mine(record *Record) bool {
	return record.Holder == c.self.Name && record.HolderUID == c.self.UID && record.Generation == c.self.Generation
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
	if c.writing != write {
		return
	}
	c.writing = nil
	switch outcome {
	case Unknown, Conflict: // what a request has met may have been itself, sent twice by somebody on its way
		c.unsure, c.doubt = union(c.unsure, write.Record.Members), true
		c.refresh = true
	case Written:
		c.confirmed = true
		record := write.Record
		record.Version = version
		c.taken(now, write, record)
	}
}

// taken notes that a record of ours is the one that counts.
func (c *Core) taken(now Time, write *Write, record Record) {
	if c.record == nil || !c.record.newer(&record) {
		c.record, c.seen, c.refresh = &record, now, false
	} else if !c.mine(c.record) || c.record.Term != record.Term {
		c.lose() // a later one was seen already
		return
	}
	c.unsure, c.doubt = nil, false
	if record.Holder == "" {
		c.lose()
		return
	}
	if !c.holds {
		c.begin(now)
	}
	c.renewed = max(c.renewed, write.Sent)
}

// begin is the first moment as the holder.
func (c *Core) begin(now Time) {
	c.holds, c.alone, c.solo, c.handing, c.promise, c.asking = true, false, false, nil, 0, 0
	c.begun, c.renewed = now, 0
	c.target = Sync{Quorum: c.record.Quorum, Members: names(c.record.Members)}
	c.members = map[string]*watched{}
	for _, m := range c.record.Members {
		c.members[m.Name] = &watched{Follower: Follower{Address: m.Address}, last: now}
	}
	if members, quorum := c.desired(now); c.record.Quorum == 0 && quorum > 0 {
		c.target = Sync{Quorum: quorum, Members: names(members)}
	}
}

// lose is the end of being the holder, at once.
func (c *Core) lose() {
	c.holds, c.handing, c.asking = false, nil, 0
	c.round = round{id: c.round.id}
}

// Heard takes in the position of another instance, which it has looked up for a question that was sent at the time asked. The
// time of the question counts, as an answer may lie about for long before it is read.
func (c *Core) Heard(asked Time, position agentapi.Position) {
	if known := c.heard[position.Pod]; position.Generation == c.self.Generation && asked >= known.asked {
		c.heard[position.Pod] = answer{position, asked}
	}
}

// Follow takes in what the server knows of its replicas. Those that are not named are away.
func (c *Core) Follow(now Time, followers map[string]Follower) {
	for name, f := range followers {
		known := c.members[name]
		if known == nil {
			known = &watched{}
			c.members[name] = known
		}
		if f.Address == "" {
			f.Address = known.Address
		}
		known.Follower = f
		if f.Streaming {
			known.last = now
		}
	}
	for name, known := range c.members {
		if _, found := followers[name]; !found {
			known.Streaming = false
		}
	}
}

// Observe takes in how the instance's own server is. Replicas can't follow what doesn't run: for them time begins when it does.
func (c *Core) Observe(now Time, server Server) {
	if server.Mode == Primary || server.Mode == Replica {
		c.self.Whole = true // whatever it was when the agent started
	}
	if server.Mode == Primary && c.server.Mode != Primary {
		for _, known := range c.members {
			known.last = now
		}
	}
	c.server = server
}

// HolderEnded says that Kubernetes knows for sure that the process which holds the lease of this term has ended, with all that
// it had started. Its lease need not run out.
func (c *Core) HolderEnded(now Time, term int64) {
	if c.record == nil || c.record.Term != term || c.record.Holder == "" || c.ended == term {
		return
	}
	c.ended, c.asking = term, 0
}

// Leave says that the pod ends.
func (c *Core) Leave() { c.leaving = true }

// Holds says whether this instance is the primary by the lease.
func (c *Core) Holds() bool { return c.holds }

// Record is the Lease as it is known; nil: not at all.
func (c *Core) Record() *Record { return c.record }

// Age of the lease: since the last renewal that counts was sent, or since the present version was seen.
func (c *Core) Age(now Time) time.Duration {
	if c.holds {
		return now - c.renewed
	}
	return now - c.seen
}

// Promised says whether the lease is not to be taken now, because the primary was promised that.
func (c *Core) Promised(now Time) bool { return now < c.promise }
