package simulation

import (
	"fmt"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/pkg/agentapi"
)

// agent of a container: the core with what package member does around it, and the watchdog.
type agent struct {
	node    *node
	uid     string
	core    *elect.Core
	config  elect.Config // that the core has
	dead    bool
	leaving bool

	halted  time.Duration // until when the agent's process is frozen
	waiting []func()
	stepAt  time.Duration // when the next step is
	wakes   int

	want     elect.Want
	guarded  bool
	permit   elect.Time // until when the watchdog lets the server continue
	watching bool
	reading  bool
	asking   map[string]elect.Time
	known    map[string]follower

	server   *server
	busy     bool          // a copy is being rewound or made
	end      uint64        // of the last orderly shutdown
	deserted bool          // no replica was connected when it began
	fell     time.Duration // when a primary crashed last
	downtime time.Duration // since when it is down
	hopeless bool
}

type follower struct {
	address string
	at      elect.Time
	stalled bool
}

func (n *node) startContainer() {
	w := n.w
	n.starts++
	self := elect.Self{
		Name: n.name, UID: n.uid(), Address: n.address(), Started: fmt.Sprint(n.starts), Generation: "g",
		Original: len(n.volume.wal) > 0 && !n.volume.copied, Whole: len(n.volume.wal) > 0 && !n.volume.torn,
		Standby: n.volume.standby, Timeline: n.volume.timeline(), Checkpoint: n.volume.checkpoint,
	}
	a := &agent{
		node: n, uid: n.uid(), core: elect.New(self, n.config), config: n.config, permit: elect.Forever, stepAt: -1,
		asking: map[string]elect.Time{}, known: map[string]follower{},
	}
	n.agent = a
	w.log("%s: container starts (original=%v)", a.uid, self.Original)
	a.step()
	w.every(250*millisecond, func() bool {
		a.do(a.tick)
		return !a.dead
	})
	w.every(second, func() bool {
		a.do(a.tellLeader)
		return !a.dead
	})
	w.every(second, func() bool {
		a.do(a.watch)
		a.do(a.suspect)
		return !a.dead
	})
}

func (a *agent) local() elect.Time { return a.node.clock.shows(a.node.w.now) }

func (a *agent) frozen() bool { return a.node.w.now < a.halted }

// do something in the agent's process, once it runs.
func (a *agent) do(f func()) {
	a.node.do(func() {
		switch {
		case a.dead:
		case a.frozen():
			a.waiting = append(a.waiting, f)
		default:
			f()
		}
	})
}

// onDisk does something in the agent's process once the disk answers.
func (a *agent) onDisk(f func()) {
	a.do(func() { a.node.onDisk(func() { a.do(f) }) })
}

// halt the agent's process; the server and the watchdog continue.
func (a *agent) halt(d time.Duration) {
	w := a.node.w
	if a.frozen() {
		return
	}
	w.log("%s: the agent is frozen for %s", a.node.name, d)
	a.halted = w.now + d
	w.after(d, func() {
		waiting := a.waiting
		a.waiting = nil
		for _, f := range waiting {
			a.do(f)
		}
		a.soon()
	})
}

// tell the core something, and have it decide.
func (a *agent) tell(f func()) {
	a.do(func() {
		f()
		a.soon()
	})
}

// soon the core decides again.
func (a *agent) soon() { a.stepIn(a.node.w.mostly(2*millisecond, 100*millisecond)) }

func (a *agent) stepIn(d time.Duration) {
	w := a.node.w
	at := w.now + max(d, millisecond/10)
	if a.stepAt >= w.now && a.stepAt <= at {
		return
	}
	a.stepAt = at
	a.wakes++
	mine := a.wakes
	w.after(at-w.now, func() {
		a.do(func() {
			if mine == a.wakes {
				a.stepAt = -1
				a.step()
			}
		})
	})
}

func (a *agent) step() {
	w := a.node.w
	w.steps++
	acts := a.core.Step(a.local())
	before, want := a.want, acts.Want
	a.want = want
	if a.guarded {
		switch {
		case want.Role == elect.Lead || want.Role == elect.Stop && want.Orderly && want.Until > 0:
			a.allow(want.Until)
		case want.Role == elect.Stop && want.Orderly: // it has until the watchdog's time
		case a.local() > a.deadline():
			a.kill("the agent kills PostgreSQL")
		case before.Role == elect.Lead || before.Orderly:
			a.fence("the agent ends PostgreSQL")
		}
	}
	if before.Role != want.Role || before.Leader.Name != want.Leader.Name || before.Why != want.Why {
		w.log("%s: wants %s %s (term %d) %s", a.node.name, roles[want.Role], want.Leader.Name, want.Term, want.Why)
	}
	a.perform(acts)
	a.reconcile()
	a.stepIn(a.node.clock.when(acts.Wake) - w.now)
}

