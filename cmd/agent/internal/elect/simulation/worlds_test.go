package simulation

import (
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

func TestWhateverHappensNothingIsLostAndNobodyElseWrites(t *testing.T) {
	try(t, *seeds, func(w *world) {
		instances := 2 + w.rng.IntN(4)
		w.kind.number, w.kind.required = w.rng.IntN(instances), w.chance(0.6)
		w.kind.quorum = w.kind.number > 0 && w.chance(0.8)
		w.populate(instances, instances)
		w.await("full strength", 60*second, w.full)
		w.suffer(w.between(20*second, 120*second))
		w.run(w.faults.until)
		w.awaitOrder()
	})
}

// suffer faults of some kinds for so long.
func (w *world) suffer(d time.Duration) {
	w.faults = faults{until: w.now + d, actions: some(w)}
	if w.chance(0.6) {
		w.faults.tricky = w.rng.Float64()
	}
	if w.chance(0.3) {
		w.lag()
	}
	w.every(w.between(second/2, 6*second), w.strike)
	w.after(d, w.heal)
}

func TestASlowAPIServerIsNoReasonForAnotherPrimary(t *testing.T) {
	try(t, max(1, *seeds/2), func(w *world) {
		w.settle()
		w.kind.calm = true
		w.store.slow = w.between(second/10, patience-50*millisecond)
		w.uninterrupted(w.between(20*second, 90*second))
	})
}

func TestThePrimaryGoesOnWithoutTheAPIServerWhileAllMembersAnswer(t *testing.T) {
	try(t, max(1, *seeds/2), func(w *world) {
		w.settle()
		w.kind.calm = true
		for range 1 + w.rng.IntN(3) {
			if d := w.between(second, 90*second); w.chance(0.5) {
				away(w, nil, d)
				w.uninterrupted(d + w.between(0, 5*second))
			} else {
				flap(w, nil, d)
				w.uninterrupted(d + w.between(0, 5*second))
			}
		}
		w.uninterrupted(15 * second)
	})
}

// settle makes a cluster of some size that is at full strength.
func (w *world) settle() {
	instances := 2 + w.rng.IntN(4)
	w.kind.number, w.kind.required = w.rng.IntN(instances), w.chance(0.6)
	w.kind.quorum = w.kind.number > 0
	w.populate(instances, instances)
	w.await("full strength", 60*second, w.full)
}

// uninterrupted: for so long the primary never stops.
func (w *world) uninterrupted(d time.Duration) {
	p := w.primary()
	for end := w.now + d; w.now < end && w.err == nil; {
		if w.run(w.now + 50*millisecond); !p.accepts() {
			w.fail("the previous primary does not accept writes any more")
		}
	}
}

func TestNothingAcknowledgedIsLostWhereTheClockOfAPrimaryStoodStill(t *testing.T) {
	try(t, *seeds, func(w *world) {
		instances := 3 + w.rng.IntN(3)
		w.kind.number, w.kind.required, w.kind.quorum, w.kind.pauses = 1+w.rng.IntN(instances-2), true, true, true
		w.kind.pause = 20 * millisecond
		w.populate(instances, instances)
		for range 5 {
			w.await("full strength", 60*second, w.full)
			if w.chance(0.5) {
				w.lag()
			}
			if p := w.primary(); w.err == nil {
				p.node.pause(w.between(6*second, 13*second))
			}
			w.run(w.now + w.between(10*second, 20*second))
			w.reconnect()
		}
		w.awaitOrder()
	})
}

func TestAnOrderlySwitchLosesNothingWithoutAQuorumEither(t *testing.T) {
	try(t, max(1, *seeds/2), func(w *world) {
		w.kind.orderly = true
		w.settle()
		for range 6 {
			w.run(w.now + w.between(0, 10*second))
			w.await("full strength", 30*second, w.full)
			w.orderly()
		}
		w.awaitOrder()
	})
}

// orderly asks for another primary, in one way or the other. It has to be there soon.
func (w *world) orderly() {
	before := w.primary()
	if w.err != nil {
		return
	}
	ask := func() { before.node.delete(w.between(0, 10*second)) }
	if w.chance(0.5) {
		to := w.nodes[w.rng.IntN(len(w.nodes))]
		if to == before.node {
			return
		}
		ask = func() { w.switchover(to.name) }
	}
	ask()
	w.await("another primary", 15*second, func() bool {
		p := w.primary()
		if a := before.agent; !a.dead && a.core.SwitchoverStatus().State == agentapi.SwitchoverRefused {
			ask() // the replica lagged too far behind for a moment
		}
		return p != nil && p != before
	})
}

func TestAClusterGrowsFromOneInstanceAndShrinksToOne(t *testing.T) {
	try(t, *seeds, func(w *world) {
		instances := 2 + w.rng.IntN(3)
		w.kind.number, w.kind.required = w.rng.IntN(instances), w.chance(0.6)
		w.populate(instances, 1)
		w.await("a primary", 20*second, func() bool { return w.primary() != nil })
		if w.chance(0.7) {
			w.suffer(w.between(20*second, 90*second))
		}
		for range 3 {
			w.run(w.now + w.between(0, 10*second))
			w.scale(instances)
			w.run(w.now + w.between(0, 30*second))
			w.scale(1)
		}
		w.run(max(w.now, w.faults.until))
		w.scale(1 + w.rng.IntN(instances))
		w.awaitOrder()
	})
}

// scale does what the db-controller does, as long as that takes.
func (w *world) scale(instances int) {
	w.log("scale to %d", instances)
	for w.err == nil && instances < len(w.config.Peers) && !w.shrink(instances) {
		w.log("the last primary is not among those that stay")
		w.start(len(w.config.Peers))
	}
	alone, first := len(w.config.Peers) == 1, w.nodes[0]
	if alone {
		w.await("an agent that knows that it is alone", 200*second, func() bool { return first.agent != nil && first.config.Alone })
	}
	w.configure(instances)
	if alone && instances > 1 {
		w.await("an agent that says it has the lease", 200*second, func() bool {
			a := first.agent
			return a != nil && a.core.Holds() && !a.core.Alone()
		})
	}
	w.start(instances)
}

// start the pods of this many instances.
func (w *world) start(instances int) {
	for _, n := range w.nodes[:instances] {
		if n.gone = false; n.agent == nil {
			w.after(w.between(0, 2*second), n.startPod)
		}
	}
}

// shrink takes instances away. It says no if the last primary was among them.
func (w *world) shrink(instances int) bool {
	w.await("a primary that stays", 200*second, func() bool { return w.stays(instances) })
	for _, n := range w.nodes[instances:] {
		w.remove(n)
	}
	if w.store.record.LastHolder >= w.nodes[instances].name {
		return false
	}
	for _, n := range w.nodes[instances:] {
		if w.chance(0.5) {
			n.volume = volume{}
		}
	}
	return true
}

// stays says whether the primary is one of the first this many instances, and sees to it.
func (w *world) stays(instances int) bool {
	for _, n := range w.nodes[:instances] {
		if w.store.record.Holder == n.name && w.primary() != nil {
			return true
		}
	}
	w.switchover(w.nodes[w.rng.IntN(instances)].name)
	return false
}

// remove an instance.
func (w *world) remove(n *node) {
	n.gone = true
	n.delete(0)
	w.await("the end of a pod", 60*second, func() bool { return n.agent == nil })
}
