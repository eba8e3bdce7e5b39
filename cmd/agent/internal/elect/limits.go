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
	Word     WordLimits
}

// WordLimits are those of a lease that is kept by the word of the members.
type WordLimits struct {
	Ask    time.Duration // between two questions while one is open
	Rest   time.Duration // between two otherwise
	Prove  time.Duration // that all members have answered for, until their word is enough
	Silent time.Duration // without an answer of one, until it isn't any more: longer by a whole request to the API server is still less than Fence
	Fence  time.Duration // without an answer of one, until PostgreSQL is killed
	Expire time.Duration // that a member keeps its word for
	Keep   time.Duration // between two writes of a Lease that nothing has changed in
	Others time.Duration // without a change of the Lease, until one that isn't asked may take it
}

// DefaultLimits are those of an agent that is told nothing else.
func DefaultLimits() Limits {
	return Limits{
		Renew: 3400 * time.Millisecond, Retry: time.Second, Failsafe: 4400 * time.Millisecond, Fence: 7 * time.Second, Kill: 7*time.Second + Margin,
		Expire: 9 * time.Second, Away: 5 * time.Second, Listen: 600 * time.Millisecond, Grace: 2 * time.Second,
		Revive: 3 * time.Second, Handover: 2 * time.Second, Stall: 10 * time.Second,
		Word: WordLimits{
			Ask: 100 * time.Millisecond, Rest: 250 * time.Millisecond, Prove: 10 * time.Second, Silent: 700 * time.Millisecond,
			Fence: 2800 * time.Millisecond, Expire: 4 * time.Second, Keep: 2 * time.Minute, Others: 5 * time.Minute,
		},
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
		limits.Word.Silent, limits.Word.Fence, limits.Word.Expire = 2*time.Second, 9*time.Second, 12*time.Second
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

// word is for how long the members keep their word by the next write of the Lease.
func (p *pacing) word() time.Duration { return max(p.Word.Expire, p.wanted.Word.Expire) }

// changing: the instance has yet to go by the limits that are wanted.
func (p *pacing) changing() bool { return p.Limits != p.wanted }

// settle takes the wanted limits, where nothing depends on it: nobody waits for a lease of this instance, nor may have to.
func (p *pacing) settle() { p.Limits = p.wanted }

// shorten takes shorter ones. A holder does that right after a renewal: its time must not be over at once. The age is that of a lease
// by renewal, and word of one through the members.
func (p *pacing) shorten(age, word time.Duration) {
	if p.wanted.Expire <= p.Expire && p.wanted.Word.Expire <= p.Word.Expire && age < p.wanted.Failsafe && (word == 0 || word < p.wanted.Word.Silent) {
		p.Limits = p.wanted
	}
}

// lengthen takes longer ones: the Lease is known to say that it is kept for that long. Word is 0 where the members' isn't enough.
func (p *pacing) lengthen(said, word time.Duration) {
	longer := p.wanted.Expire > p.Expire || p.wanted.Word.Expire > p.Word.Expire
	if longer && said >= p.wanted.Expire && (word == 0 || word >= p.wanted.Word.Expire) {
		p.Limits = p.wanted
	}
}
