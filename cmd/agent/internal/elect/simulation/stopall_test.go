package simulation

import "testing"

func TestAnOrderlyStopOfAllLosesNothingUnderAnyReplication(t *testing.T) {
	try(t, *seeds, func(w *world) {
		w.kind.orderly = true
		w.settle()
		for range 5 {
			if w.chance(0.6) {
				w.dawdle()
			}
			w.run(w.now + w.between(0, 8*second))
			if w.chance(0.3) {
				w.switchover(w.nodes[w.rng.IntN(len(w.nodes))].name)
			}
			w.stopAll()
			w.startAll()
			if w.chance(0.6) { // else they may be stopped again before there is a primary
				w.await("a primary", 60*second, func() bool { return w.primary() != nil })
			}
		}
		w.reconnect()
		w.awaitOrder()
	})
}

// dawdle has some replicas be a little behind.
func (w *world) dawdle() {
	for _, n := range w.nodes {
		if w.net.slow[n.name] = 0; w.chance(0.5) {
			w.net.slow[n.name] = w.between(0, 2*second)
		}
	}
}

// stopAll deletes all pods, and nobody makes others.
func (w *world) stopAll() {
	w.log("all pods are deleted")
	spread := w.between(0, 3*second)
	for _, n := range w.nodes {
		n.gone = true
		w.after(w.between(0, spread), func() { n.delete(0) })
	}
	w.await("the end of all pods", 60*second, func() bool {
		for _, n := range w.nodes {
			if n.agent != nil {
				n.delete(0)
				return false
			}
		}
		return true
	})
}

// startAll starts them, in any order.
func (w *world) startAll() {
	spread := w.between(0, 10*second)
	for _, n := range w.nodes {
		n.gone = false
		w.after(w.between(0, spread), n.startPod)
	}
}
