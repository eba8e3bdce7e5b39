package simulation

import (
	"slices"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/elect"
)

// prefer changes what people say about who takes over, and when.
func prefer(w *world, n *node, d time.Duration) {
	failover := elect.Failover{Priorities: map[string]int{}}
	for _, other := range w.nodes {
		if w.chance(0.5) {
			failover.Priorities[other.name] = w.rng.IntN(100)
		}
	}
	if w.chance(0.4) {
		failover.Never = []string{w.nodes[w.rng.IntN(len(w.nodes))].name}
	}
	if w.chance(0.3) && len(w.nodes) > 2 {
		failover.Delayed = []string{w.nodes[w.rng.IntN(len(w.nodes))].name}
	}
	if w.chance(0.3) {
		failover.Fenced = []string{n.name}
	}
	if w.chance(0.4) {
		failover.Isolation = w.between(10*second, 40*second)
	}
	w.kind.failover, w.kind.paused = failover, 0
	if w.chance(0.3) {
		w.kind.paused = w.now + 2*d
	}
	w.log("never %v, delayed %v, fenced %v, paused for %s", failover.Never, failover.Delayed, failover.Fenced, w.kind.paused)
	w.configure(len(w.config.Peers))
}

// asWanted checks a write of the Lease by what the agent knew of what people had asked for.
func (a *agent) asWanted(next elect.Record) {
	w, name, f, known := a.node.w, a.node.name, &a.config.Failover, a.core.Record()
	if next.Holder != name || a.core.Holds() || known == nil || known.LastHolder == name || known.Term == 0 {
		return
	}
	switch {
	case slices.Contains(f.Fenced, name):
		w.fail("%s takes the lease, and is fenced", name)
	case slices.Contains(f.Delayed, name):
		w.fail("%s takes the lease, and is a delayed replica", name)
	case slices.Contains(f.Never, name) && known.Successor != name:
		w.fail("%s takes the lease, and is never to do so", name)
	case known.Holder != "" && a.local() < f.Paused:
		w.fail("%s takes the lease from %s during a pause", name, known.Holder)
	}
}
