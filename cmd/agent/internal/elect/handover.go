package elect

import (
	"cmp"
	"fmt"
	"slices"

	"howdah.dev/howdah/pkg/agentapi"
)

// handover is a primary's way out while somebody is there to take over.
type handover struct {
	token, to string
	members   []Member // that there were when it began
	stopped   Time     // when the server had ended
	asked     bool     // by a person; else the pod ends, or the server is hopeless
	abrupt    bool     // the server is killed, as its disk doesn't respond
	released  bool     // the lease may have been given up by now: there is no way back without writing it again
}

// cutShort is the same handover, or a new one, that doesn't wait for the disk.
func (h *handover) cutShort() *handover {
	if h == nil {
		h = &handover{}
	}
	h.abrupt = true
	return h
}

// hangs: the server was told to end at once and is not known to be dead. What waits for a disk can't be killed before that answers,
// so the lease is neither given up nor renewed: it runs out.
func (h *handover) hangs(server Server) bool { return h.abrupt && server.Mode != Down }

// Switchover asks the holder to give its role to another instance. It answers at once; how it ends is in SwitchoverStatus.
func (c *Core) Switchover(request agentapi.SwitchoverRequest) agentapi.SwitchoverStatus {
	if request.Token == c.answers.Token {
		return c.answers
	}
	if c.handing != nil {
		return agentapi.SwitchoverStatus{Token: request.Token, State: agentapi.SwitchoverRefused, Message: "another switchover is under way", Untouched: true}
	}
	c.answers = agentapi.SwitchoverStatus{Token: request.Token, State: agentapi.SwitchoverRunning}
	switch reason := c.refusal(request.To); {
	case request.To == c.self.Name && c.holds:
		c.answers.State, c.answers.Message = agentapi.SwitchoverDone, request.To+" is the primary already"
	case reason != "":
		c.answers.State, c.answers.Message, c.answers.Untouched = agentapi.SwitchoverRefused, reason, true
	default:
		c.handing = &handover{token: request.Token, to: request.To, asked: true}
	}
	return c.answers
}

func (c *Core) refusal(to string) string {
	switch {
	case !c.holds:
		return c.self.Name + " is not the primary"
	case c.server.Mode != Primary:
		return "the primary is not up"
	case to == "" && !slices.ContainsFunc(c.lease.record.Members, func(m Member) bool { return c.replicas.stream(m.Name) && !c.config.Failover.never(m.Name) }):
		return "no replica follows closely enough to take over"
	case to != "" && !slices.Contains(c.config.Peers, to):
		return fmt.Sprintf("%s is not an instance of this cluster: write one of %v", to, c.config.Peers)
	case c.config.Failover.delayed(to):
		return fmt.Sprintf("%s is a delayed replica: remove it from spec.delayedReplicas first", to)
	case to != "" && c.config.Failover.fenced(to):
		return fmt.Sprintf("spec.failover.fenced names %s, so its PostgreSQL doesn't run", to)
	case to != "" && (!has(c.lease.record.Members, to) || !c.replicas.stream(to)):
		return fmt.Sprintf("%s doesn't follow closely enough to take over", to)
	}
	return ""
}

// SwitchoverStatus is how the last switchover went.
func (c *Core) SwitchoverStatus() agentapi.SwitchoverStatus { return c.answers }

// TakeBack ends a switchover that somebody asked for, before the server has begun to end: nothing has come of it yet. It says whether that
// was so.
func TakeBack(c *Core, reason string) bool {
	h := c.handing
	if h == nil || !h.asked || h.abrupt || h.stopped != 0 || h.released || !c.holds || c.ends.any() || c.server.Mode != Primary || c.server.hopeless() {
		return false
	}
	c.handing = nil
	c.answers.State, c.answers.Message = agentapi.SwitchoverRefused, reason
	return true
}

// settleSwitchover notes the end of a switchover whose lease was given up.
func (c *Core) settleSwitchover() {
	if c.answers.State != agentapi.SwitchoverRunning || c.handing != nil || c.lease.record == nil {
		return
	}
	switch holder := c.lease.record.Holder; holder {
	case "":
	case c.self.Name:
		c.answers.State, c.answers.Message = agentapi.SwitchoverRefused, "no instance has taken over in time, so the previous primary continues"
	default:
		c.answers.State, c.answers.Message = agentapi.SwitchoverDone, holder+" has taken over"
	}
}

