package simulation

import (
	"fmt"

	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/pkg/agentapi"
)

// where the own server is.
func (a *agent) where() agentapi.Position {
	p := agentapi.Position{
		Pod: a.node.name, Generation: "g", Timeline: a.node.volume.timeline(), LSN: uint64(len(a.node.volume.wal)),
		Promised: a.core.Promised(a.local()), Stalled: a.node.stalled(),
	}
	if r := a.core.Record(); r != nil {
		p.Term = r.Term
	}
	if s := a.server; s != nil {
		p.Replica = s.mode == elect.Replica
		if a.node.w.now < s.unsettled { // it has not read all of its WAL yet
			p.Timeline, p.LSN = 0, 0
		}
		p.Streaming = s.upstream != nil && a.want.Role == elect.Follow && a.want.Leader.Name == s.upstream.primary.node.name
	}
	return p
}

// tellLeader is what a replica does each second.
func (a *agent) tellLeader() {
	leader := a.want.Leader.Name
	if leader == "" || a.want.Role != elect.Follow {
		return
	}
	address := a.node.address()
	stalled := a.node.stalled()
	a.ask(leader, func(b *agent) func() {
		b.known[a.node.name] = follower{address, b.local(), stalled}
		return func() {}
	})
}

// suspect looks at the pod of a primary that is silent: Kubernetes may know that its container has ended.
func (a *agent) suspect() {
	r, s := a.core.Record(), a.server
	if r == nil || r.Holder == "" || a.want.Role != elect.Follow || s == nil || s.mode != elect.Replica || s.upstream != nil {
		return
	}
	known := status{}
	n, store := a.node.w.node(r.Holder), a.node.w.store
	store.request(a, store.latency(), store.latency(), func() { known = n.status }, func(ok bool) {
		if ok && fmt.Sprintf("%s-%d", n.name, known.pod) == r.HolderUID && fmt.Sprint(known.ended) == r.Started {
			a.node.w.log("%s: the container of %s is known to have ended", a.node.name, n.name)
			a.core.HolderEnded(a.local(), r.Term)
			a.soon()
		}
	})
}
