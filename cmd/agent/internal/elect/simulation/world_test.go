// Package simulation runs the core of the election in a made-up world: clocks that drift, agents and machines that freeze, an
// API server that loses, delays and repeats, a network that breaks, and a small model of PostgreSQL. A world is made from
// a seed, and one seed is always the same world.
package simulation

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/elect"
)

const (
	millisecond = time.Millisecond
	second      = time.Second
)

// world is one run. Its time is the true one, which nobody in it knows.
type world struct {
	seed   uint64
	rng    *rand.Rand
	now    time.Duration
	queue  events
	count  int // of events so far, which orders those of one moment
	kind   kind
	config elect.Config // that the cluster asks for
	lines  []string     // of what happened; nil: nobody wants to know
	err    error

	nodes  []*node
	store  *store
	net    network
	ledger ledger
	faults faults

	steps int
}

type event struct {
	at    time.Duration
	order int
	do    func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// after some time something is done.
func (w *world) after(d time.Duration, do func()) {
	w.count++
	heap.Push(&w.queue, event{w.now + max(0, d), w.count, do})
}

// every so often something is done, with some irregularity, until it says no.
func (w *world) every(d time.Duration, do func() bool) {
	w.after(w.between(d/2, d*3/2), func() {
		if do() {
			w.every(d, do)
		}
	})
}

// run until a time, or until something is wrong.
func (w *world) run(until time.Duration) {
	for len(w.queue) > 0 && w.err == nil && w.queue[0].at <= until {
		next := heap.Pop(&w.queue).(event)
		w.now = next.at
		next.do()
	}
	w.now = max(w.now, until)
}

func (w *world) between(a, b time.Duration) time.Duration {
	if b <= a {
		return a
	}
	return a + time.Duration(w.rng.Int64N(int64(b-a)))
}

// mostly is short, and seldom long.
func (w *world) mostly(short, long time.Duration) time.Duration {
	if w.chance(0.03) {
		return w.between(short, long)
	}
	return w.between(short/5, short)
}

func (w *world) chance(p float64) bool { return w.rng.Float64() < p }

func (w *world) log(format string, args ...any) {
	if w.lines != nil {
		w.lines = append(w.lines, fmt.Sprintf("%9.3f ", w.now.Seconds())+fmt.Sprintf(format, args...))
	}
}

func (w *world) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("after %.3f s: %s", w.now.Seconds(), fmt.Sprintf(format, args...))
		w.log("WRONG: %v", w.err)
	}
}

// clock of a machine: it shows something else than the true time, and is fast or slow.
type clock struct {
	offset time.Duration
	ppm    int64
}

func (c clock) shows(t time.Duration) elect.Time {
	return c.offset + t + time.Duration(int64(t)*c.ppm/1_000_000)
}

// when it shows that time, in true time.
func (c clock) when(shown elect.Time) time.Duration {
	if shown > 1<<56 {
		return 1 << 60
	}
	return time.Duration(int64(shown-c.offset)*1_000_000/(1_000_000+c.ppm)) + 1
}
