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
	"howdah.dev/howdah/pkg/agentapi"
)

var (
	seeds = flag.Int("seeds", 40, "how many worlds with faults of all kinds are run; half as many of those without")
	first = flag.Uint64("seed", 1, "seed of the first one")
	whole = flag.Bool("trace", false, "show all that happens in a world that goes wrong, and not only its end")
)

// kind of a world.
type kind struct {
	number   int  // of synchronous replicas
	required bool // or preferred
	pause    time.Duration
	quorum   bool // there is one all the time
	calm     bool // nothing that happens is a reason for another primary
	pauses   bool // clocks stand still, so a former primary may not know that it is one
	profile  string
	failover elect.Failover
	paused   time.Duration // until when, by the true time
	byWord   bool          // the word of members is to be enough to keep the lease
	orderly  bool          // nothing that happens is a reason to lose a commit, with or without quorum
}

func newWorld(seed uint64, trace bool) *world {
	w := &world{seed: seed, rng: rand.New(rand.NewPCG(seed, 1))}
	if trace {
		w.lines = []string{}
	}
	w.store = newStore(w)
	w.net = network{cut: map[[2]string]int{}, slow: map[string]time.Duration{}}
	w.kind.byWord = seed%2 == 0
	w.kind.profile = profiles[w.rng.IntN(len(profiles))]
	w.kind.pause = time.Duration(float64(400*millisecond) / math.Pow(30, w.rng.Float64()))
	return w
}

// patient are limits of another version of the agent, twice as long.
func patient(l elect.Limits) elect.Limits {
	for _, limit := range []*time.Duration{&l.Renew, &l.Failsafe, &l.Fence, &l.Expire} {
		*limit *= 2
	}
	l.Kill = l.Fence + elect.Margin
	return l
}

// profiles of limits. The second one stays the most frequent.
var profiles = []string{agentapi.ProfileFast, agentapi.ProfileDefault, agentapi.ProfileDefault, agentapi.ProfilePatient}

// limits of an instance, whose agent may be of another version.
func (w *world) limits(instance int) elect.Limits {
	limits := elect.LimitsOf(w.kind.profile)
	if w.seed%4 == 3 && instance == 0 {
		return patient(limits)
	}
	return limits
}

// populate the world with instances; the first one has the data.
func (w *world) populate(instances, running int) {
	for i := range instances {
		clock := clock{offset: w.between(second, 1000*second), ppm: w.rng.Int64N(20_001) - 10_000}
		w.nodes = append(w.nodes, &node{w: w, name: string(rune('a' + i)), clock: clock, gone: i >= running})
	}
	w.nodes[0].volume.wal = []entry{{1, 0}}
	w.configure(running)
	for i, n := range w.nodes {
		n.config = w.config
		n.config.Limits, n.config.Failover.Paused = w.limits(i), 0
		w.client(n)
		w.after(w.between(0, 2*second), n.startPod)
	}
}

// configure the cluster for this many instances. The agents learn that by and by.
func (w *world) configure(instances int) {
	w.config = elect.Config{Alone: instances == 1, Number: w.kind.number, Required: w.kind.required, MaxLag: 20, Failover: w.kind.failover, ByWord: w.kind.byWord}
	for _, n := range w.nodes[:instances] {
		w.config.Peers = append(w.config.Peers, n.name)
	}
	for i, n := range w.nodes {
		config := w.config
		config.Limits, config.Failover.Paused = w.limits(i), n.clock.shows(w.kind.paused)
		n.configs++
		version := n.configs
		w.after(w.between(0, 5*second), func() {
			if version < n.seen {
				return
			}
			n.config, n.seen = config, version
			if a := n.agent; a != nil {
				a.tell(func() {
					a.config = n.config
					a.core.Configure(n.config)
				})
			}
		})
	}
}

// primary that accepts writes, and is the one by the lease or because it is alone.
func (w *world) primary() *server {
	for _, n := range w.nodes {
		if a := n.agent; a != nil && a.server != nil && a.server.accepts() && (a.core.Holds() || n.config.Alone) {
			return a.server
		}
	}
	return nil
}

// full says whether all there are follow the primary, and may take over from it.
func (w *world) full() bool {
	p, replicas := w.primary(), len(w.config.Peers)-1
	if p == nil || len(p.links) < replicas {
		return false
	}
	r := w.store.record
	return len(r.Members) == replicas && r.Quorum == min(w.kind.number, replicas) &&
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
	w.await("a primary that takes commits", 90*second, func() bool { return w.primary() != nil && w.ledger.total > before })
	w.await("full strength", 60*second, w.full)
	if p := w.primary(); w.err == nil {
		w.complete(p)
	}
}

// try runs worlds, and shows the first that goes wrong.
func try(t *testing.T, worlds int, run func(w *world)) {
	t.Helper()
	total, steps := 0, 0
	for seed := *first; seed < *first+uint64(worlds); seed++ {
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
