package simulation

import (
	"slices"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/elect"
)

// What package supervise does: it makes PostgreSQL be what the core wants.

func (a *agent) reconcile() {
	s := a.server
	if a.dead || s != nil && (s.dead || s.dying) {
		return
	}
	switch a.want.Role {
	case elect.Stop:
		if s != nil {
			a.stop(s)
		}
	case elect.Lead:
		a.lead(s)
	case elect.Follow:
		a.follow(s)
	}
}

func (a *agent) stop(s *server) {
	switch {
	case !a.want.Orderly:
		a.fence("PostgreSQL is stopped at once")
	case s.mode == elect.Primary:
		a.checkpoint(s)
	default:
		a.kill("PostgreSQL is stopped")
	}
}

// checkpoint before a primary is shut down. Clients write meanwhile, and replicas may come and go.
func (a *agent) checkpoint(s *server) {
	if s.leaving {
		return
	}
	s.leaving = true
	a.node.w.after(a.node.w.mostly(300*millisecond, 4*second), func() {
		a.onDisk(func() {
			if a.server != s || s.dead {
				return
			}
			a.deserted = a.leaving && len(s.links) == 0
			s.shutDown()
			a.report()
		})
	})
}

func (a *agent) lead(s *server) {
	v := &a.node.volume
	switch {
	case a.busy || v.torn || len(v.wal) == 0:
	case s == nil && v.standby:
		a.startReplica()
	case s == nil:
		a.startPrimary()
	case s.mode == elect.Replica:
		a.promote(s)
	case s.mode == elect.Primary && !s.stopping:
		s.setSync(a.want.Sync)
	}
}

func (a *agent) startServer() *server {
	a.end, a.deserted = 0, false
	a.server = &server{w: a.node.w, node: a.node, agent: a, mode: elect.Starting}
	a.reportSoon()
	return a.server
}

// unable says whether PostgreSQL can't be started now, and notes for how long that has been so.
func (a *agent) unable() bool {
	w := a.node.w
	if w.now >= a.node.broken {
		return false
	}
	if a.want.Role == elect.Lead && w.now > a.downtime+3*second && !a.hopeless {
		w.log("%s: PostgreSQL doesn't come up", a.node.name)
		a.hopeless = true
	}
	return true
}

func (a *agent) startPrimary() {
	if a.unable() || !a.guard() {
		return
	}
	s := a.startServer()
	s.sync = a.want.Sync
	a.node.w.after(a.node.w.mostly(500*millisecond, 5*second), func() { s.onDisk(s.open) })
}

func (a *agent) startReplica() {
	if a.unable() {
		return
	}
	s := a.startServer()
	a.node.volume.standby, a.node.volume.copied = true, true
	a.node.w.after(a.node.w.mostly(500*millisecond, 3*second), func() {
		s.onDisk(func() {
			s.mode, s.unsettled = elect.Replica, a.node.w.now+a.node.w.mostly(200*millisecond, 3*second)
			a.node.w.log("%s: runs as a replica on timeline %d at %d", a.node.name, a.node.volume.timeline(), len(a.node.volume.wal))
			a.reportSoon()
		})
	})
}

func (a *agent) promote(s *server) {
	timeline := a.node.volume.timeline() + 1
	if a.want.Timeline > 0 && timeline > a.want.Timeline || !a.guard() {
		return
	}
	timeline = max(timeline, a.want.Timeline)
	s.mode, s.sync = elect.Starting, a.want.Sync
	if s.upstream != nil {
		s.upstream.cut()
		s.upstream = nil
	}
	a.reportSoon()
	a.node.w.after(a.node.w.mostly(300*millisecond, 3*second), func() {
		s.onDisk(func() {
			v := &a.node.volume
			v.standby = false
			v.wal = append(slices.Clip(v.wal), entry{timeline, 0})
			s.open()
		})
	})
}

// fenceTime is what a server gets for its last WAL. If it is frozen in part, it may use it for more.
const fenceTime = 300 * time.Millisecond

