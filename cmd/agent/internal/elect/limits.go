package elect

import (
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

// Limits are those of docs/high-availability.md, which says why they are in this order.
type Limits struct {
	Renew    time.Duration // between two renewals
	Retry    time.Duration // between a failed write, or a round of questions, and the next
	Failsafe time.Duration // without a confirmed renewal, until the members are asked
	Fence    time.Duration // without one, until PostgreSQL is killed
	Kill     time.Duration // until the watchdog does it
	Expire   time.Duration // without a change of the Lease, until others may take it
	Away     time.Duration // that a member may be seen to be gone until it is none any more
	Listen   time.Duration // for answers of those that may never answer
	Grace    time.Duration // for whoever comes first, until the next one may try
	Revive   time.Duration // for the server of a new holder, whatever is said of its last run
	Handover time.Duration // for a replica to get the last WAL, until a switchover is taken back
	Stall    time.Duration // that the disk may take to answer
}

// DefaultLimits are those of an agent that is told nothing else.
func DefaultLimits() Limits {
	return Limits{
		Renew: 3400 * time.Millisecond, Retry: time.Second, Failsafe: 4400 * time.Millisecond, Fence: 7 * time.Second, Kill: 7*time.Second + Margin,
		Expire: 9 * time.Second, Away: 5 * time.Second, Listen: 600 * time.Millisecond, Grace: 2 * time.Second,
		Revive: 3 * time.Second, Handover: 2 * time.Second, Stall: 10 * time.Second,
	}
}

// Margin is how much later than the agent the watchdog ends a server, by whatever limits.
const Margin = 500 * time.Millisecond

// LimitsOf a profile. One that is not known may be of a later version of the suite.
func LimitsOf(profile string) Limits {
	limits := DefaultLimits()
	switch profile {
	case agentapi.ProfileFast:
		limits.Renew, limits.Failsafe, limits.Fence = 1500*time.Millisecond, 2200*time.Millisecond, 4400*time.Millisecond
		limits.Expire, limits.Away, limits.Stall = 6*time.Second, 4*time.Second, 6*time.Second
	case agentapi.ProfilePatient:
		limits.Renew, limits.Failsafe, limits.Fence = 8*time.Second, 11*time.Second, 22*time.Second
		limits.Expire, limits.Away, limits.Stall = 27*time.Second, 15*time.Second, 30*time.Second
	}
	limits.Kill = limits.Fence + Margin
	return limits
}

// pacing is the limits that an instance goes by now, and those that it is to go by. Whoever waits for a lease to run out goes by what
// the Lease says, so a holder takes more time only once the Lease says so, and the Lease gives others less only once the holder takes
// no more.
type pacing struct {
	Limits
	wanted Limits
}

// duration is for how long the next write of the Lease has it kept.
func (p *pacing) duration() time.Duration { return max(p.Expire, p.wanted.Expire) }

// changing: the instance has yet to go by the limits that are wanted.
func (p *pacing) changing() bool { return p.Limits != p.wanted }

// settle takes the wanted limits, where nothing depends on it: nobody waits for a lease of this instance, nor may have to.
func (p *pacing) settle() { p.Limits = p.wanted }

// shorten takes shorter ones. A holder does that right after a renewal: its time must not be over at once.
func (p *pacing) shorten(age time.Duration) {
	if p.wanted.Expire <= p.Expire && age < p.wanted.Failsafe {
		p.Limits = p.wanted
	}
}

// lengthen takes longer ones: the Lease is known to say that it is kept for that long.
func (p *pacing) lengthen(said time.Duration) {
	if p.wanted.Expire > p.Expire && said >= p.wanted.Expire {
		p.Limits = p.wanted
	}
}
