package pgbouncer

import (
	"context"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

// aim has another place asked. Nothing changes for clients until it says that it is the primary.
func (p *Pooler) aim(to place) {
	if to != p.target {
		p.Log.Info("the EndpointSlice names the primary", "pod", to.Pod)
	}
	p.target = to
	p.tell()
}

// tell says to the agent of the primary how far the pause is.
func (p *Pooler) tell() {
	p.poller.tell(func(to *place, request *agentapi.PoolerRequest) {
		*to = p.target
		request.Pooler, request.Pausing, request.Paused = p.Pod, p.mind.handover, ""
		if !p.config.Pausable() || p.config.ReadOnly || p.shutting {
			request.Pooler = ""
		}
		request.TakeBack = p.config.TakeBack
		request.ReadOnly, request.MaxLagBytes = p.config.ReadOnly, p.config.MaxLagBytes
		if p.paused {
			request.Paused = p.mind.handover
		}
	})
}

// hear takes in what came of a question.
func (p *Pooler) hear(ctx context.Context, r report) error {
	if r.place != p.target {
		return nil
	}
	defer p.explain(r)
	now := p.now()
	if r.err == nil && p.doubts(r.place, now) {
		return p.act(ctx, p.mind.lost(now), nil)
	}
	if r.err == nil {
		defer p.tell()
		return p.act(ctx, p.mind.heard(r.answer, now), p.meant(r))
	}
	if len(p.servers) > 0 && !p.mind.held {
		p.Log.Warn("the agent of the primary does not respond", "pod", r.place.Pod, "error", r.err)
	}
	return p.act(ctx, p.mind.lost(now), nil)
}

// explain logs, once for each reason, why clients still wait after a question.
func (p *Pooler) explain(r report) {
	reason := ""
	switch {
	case !p.mind.held || p.mind.handover != "" && r.err == nil && r.answer.Handover == p.mind.handover:
	case r.err != nil:
		reason = "its agent does not respond" // the error may have another port each time
	case !r.answer.Serving:
		reason = "it is not the primary, or not yet"
	default:
		reason = "it has just ended a session, or a later primary is known"
	}
	if reason != "" && reason != p.waitsFor {
		p.Log.Info("clients still wait", "pod", r.place.Pod, "reason", reason, "term", r.answer.Term, "error", r.err)
	}
	p.waitsFor = reason
}

// feel takes in that the server which clients are sent to accepts sessions, or not yet, or has just ended one. After news, its agent is asked anew.
func (p *Pooler) feel(ctx context.Context, s sign) error {
	now := p.now()
	switch doubted := !p.doubted.IsZero(); {
	case len(p.servers) == 0 || s.place != p.servers[0]:
	case s.state == starting && doubted: // it recovers from a crash, while its agent may take it for what it was
		p.doubted = now
	case s.state == alive && doubted:
		p.doubted = time.Time{}
		p.poller.again()
	case s.state == ended && !doubted && p.mind.handover == "": // it was not announced
		p.doubted = now
		p.poller.again()
		p.Log.Warn("the server has ended a session", "pod", s.place.Pod)
		return p.act(ctx, p.mind.lost(now), nil)
	}
	return nil
}

// doubts says that a server is not known to accept sessions, whatever its agent says. It doesn't for long: the agent knows more.
func (p *Pooler) doubts(of place, now time.Time) bool {
	return len(p.servers) > 0 && of == p.servers[0] && !p.doubted.IsZero() && now.Sub(p.doubted) < doubt
}

// meant are the servers that an answer says are for the clients of this pooler.
func (p *Pooler) meant(r report) []place {
	if !p.config.ReadOnly {
		return []place{r.place}
	}
	var all []place
	for _, replica := range r.answer.Replicas {
		all = append(all, place{Pod: replica.Pod, Address: replica.Address, Port: r.place.Port})
	}
	return all
}
