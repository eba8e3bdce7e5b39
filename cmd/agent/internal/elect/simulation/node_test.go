package simulation

import (
	"fmt"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/elect"
)

// status of a pod, as the kubelet has told.
type status struct {
	pod   int
	ended int // the last container that did; later ones may run by now
}

// node is a machine with the volume of one instance, and with its pod, if there is one. The pod is not moved.
type node struct {
	w      *world
	name   string
	clock  clock
	volume volume
	pods   int    // that there were
	starts int    // of containers so far
	agent  *agent // of the container that runs; nil: none does
	gone   bool   // the instance was scaled away

	status        status       // of the pod, as the API server has it
	config        elect.Config // as it is on this machine by now
	configs, seen int

	frozen  time.Duration // until when the whole machine is
	waiting []func()      // for the end of that
	broken  time.Duration // until when PostgreSQL can't be started
	silent  time.Duration // until when it does not say who follows

	hung  time.Duration // until when the disk doesn't respond
	hangs time.Duration // since when
	disk  []func()      // what waits for it
}

// do something on this machine, which may be frozen.
func (n *node) do(f func()) {
	if n.isFrozen() {
		n.waiting = append(n.waiting, f)
		return
	}
	f()
}

func (n *node) isFrozen() bool { return n.w.now < n.frozen }

// freeze all of the machine. What wakes up first is the watchdog, whose limit has passed by then: nothing can be done about a
// commit that was on its way through a processor that stood still, see docs/high-availability.md.
func (n *node) freeze(d time.Duration) {
	if n.isFrozen() {
		return
	}
	n.w.log("%s: the machine freezes for %s", n.name, d)
	n.frozen = n.w.now + d
	n.w.after(d, func() {
		n.w.log("%s: the machine continues", n.name)
		if n.agent != nil {
			n.agent.watchOver()
			if s := n.agent.server; s != nil {
				n.w.onePrimary(s)
			}
		}
		waiting := n.waiting
		n.waiting = nil
		for _, f := range waiting {
			f()
		}
	})
}

// pause all of the machine together with its clock, as a hypervisor may: nothing on it notices.
func (n *node) pause(d time.Duration) {
	if n.isFrozen() {
		return
	}
	n.w.log("%s: the machine and its clock stand still for %s", n.name, d)
	before := n.clock.shows(n.w.now)
	n.frozen = n.w.now + d
	n.w.after(d, func() {
		n.clock.offset -= n.clock.shows(n.w.now) - before
		n.w.log("%s: the machine and its clock continue", n.name)
		if n.agent != nil {
			n.agent.watchAgain()
		}
		waiting := n.waiting
		n.waiting = nil
		for _, f := range waiting {
			f()
		}
	})
}

// hang the disk. What waits for it continues when it answers, unless it was killed meanwhile: then it does nothing any more.
func (n *node) hang(d time.Duration) {
	if n.w.now >= n.hung {
		n.hangs = n.w.now
	}
	n.w.log("%s: the disk doesn't respond for %s", n.name, d)
	n.hung = max(n.hung, n.w.now+d)
	n.w.after(d, func() {
		if n.w.now >= n.hung {
			n.answers()
		}
	})
}

// answers is the disk again.
func (n *node) answers() {
	waiting := n.disk
	n.hung, n.disk = 0, nil
	for _, f := range waiting {
		n.do(func() { n.onDisk(f) })
	}
}

// onDisk does something once the disk answers.
func (n *node) onDisk(f func()) {
	if n.w.now >= n.hung {
		f()
		return
	}
	n.disk = append(n.disk, f)
}

// stalled is what the agent has noticed of the disk.
func (n *node) stalled() bool { return n.w.now < n.hung && n.w.now-n.hangs >= n.config.Limits.Stall }

// startPod makes a pod with another UID and address.
func (n *node) startPod() {
	if n.agent != nil || n.gone {
		return
	}
	n.pods++
	n.startContainer()
}

func (n *node) uid() string     { return fmt.Sprintf("%s-%d", n.name, n.pods) }
func (n *node) address() string { return "10.0." + n.uid() }

// kill all processes of the pod at once.
func (n *node) kill(why string) {
	if n.agent == nil {
		return
	}
	n.w.log("%s: %s", n.name, why)
	a := n.agent
	a.dead, n.agent = true, nil
	if a.server != nil {
		a.server.die()
	}
}

// crash ends the container; the kubelet starts it again.
func (n *node) crash(pause time.Duration) {
	n.kill("the container dies")
	n.tellStatus(status{n.pods, n.starts})
	n.w.after(pause, func() { n.do(n.restartContainer) })
}

// tellStatus has the kubelet tell the API server what has ended, as soon as it can.
func (n *node) tellStatus(s status) {
	n.w.after(n.w.mostly(second, 10*second), func() {
		switch {
		case n.pods != s.pod || n.starts != s.ended:
		case n.w.store.reaches(n):
			n.status = s
		default:
			n.tellStatus(s)
		}
	})
}

func (n *node) restartContainer() {
	if n.agent == nil && !n.gone {
		n.startContainer()
	}
}

// lose ends the pod without a word; there is another one later.
func (n *node) lose(pause time.Duration) {
	n.kill("the pod is gone")
	n.w.after(pause, func() { n.do(n.startPod) })
}

// grace is how long a pod that ends gets for it.
const grace = 20 * time.Second

// delete the pod: it may end in order.
func (n *node) delete(pause time.Duration) {
	if n.agent == nil || n.agent.leaving {
		return
	}
	n.w.log("%s: the pod is deleted", n.name)
	a := n.agent
	a.leaving = true
	a.tell(a.core.Leave)
	over := func() {
		if n.agent == a {
			n.kill("the pod ends")
			n.w.after(pause, func() { n.do(n.startPod) })
		}
	}
	n.w.after(grace, over)
	n.w.every(100*millisecond, func() bool {
		if n.agent == a && a.server == nil && !a.core.Holds() && !a.frozen() {
			over()
		}
		return n.agent == a
	})
}