// fence ends a server that may accept no more writes: soon.
func (a *agent) fence(why string) {
	s := a.server
	if s == nil || s.dead || s.dying {
		return
	}
	s.dying = true
	a.node.w.after(a.node.w.between(0, fenceTime), func() {
		a.node.do(func() {
			if a.server == s {
				a.kill(why)
			}
		})
	})
}

// kill the server and all that belongs to it.
func (a *agent) kill(why string) {
	if a.server == nil || a.server.dead {
		return
	}
	s := a.server
	a.node.w.log("%s: %s (%v)", a.node.name, why, s.mode)
	s.die()
	if a.node.w.now < a.node.hung && a.node.w.chance(0.3) { // it can't be seen that all processes are doomed
		a.node.onDisk(func() { a.ended(s) })
		return
	}
	a.ended(s)
}

// ended is what the agent does when its server is down.
func (a *agent) ended(s *server) {
	a.do(func() {
		if a.server == s {
			a.server, a.guarded, a.downtime = nil, false, a.node.w.now
			a.allow(elect.Forever)
			a.report()
		}
	})
}

// fall is a crash of PostgreSQL.
func (a *agent) fall() {
	s := a.server
	if s == nil || s.dead {
		return
	}
	if w := a.node.w; s.mode == elect.Primary {
		a.hopeless = a.hopeless || a.fell > 0 && w.now < a.fell+time.Minute
		a.fell = w.now
	}
	a.kill("PostgreSQL crashes")
}

func (a *agent) tick() {
	a.keepCheckpoint()
	a.stream()
	a.reconcile()
	a.report()
}

// keepCheckpoint writes one to the control file now and then, as a replica does at those of its primary.
func (a *agent) keepCheckpoint() {
	s, v := a.server, &a.node.volume
	switch {
	case s == nil || s.dead || s.stopping || !a.node.w.chance(0.1):
	case s.mode == elect.Primary:
		v.checkpoint = elect.End{Timeline: v.timeline(), LSN: uint64(len(v.wal))}
	case s.upstream != nil && s.upstream.primary.node.volume.checkpoint.LSN <= uint64(len(v.wal)):
		v.checkpoint = s.upstream.primary.node.volume.checkpoint
	}
}

func (a *agent) reportSoon() {
	a.node.w.after(a.node.w.mostly(10*millisecond, 200*millisecond), func() { a.do(a.report) })
}

// report tells the core how the server is.
func (a *agent) report() {
	s := a.server
	if s != nil && s.dead {
		return
	}
	now := a.local()
	p := a.where()
	seen := elect.Server{Position: p, Hopeless: a.hopeless, End: a.end, Deserted: a.deserted, Stalled: a.node.stalled()}
	if s != nil {
		seen.Mode, seen.Sync, seen.SyncSince = s.mode, s.sync, s.since
		if s.mode == elect.Primary {
			seen.Checkpoint = a.node.volume.checkpoint
		}
		if s.mixed {
			seen.Sync = elect.Sync{Quorum: -1}
		}
		if s.stopping {
			seen.Mode = elect.Starting
		}
		if s.mode == elect.Primary {
			a.hopeless = false
		}
	}
	a.core.Observe(now, seen)
	if s != nil && s.mode == elect.Primary && !s.stopping && a.node.w.now >= a.node.silent {
		a.core.Follow(now, a.followers(s))
	}
	a.soon()
}

func (a *agent) followers(s *server) map[string]elect.Follower {
	all := map[string]elect.Follower{}
	for _, l := range s.links {
		name := l.replica.node.name
		known, told := a.known[name]
		all[name] = elect.Follower{
			Address: known.address, Streaming: told && !known.stalled && a.local() < known.at+3*second, Flushed: uint64(l.flushed), Replayed: uint64(l.flushed),
			Lag: uint64(len(a.node.volume.wal) - l.flushed),
		}
	}
	return all
}