var roles = map[elect.Role]string{elect.Idle: "idle", elect.Stop: "stop", elect.Lead: "lead", elect.Follow: "follow"}

func (a *agent) perform(acts elect.Acts) {
	s := a.node.w.store
	if acts.Refresh {
		a.refresh()
	}
	if acts.Write != nil {
		a.asWanted(acts.Write.Record)
		s.write(a, acts.Write)
	}
	for _, m := range acts.Ask {
		a.askPosition(m, acts.Request)
	}
	if q := acts.Failsafe; q != nil {
		for _, m := range q.Members {
			a.ask(m.Name, func(b *agent) func() {
				answer := b.core.AskedFailsafe(b.local(), q.Request)
				return func() { a.core.HeardFailsafe(q.ID, m.Name, answer.Follows) }
			})
		}
	}
	if acts.Word != nil {
		a.askWord(acts.Word)
	}
}

// askWord of members. An agent of an earlier version doesn't know of such a question.
func (a *agent) askWord(question *elect.WordQuestion) {
	request := question.Request
	for _, m := range question.Members {
		a.ask(m.Name, func(b *agent) func() {
			w := b.node.w
			if w.earlier(b.node) || w.chance(1-(1-w.net.drop)*(1-w.net.drop)) || !b.core.AskedWord(b.local(), request) {
				return func() {}
			}
			return func() { a.core.HeardWord(a.local(), m.Name, request.Failsafe.Term, request.Number) }
		})
	}
}

// earlier: the agent of a machine is of an earlier version, for a while.
func (w *world) earlier(n *node) bool {
	return w.seed%6 == 4 && n == w.nodes[len(w.nodes)-1] && w.now < w.faults.until
}

func (a *agent) askPosition(m elect.Member, request agentapi.PositionRequest) {
	asked := a.local()
	if last, waits := a.asking[m.Name]; waits && asked < last+second/2 {
		return
	}
	a.asking[m.Name] = asked
	a.ask(m.Name, func(b *agent) func() {
		yields := b.core.AskedPosition(b.local(), request)
		b.soon()
		p := b.where()
		if !p.Replica {
			p.Timeline, p.LSN = 0, 0
		}
		if s := b.server; yields && s != nil && s.upstream != nil { // it has not been detached yet
			p.Timeline, p.LSN = 0, 0
		}
		return func() {
			delete(a.asking, m.Name)
			a.core.Heard(asked, p)
		}
	})
}

func (a *agent) refresh() {
	if a.reading {
		return
	}
	a.reading = true
	a.node.w.store.read(a, func(record elect.Record, ok bool) {
		if ok {
			a.reading, a.watching = false, true
			a.core.SawLease(a.local(), record)
			a.soon()
			return
		}
		a.node.w.after(second/2, func() {
			a.do(func() {
				a.reading = false
				a.soon()
			})
		})
	})
}

func (a *agent) watch() {
	if !a.watching {
		a.refresh()
	}
}

// allow the server to accept writes until then.
func (a *agent) allow(until elect.Time) {
	if until == a.permit {
		return
	}
	a.permit = until
	a.watchAgain()
}

// watchAgain has the watchdog look when the permission ends.
func (a *agent) watchAgain() {
	w := a.node.w
	w.after(a.node.clock.when(a.deadline())-w.now, func() {
		if !a.dead && !a.node.isFrozen() {
			a.watchOver()
		}
	})
}

func (a *agent) deadline() elect.Time {
	if a.permit == elect.Forever {
		return elect.Forever
	}
	return a.permit + elect.Margin
}

// watchOver is the watchdog: it kills the server when its time is over.
func (a *agent) watchOver() {
	switch late := a.local() - a.deadline(); {
	case a.server == nil || late < 0:
	case late < fenceTime:
		a.fence("the watchdog ends PostgreSQL")
	default: // others may have taken over: there is no time for anything
		a.kill("the watchdog kills PostgreSQL")
	}
}

// guard says whether the server may be started as a primary.
func (a *agent) guard() bool {
	if a.want.Role != elect.Lead || a.want.Until <= a.local() {
		return false
	}
	a.guarded = true
	a.allow(a.want.Until)
	return true
}
