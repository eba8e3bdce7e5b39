package simulation

import (
	"fmt"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/pkg/agentapi"
)

// faults that happen, until they end.
type faults struct {
	until   time.Duration
	tricky  float64 // chance that something goes wrong at a moment that matters
	actions []func(w *world, n *node, d time.Duration)
}

func (w *world) tricky() bool { return w.now < w.faults.until && w.chance(w.faults.tricky) }

// meddle with a write of the Lease that is more than a renewal.
func (f *faults) meddle(a *agent, there, back time.Duration) (time.Duration, time.Duration) {
	w, n := a.node.w, a.node
	if !w.tricky() {
		return there, back
	}
	d := min(w.between(2*second, 25*second), f.until-w.now)
	switch w.rng.IntN(6) {
	case 0:
		w.log("%s: a write will come late", n.name)
		return w.between(patience, 10*second), back
	case 1:
		w.log("%s: the answer to a write will be lost", n.name)
		w.after(there+back/2, func() { isolate(w, n, d) })
	case 2:
		w.after(there+w.between(0, 1500*millisecond), func() { n.crash(d) })
	case 3:
		w.after(w.between(0, there), func() { halt(w, n, d) })
	case 4:
		w.after(w.between(there, patience), func() { isolate(w, n, d) })
		return there, patience - there - 10*millisecond
	case 5:
		w.after(there+w.between(0, 3*second), func() { fall(w, n, d) })
	}
	return there, back
}

func (w *world) strike() bool {
	if w.now >= w.faults.until {
		return false
	}
	n := w.nodes[w.rng.IntN(len(w.nodes))]
	if holder := w.node(w.store.record.Holder); holder != nil && w.chance(0.4) {
		n = holder
	}
	d := min(w.between(second/10, 5*second), w.faults.until-w.now)
	if w.chance(0.4) {
		d = min(w.between(second, 25*second), w.faults.until-w.now)
	}
	w.faults.actions[w.rng.IntN(len(w.faults.actions))](w, n, d)
	return true
}

func everything() []func(*world, *node, time.Duration) {
	return []func(*world, *node, time.Duration){
		func(w *world, n *node, d time.Duration) { n.crash(d) },
		func(w *world, n *node, d time.Duration) { n.lose(d) },
		func(w *world, n *node, d time.Duration) { n.delete(d / 4) },
		func(w *world, n *node, d time.Duration) { n.freeze(d) },
		halt, halt, fall, fall, breakDown,
		isolate, isolate, isolate, oneWay,
		away, away, flap, unreachable, unreachable, slowAPI, lateAPI, staleAPI,
		slowWAL, slowWAL, lossy, switchover, switchover, reconfigure, hasten, reword, prefer, prefer, silence, hang, hang,
	}
}

func halt(_ *world, n *node, d time.Duration) {
	if n.agent != nil && !n.isFrozen() && n.w.now < n.w.faults.until {
		n.agent.halt(d)
	}
}

func fall(_ *world, n *node, _ time.Duration) {
	if n.agent != nil && !n.isFrozen() {
		n.agent.fall()
	}
}

func breakDown(w *world, n *node, d time.Duration) {
	n.broken = w.now + d
	fall(w, n, d)
}

// silence has a server not say who follows it, though it accepts commits.
func silence(w *world, n *node, d time.Duration) {
	w.log("%s: PostgreSQL doesn't say who follows for %s", n.name, d)
	n.silent = w.now + d
}

func hang(_ *world, n *node, d time.Duration) { n.hang(2 * d) }

// isolate a machine from some others, or from all, and perhaps from the API server.
func isolate(w *world, n *node, d time.Duration) {
	if w.now >= w.faults.until {
		return
	}
	text := n.name + " is cut off from"
	all := w.chance(0.5)
	for _, other := range w.nodes {
		if other != n && (all || w.chance(0.5)) {
			text += " " + other.name
			w.disconnect(n.name, other.name, true, d)
		}
	}
	if w.chance(0.5) {
		text += " API"
		w.disconnect(n.name, "", true, d)
	}
	w.log("%s for %s", text, d)
}

func oneWay(w *world, n *node, d time.Duration) {
	other := w.nodes[w.rng.IntN(len(w.nodes))]
	w.log("nothing gets from %s to %s for %s", n.name, other.name, d)
	if other != n {
		w.disconnect(n.name, other.name, false, d)
	}
}

