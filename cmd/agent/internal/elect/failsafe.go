package elect

import (
	"slices"

	"howdah.dev/howdah/pkg/agentapi"
)

// round is a failsafe round.
type round struct {
	id      int
	started Time
	left    []string // who has not said yes
}

// begin asks members in a new round.
func (r *round) begin(now Time, members []Member) {
	*r = round{id: r.id + 1, started: now, left: names(members)}
}

// end of the round: no answer to it counts any more.
func (r *round) end() { *r = round{id: r.id} }

// agrees notes the yes of a member, and says whether all have said it now.
func (r *round) agrees(id int, member string) bool {
	i := slices.Index(r.left, member)
	if id != r.id || i < 0 {
		return false
	}
	r.left = slices.Delete(r.left, i, i+1)
	return len(r.left) == 0
}

func (t *tenure) askFailsafe(now Time, acts *Acts) {
	members, renewal := t.lease.exposed(), t.lease.by(byRenewal)
	due := max(t.renewed+t.limits.Failsafe, renewal.since+t.limits.Failsafe, t.round.started+t.limits.Retry)
	if len(members) == 0 || !renewal.possible || t.handing != nil {
		return
	}
	if now < due {
		acts.Wake = min(acts.Wake, due)
		return
	}
	t.round.begin(now, members)
	acts.Failsafe = &Question{ID: t.round.id, Members: members, Request: agentapi.FailsafeRequest{
		Leader: t.self.Name, Generation: t.self.Generation, Term: t.lease.record.Term,
	}}
}

// HeardFailsafe takes in what a member answers in a round. When all have said yes, the round counts as a renewal from the
// moment when it was started.
func (c *Core) HeardFailsafe(id int, member string, follows bool) {
	if c.holds && follows && c.round.agrees(id, member) {
		c.renewed = max(c.renewed, c.round.started)
	}
}

// AskedFailsafe answers a primary that can't reach the API server. A yes is a promise not to take the lease for a while.
func (c *Core) AskedFailsafe(now Time, request agentapi.FailsafeRequest) agentapi.FailsafeAnswer {
	if why := unfaithful(c, request); why != "" {
		return agentapi.FailsafeAnswer{Message: why}
	}
	c.promise = max(c.promise, now+c.lease.record.expiry(c.limits.Limits))
	return agentapi.FailsafeAnswer{Follows: true}
}

// unfaithful says why nothing can be promised to a primary; empty: it can.
func unfaithful(c *Core, request agentapi.FailsafeRequest) string {
	r := c.lease.record
	switch {
	case r == nil:
		return "the Lease has not been read yet"
	case c.holds || c.lease.writing != nil:
		return "this instance takes over"
	case c.yielded.still(r):
		return "another instance may be taking over"
	case request.Generation != c.self.Generation || request.Term < r.Term || request.Term == r.Term && request.Leader != r.Holder:
		return "another term has begun"
	}
	return ""
}

// Failsafe says whether the holder advances by the word of its members alone.
func (c *Core) Failsafe() bool { return c.holds && c.round.id > 0 && c.renewed == c.round.started }