// handOver stops the server in order and gives the lease up, to who has everything.
func (c *Core) handOver(now Time, acts *Acts) (Record, bool) {
	h := c.handing
	acts.Want = Want{Role: Stop, Orderly: !h.abrupt, Term: c.lease.record.Term, Until: c.tenure().until(), Why: c.ends.why(c.self.Name)}
	if c.server.Mode == Primary || h.members == nil {
		h.members = c.lease.record.Members
	}
	if c.server.Mode != Down {
		return Record{}, false
	}
	if h.stopped == 0 {
		h.stopped = now
		c.positions.forget()
	}
	if len(h.members) == 0 || c.server.Deserted {
		return c.released(now), true
	}
	var again Time
	acts.Ask, again = c.positions.ask(now, h.members, c.self.Name)
	acts.Request = agentapi.PositionRequest{Ended: true}
	acts.Wake = min(acts.Wake, again)
	switch {
	case c.inherited(now):
		return c.released(now), true
	case now < h.stopped+c.limits.Handover:
		acts.Wake = min(acts.Wake, h.stopped+c.limits.Handover)
		return Record{}, false
	case h.asked && !h.abrupt && !c.server.hopeless() && !c.ends.any() && !h.released:
		c.handing = nil
		c.answers.State = agentapi.SwitchoverRefused
		c.answers.Message = "the replica did not get the last of the WAL in time, so the primary continues"
		acts.Want = c.leadership()
		return Record{}, false
	}
	return c.released(now), true
}

// heirs are the members that are up and have said so since the server ended. After an orderly end only those count that have
// everything: the others must not take over, now or later.
func (h *handover) heirs(now Time, server Server, heard *positions) []Member {
	end, orderly := server.end()
	return slices.DeleteFunc(slices.Clone(h.members), func(m Member) bool {
		a, fresh := heard.fresh(now, m.Name)
		return !fresh || !able(a) || orderly && !end.reached(a)
	})
}

// inherited says whether it is known who has everything. Those that streamed last have it in the same moment, and are waited
// for a little, as only who is named may take over later.
func (c *Core) inherited(now Time) bool {
	_, orderly := c.server.end()
	heirs := c.handing.heirs(now, c.server, &c.positions)
	if !orderly && !c.handing.abrupt || len(heirs) == 0 || c.handing.to != "" && !c.ends.any() && !has(heirs, c.handing.to) {
		return false
	}
	return now >= c.handing.stopped+c.limits.Listen || !slices.ContainsFunc(c.handing.members, func(m Member) bool {
		return c.replicas.stream(m.Name) && !has(heirs, m.Name)
	})
}

// successor is who of the heirs should take over: the one that was asked for, or who is furthest ahead. After an orderly end all of them
// have everything; of two with the same priority, one comes first that has little of it to replay, as there is no primary meanwhile.
func (h *handover) successor(c *Core, heirs []Member, complete bool) string {
	heard, failover := &c.positions, &c.config.Failover
	if has(heirs, h.to) && !failover.delayed(h.to) {
		return h.to
	}
	willing := slices.DeleteFunc(slices.Clone(heirs), func(m Member) bool { return heard.heard[m.Name].position.Stalled || failover.never(m.Name) })
	slices.SortStableFunc(willing, func(a, b Member) int {
		return cmp.Or(failover.byPriority(a.Name, b.Name), cmp.Compare(c.replicas.unreplayed(a.Name, c.config.MaxLag), c.replicas.unreplayed(b.Name, c.config.MaxLag)), failover.order(a.Name, b.Name))
	})
	if complete && len(willing) > 0 {
		return willing[0].Name
	}
	return heard.furthest(willing)
}

// released is the record of a lease that is given up. After an orderly end it names those as members that have everything, be it
// nobody: then only this instance may return, and who finds out for itself that it lacks nothing. In any other case nothing is
// known but what the members say.
func (c *Core) released(now Time) Record {
	c.handing.released = true
	next := *c.lease.record
	next.Holder, next.HolderUID, next.LastHolder, next.Word = "", "", c.self.Name, 0
	heirs := c.handing.heirs(now, c.server, &c.positions)
	end, orderly := c.server.end()
	next.Successor, next.Complete = c.handing.successor(c, heirs, orderly), false
	switch {
	case orderly:
		next.End, next.Complete = end, true
		if next.Members = heirs; len(heirs) < next.Quorum { // fewer than commits are to wait for
			next.Members, next.Quorum = nil, 0
		}
	case c.ends.any() && next.Quorum == 0: // a member that ends as well has less than this one, and is not to come first later
		next.Members = heirs
	}
	return next
}
