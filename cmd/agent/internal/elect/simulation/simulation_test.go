package simulation

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/elect"
)

var (
	seeds = flag.Int("seeds", 40, "how many worlds of each kind are run")
	first = flag.Uint64("seed", 1, "seed of the first one")
	whole = flag.Bool("trace", false, "show all that happens in a world that goes wrong, and not only its end")
)

// kind of a world.
type kind struct {
	number   int  // of synchronous replicas
	required bool // or preferred
	pause    time.Duration
	calm     bool // nothing that happens is a reason for another primary
}

func (k kind) sync() bool { return k.number > 0 }

func newWorld(seed uint64, trace bool) *world {
	w := &world{seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), limits: elect.DefaultLimits()}
	if trace {
		w.lines = []string{}
	}
	w.store = newStore(w)
	w.net = network{cut: map[[2]string]int{}, slow: map[string]time.Duration{}}
	w.kind.pause = time.Duration(float64(400*millisecond) / math.Pow(30, w.rng.Float64()))
	return w
}

// populate the world with instances; the first one has the data.
func (w *world) populate(instances int) {
	var peers []string
	for i := range instances {
		name := string(rune('a' + i))
		peers = append(peers, name)
		clock := clock{offset: w.between(second, 1000*second), ppm: w.rng.Int64N(20_001) - 10_000}
		w.nodes = append(w.nodes, &node{w: w, name: name, clock: clock})
	}
	w.nodes[0].volume.wal = []entry{{1, 0}}
	w.config = elect.Config{Peers: peers, Number: w.kind.number, Required: w.kind.required, MaxLag: 20}
	for _, n := range w.nodes {
		w.after(w.between(0, 2*second), n.startPod)
		w.client(n)
	}
}

// primary that accepts writes, and holds the lease.
func (w *world) primary() *server {
	for _, n := range w.nodes {
		if a := n.agent; a != nil && a.server != nil && a.server.accepts() && a.core.Holds() {
			return a.server
		}
	}
	return nil
}

// full says whether all there are follow the primary, and may take over from it.
func (w *world) full() bool {
	p := w.primary()
	if p == nil || len(p.links) < len(w.nodes)-1 {
		return false
	}
	r := w.store.record
	return len(r.Members) == len(w.nodes)-1 && r.Quorum == min(w.kind.number, len(w.nodes)-1) &&
		!slices.ContainsFunc(p.links, func(l *link) bool { return l.flushed+20 < len(p.node.volume.wal) })
}

// await something for so long.
func (w *world) await(what string, limit time.Duration, done func() bool) {
	for end := w.now + limit; w.err == nil; {
		if w.run(w.now + second/2); done() {
			return
		}
		if w.now >= end {
			w.fail("%s is not there after %s", what, limit)
		}
	}
}

// awaitOrder is what must come about once all faults have ended.
func (w *world) awaitOrder() {
	before := w.ledger.total
	w.await("a primary that takes commits", 60*second, func() bool { return w.primary() != nil && w.ledger.total > before })
	w.await("full strength", 60*second, w.full)
	if p := w.primary(); w.err == nil {
		w.complete(p)
	}
}

// try runs worlds, and shows the first that goes wrong.
func try(t *testing.T, run func(w *world)) {
	t.Helper()
	total, steps := 0, 0
	for seed := *first; seed < *first+uint64(*seeds); seed++ {
		w := newWorld(seed, false)
		run(w)
		if total, steps = total+w.ledger.total, steps+w.steps; w.err == nil {
			continue
		}
		again := newWorld(seed, true)
		run(again)
		from := max(0, len(again.lines)-150)
		if *whole {
			from = 0
		}
		for _, line := range again.lines[from:] {
			fmt.Println(line)
		}
		t.Fatalf("seed %d: %v", seed, w.err)
	}
	t.Logf("%d commits, %d steps", total, steps)
}

func TestWhateverHappensNothingIsLostAndNobodyElseWrites(t *testing.T) {
	try(t, func(w *world) {
		instances := 2 + w.rng.IntN(4)
		w.kind.number, w.kind.required = w.rng.IntN(instances), w.chance(0.6)
		w.populate(instances)
		w.await("full strength", 60*second, w.full)
		w.faults = faults{until: w.now + w.between(20*second, 120*second), actions: some(w)}
		if w.chance(0.6) {
			w.faults.tricky = w.rng.Float64()
		}
		w.every(w.between(second/2, 6*second), w.strike)
		w.run(w.faults.until)
		w.heal()
		w.awaitOrder()
	})
}
