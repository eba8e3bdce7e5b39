package elect

import (
	"fmt"
	"slices"

	"howdah.dev/howdah/pkg/agentapi"
)

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
	case to == "" && !slices.ContainsFunc(c.record.Members, func(m Member) bool { return c.streams(m.Name) }):
		return "no replica follows closely enough to take over"
	case to != "" && !slices.Contains(c.config.Peers, to):
		return fmt.Sprintf("%s is no instance of this cluster: write one of %v", to, c.config.Peers)
	case to != "" && (!has(c.record.Members, to) || !c.streams(to)):
		return fmt.Sprintf("%s doesn't follow closely enough to take over", to)
	}
	return ""
}

func (c *Core) streams(name string) bool {
	w := c.members[name]
	return w != nil && w.Streaming
}

// SwitchoverStatus is how the last switchover went.
func (c *Core) SwitchoverStatus() agentapi.SwitchoverStatus { return c.answers }

// settleSwitchover notes the end of a switchover whose lease was given up.
func (c *Core) settleSwitchover() {
	if c.answers.State != agentapi.SwitchoverRunning || c.handing != nil || c.record == nil {
		return
	}
	switch holder := c.record.Holder; holder {
	case "":
	case c.self.Name:
		c.answers.State, c.answers.Message = agentapi.SwitchoverRefused, "nobody has taken over in time, so the primary of before goes on"
	default:
		c.answers.State, c.answers.Message = agentapi.SwitchoverDone, holder+" has taken over"
	}
}

// handOver stops the server in order and gives the lease up, to who has everything.
func (c *Core) handOver(now Time, acts *Acts) (Record, bool) {
	h := c.handing
	acts.Want = Want{Role: Stop, Orderly: true, Term: c.record.Term, Until: c.until()}
	if c.server.Mode != Down {
		return Record{}, false
	}
	if h.stopped == 0 {
		h.stopped, c.asking = now, 0
	}
	if len(c.record.Members) == 0 || c.server.Deserted {
		return c.released("", false), true
	}
	c.ask(now, acts, c.record.Members)
	best, complete := c.successor(now)
	switch {
	case complete:
		return c.released(best, true), true
	case now < h.stopped+c.limits.Handover:
		acts.Wake = min(acts.Wake, h.stopped+c.limits.Handover)
		return Record{}, false
	case h.asked && !c.hopeless() && !c.leaving && !h.released:
		c.handing = nil
		c.answers.State = agentapi.SwitchoverRefused
		c.answers.Message = "the replica did not get the last of the WAL in time, so the primary goes on"
		acts.Want = c.leadership()
		return Record{}, false
	}
	return c.released(best, false), true
}

// successor is who should take over by what they have answered, and whether it has everything.
func (c *Core) successor(now Time) (best string, complete bool) {
	var top agentapi.Position
	for _, m := range c.record.Members {
		a, fresh := c.fresh(now, m.Name)
		if !fresh || !able(a) || c.handing.to != "" && c.handing.to != m.Name {
			continue
		}
		if best == "" || ahead(a, top) > 0 {
			best, top = m.Name, a
		}
	}
	end := c.server.End
	return best, best != "" && end > 0 && top.Timeline == c.server.Position.Timeline && top.LSN > end
}

func (c *Core) released(successor string, complete bool) Record {
	c.handing.released = true
	next := *c.record
	next.Holder, next.HolderUID, next.LastHolder = "", "", c.self.Name
	next.Successor, next.Complete = successor, complete
	return next
}