func away(w *world, _ *node, d time.Duration) {
	w.log("the API server is away for %s", d)
	w.store.away = max(w.store.away, w.now+d)
}

func flap(w *world, n *node, d time.Duration) {
	w.log("the API server flaps for %s", d)
	end := w.now + d
	w.every(second, func() bool {
		away(w, n, min(w.between(second/2, 3*second), max(0, end-w.now)))
		return w.now < end
	})
}

func unreachable(w *world, n *node, d time.Duration) {
	w.log("%s can't reach the API server for %s", n.name, d)
	w.disconnect(n.name, "", true, d)
}

func slowAPI(w *world, _ *node, d time.Duration) {
	w.store.slow = w.between(second/10, 4*second)
	w.log("the API server takes %s for %s", w.store.slow, d)
	w.after(d, func() { w.store.slow = 20 * millisecond })
}

func lateAPI(w *world, _ *node, d time.Duration) {
	w.log("requests lie about for %s", d)
	w.store.late = w.rng.Float64()
	w.after(d, func() { w.store.late = 0 })
}

func staleAPI(w *world, _ *node, d time.Duration) {
	w.store.stale = w.rng.Float64()
	w.after(d, func() { w.store.stale = 0 })
}

func slowWAL(w *world, n *node, d time.Duration) {
	w.net.slow[n.name] = w.between(0, 2*second)
	if w.chance(0.4) {
		w.net.slow[n.name] = w.between(0, 15*second)
	}
	w.log("WAL to %s takes %s for %s", n.name, w.net.slow[n.name], d)
	w.after(d, func() { w.net.slow[n.name] = 0 })
}

// lag has all replicas be behind until the faults end, each by another time.
func (w *world) lag() {
	for _, n := range w.nodes {
		w.net.slow[n.name] = w.between(0, 6*second)
	}
}

func lossy(w *world, _ *node, d time.Duration) {
	w.net.loss = w.rng.Float64()
	w.log("messages are lost and repeated for %s", d)
	w.after(d, func() { w.net.loss = 0 })
}

func switchover(w *world, n *node, _ time.Duration) {
	to := n.name
	if w.chance(0.3) {
		to = ""
	}
	w.switchover(to)
}

// reconfigure asks for another number of synchronous replicas.
func reconfigure(w *world, _ *node, _ time.Duration) {
	instances := len(w.config.Peers)
	if w.kind.number = w.rng.IntN(instances); w.kind.quorum && instances > 1 {
		w.kind.number = 1 + w.rng.IntN(instances-1)
	}
	w.kind.required = w.chance(0.6)
	w.log("synchronous replicas: %d, required: %v", w.kind.number, w.kind.required)
	w.configure(instances)
}

// hasten asks for other limits.
func hasten(w *world, _ *node, _ time.Duration) {
	w.kind.profile = profiles[w.rng.IntN(len(profiles))]
	w.log("profile: %s", w.kind.profile)
	w.configure(len(w.config.Peers))
}

// switchover asks whoever holds the lease.
func (w *world) switchover(to string) {
	holder := w.node(w.store.record.Holder)
	if holder == nil || holder.agent == nil {
		return
	}
	w.count++
	request := agentapi.SwitchoverRequest{Token: fmt.Sprint(w.count), To: to}
	a := holder.agent
	a.tell(func() {
		answer := a.core.Switchover(request)
		w.log("%s: switchover to %q: %s %s", a.node.name, to, answer.State, answer.Message)
	})
}

// some of the faults: worlds differ in what goes wrong, as one fault may hide another.
func some(w *world) (chosen []func(*world, *node, time.Duration)) {
	all := everything()
	for _, action := range all {
		if w.chance(0.5) {
			chosen = append(chosen, action)
		}
	}
	return append(chosen, all[w.rng.IntN(len(all))])
}

// heal ends all faults.
func (w *world) heal() {
	w.log("all faults end")
	w.reconnect()
	w.store.away, w.store.slow, w.store.late, w.store.stale = 0, 20*millisecond, 0, 0
	w.kind.failover, w.kind.paused = elect.Failover{}, 0
	w.configure(len(w.config.Peers))
	for _, n := range w.nodes {
		n.broken, n.silent = 0, 0
		n.answers()
	}
}
