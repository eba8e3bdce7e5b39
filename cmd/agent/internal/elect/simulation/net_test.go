package simulation

import (
	"maps"
	"time"
)

// network between the instances, and from them to the API server, which has no name in it.
type network struct {
	cut  map[[2]string]int // how many faults keep messages of the first from the second
	loss float64
	drop float64                  // of questions for the word of members, and of the answers
	slow map[string]time.Duration // how long the WAL takes to that instance
}

func (w *world) open(from, to string) bool { return w.net.cut[[2]string{from, to}] == 0 }

// disconnect two for some time, or one direction only.
func (w *world) disconnect(from, to string, both bool, d time.Duration) {
	pairs := [][2]string{{from, to}}
	if both {
		pairs = append(pairs, [2]string{to, from})
	}
	for _, pair := range pairs {
		w.net.cut[pair]++
		w.after(d, func() {
			if w.net.cut[pair] > 0 {
				w.net.cut[pair]--
			}
		})
	}
}

func (w *world) reconnect() {
	maps.DeleteFunc(w.net.cut, func([2]string, int) bool { return true })
	w.net.loss, w.net.slow = 0, map[string]time.Duration{}
}

// send a message to whichever agent runs there when it arrives. It may be lost, late and repeated.
func (w *world) send(from, to *node, deliver func(*agent)) {
	times := 1
	if w.chance(w.net.loss) {
		times = w.rng.IntN(3)
	}
	for range times {
		if !w.open(from.name, to.name) {
			return
		}
		d := w.mostly(5*millisecond, 800*millisecond)
		if w.chance(w.net.loss / 10) {
			d = w.between(0, 20*second)
		}
		w.after(d, func() {
			if w.open(from.name, to.name) && to.agent != nil {
				to.agent.do(func() { deliver(to.agent) })
			}
		})
	}
}

// ask another agent something, and hear what it answers, if it does. An answer may come after the caller has given it up.
func (a *agent) ask(name string, question func(*agent) (answer func())) {
	to := a.node.w.node(name)
	if to == nil {
		return
	}
	a.node.w.send(a.node, to, func(b *agent) {
		answer := question(b)
		a.node.w.send(b.node, a.node, func(now *agent) {
			if now == a {
				answer()
				a.soon()
			}
		})
	})
}

func (w *world) node(name string) *node {
	for _, n := range w.nodes {
		if n.name == name {
			return n
		}
	}
	return nil
}
