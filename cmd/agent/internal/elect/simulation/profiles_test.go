package simulation

import "testing"

// Other limits reach the agents one by one. Meanwhile the primary is cut off, so that somebody else takes the lease as soon as that may be.
func TestAChangeOfTheLimitsNeverLetsTwoWrite(t *testing.T) {
	try(t, *seeds, func(w *world) {
		w.settle()
		for range 4 {
			hasten(w, nil, 0)
			w.run(w.now + w.between(0, 8*second))
			if holder := w.node(w.store.record.Holder); holder != nil {
				d := w.between(8*second, 40*second)
				w.log("%s is cut off from all for %s", holder.name, d)
				w.disconnect(holder.name, "", true, d)
				for _, other := range w.nodes {
					if other != holder {
						w.disconnect(holder.name, other.name, true, d)
					}
				}
				w.run(w.now + d)
			}
			w.reconnect()
			w.await("full strength", 120*second, w.full)
		}
		w.awaitOrder()
	})
}
