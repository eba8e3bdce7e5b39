package simulation

import (
	"slices"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/elect"
)

// entry of the WAL: a commit, or 0 for the beginning of a timeline and for the checkpoint of a shutdown. Its position is its place
// in the log.
type entry struct {
	timeline int64
	commit   int
}

// volume is what outlives a pod.
type volume struct {
	wal     []entry
	standby bool // there is a standby.signal
	torn    bool // a rewind or clone has begun and not ended
	copied  bool // it is not the original, or has followed somebody

	checkpoint elect.End // in the control file
}

func (v *volume) timeline() int64 {
	if len(v.wal) == 0 {
		return 0
	}
	return v.wal[len(v.wal)-1].timeline
}

// follows says whether PostgreSQL would stream from that WAL on: it compares timelines by number, and positions.
func (v *volume) follows(primary *volume) bool {
	if v.timeline() == primary.timeline() {
		return len(v.wal) <= len(primary.wal)
	}
	end := 0 // of that timeline in the primary's history
	for end < len(primary.wal) && primary.wal[end].timeline <= v.timeline() {
		end++
	}
	return end > 0 && primary.wal[end-1].timeline == v.timeline() && len(v.wal) <= end
}

// server is PostgreSQL from its start to its end.
type server struct {
	w     *world
	node  *node
	agent *agent
	mode  elect.Mode
	dead  bool

	upstream *link   // of a replica
	links    []*link // of a primary
	sync     elect.Sync
	older    elect.Sync // what some processes still go by
	since    uint64     // where the WAL was when all went by sync
	mixed    bool
	commits  []commit // that wait
	leaving  bool     // it is shut down after a checkpoint
	stopping bool
	dying    bool
	end      uint64
	odd      bool // the upstream refuses to stream

	unsettled time.Duration // until when a replica doesn't know where it is
}

type commit struct {
	id, lsn int
}

func (s *server) do(f func()) {
	s.node.do(func() {
		if !s.dead {
			f()
		}
	})
}

// onDisk does something once the disk answers, unless the server was killed meanwhile.
func (s *server) onDisk(f func()) {
	s.do(func() { s.node.onDisk(func() { s.do(f) }) })
}

// accepts says whether a write would succeed here now, and be acknowledged.
func (s *server) accepts() bool {
	return s.mode == elect.Primary && !s.dead && !s.stopping && !s.node.isFrozen()
}

func (s *server) die() {
	s.dead, s.mode = true, elect.Down
	for _, l := range s.links {
		l.cut()
	}
	if s.upstream != nil {
		s.upstream.cut()
	}
}

// open lets clients write.
func (s *server) open() {
	s.mode, s.since = elect.Primary, uint64(len(s.node.volume.wal))
	s.node.w.log("%s: accepts writes on timeline %d at %d, sync %v", s.node.name, s.node.volume.timeline(), len(s.node.volume.wal), s.sync)
	s.w.onePrimary(s)
	s.w.complete(s)
	s.agent.reportSoon()
}

func (s *server) append(id int) int {
	v := &s.node.volume
	v.wal = append(v.wal, entry{v.timeline(), id})
	for _, l := range s.links {
		l.pump()
	}
	return len(v.wal)
}

func (s *server) commit(id int) {
	s.node.onDisk(func() {
		if s.accepts() {
			s.commits = append(s.commits, commit{id, s.append(id)})
			s.release()
		}
	})
}

// release commits that enough replicas have.
func (s *server) release() {
	if s.dead || s.stopping {
		return
	}
	s.commits = slices.DeleteFunc(s.commits, func(c commit) bool {
		done := s.enough(s.sync, c.lsn) || s.mixed && s.enough(s.older, c.lsn)
		if done {
			s.w.acknowledge(s, c.id)
		}
		return done
	})
}

func (s *server) enough(sync elect.Sync, lsn int) bool {
	have := 0
	for _, l := range s.links {
		if l.flushed >= lsn && slices.Contains(sync.Members, l.replica.node.name) {
			have++
		}
	}
	return have >= sync.Quorum
}

// setSync reloads the configuration, which not all processes do at one moment.
func (s *server) setSync(sync elect.Sync) {
	if s.mixed || s.sync.Quorum == sync.Quorum && slices.Equal(s.sync.Members, sync.Members) {
		return
	}
	s.older, s.sync, s.mixed = s.sync, sync, true
	s.w.log("%s: synchronous_standby_names %d %v", s.node.name, sync.Quorum, sync.Members)
	s.release()
	s.w.after(s.w.between(0, 150*millisecond), func() {
		s.do(func() {
			s.mixed, s.since = false, uint64(len(s.node.volume.wal))
			s.agent.reportSoon()
		})
	})
}

// shutDown ends a primary in order: nothing is accepted any more, and replicas that stream get everything.
func (s *server) shutDown() {
	if s.stopping {
		return
	}
	s.stopping = true
	s.w.log("%s: shuts down at %d", s.node.name, len(s.node.volume.wal))
	s.end = uint64(len(s.node.volume.wal))
	s.node.volume.checkpoint = elect.End{Timeline: s.node.volume.timeline(), LSN: s.end}
	s.append(0)
	for _, l := range s.links {
		if s.w.tricky() {
			s.w.after(s.w.between(0, 30*millisecond), l.cut)
		}
	}
	s.w.every(30*millisecond, func() bool {
		if s.dead {
			return false
		}
		if s.w.now < s.node.hung || slices.ContainsFunc(s.links, func(l *link) bool { return l.flushed < len(s.node.volume.wal) }) {
			return true
		}
		s.do(func() {
			s.agent.end = s.end
			s.die()
			s.agent.ended(s)
		})
		return false
	})
}

// link is a replica's connection to its primary.
type link struct {
	w                *world
	primary, replica *server
	sent, flushed    int
	arrival, back    time.Duration
	broken           bool
}

func (s *server) connect(to *server) {
	v, p := &s.node.volume, &to.node.volume
	for i, e := range v.wal {
		if p.wal[i] != e {
			s.w.fail("%s follows %s, whose WAL is another at %d of %d", s.node.name, to.node.name, i, len(v.wal))
			return
		}
	}
	l := &link{w: s.w, primary: to, replica: s, sent: len(v.wal)}
	s.upstream, to.links = l, append(to.links, l)
	s.w.log("%s: streams from %s at %d", s.node.name, to.node.name, len(v.wal))
	l.acknowledge(len(v.wal))
	l.pump()
}

// cut the connection; each side notices by itself.
func (l *link) cut() {
	if l.broken {
		return
	}
	l.broken = true
	notice := func(s *server, do func()) {
		d := l.w.between(0, 20*millisecond)
		if !l.w.open(l.primary.node.name, l.replica.node.name) || !l.w.open(l.replica.node.name, l.primary.node.name) {
			d = l.w.between(second, 5*second)
		}
		l.w.after(d, func() { s.do(do) })
	}
	notice(l.primary, func() { l.primary.links = slices.DeleteFunc(l.primary.links, func(o *link) bool { return o == l }) })
	notice(l.replica, func() {
		if l.replica.upstream == l {
			l.replica.upstream = nil
		}
	})
}

// carry something from one end to the other, in order; a connection through a network that is broken breaks.
func (l *link) carry(from, to *server, last *time.Duration, deliver func()) {
	if l.broken {
		return
	}
	if !l.w.open(from.node.name, to.node.name) {
		l.cut()
		return
	}
	d := l.w.mostly(4*millisecond, 60*millisecond) + l.w.net.slow[l.replica.node.name]/2
	*last = max(*last, l.w.now+d)
	l.w.after(*last-l.w.now, func() {
		switch {
		case l.broken || from.dead && to.dead:
		case !l.w.open(from.node.name, to.node.name):
			l.cut()
		default:
			to.do(deliver)
		}
	})
}

func (l *link) pump() {
	wal := l.primary.node.volume.wal
	if l.sent == len(wal) || l.broken {
		return
	}
	l.sent = len(wal)
	l.carry(l.primary, l.replica, &l.arrival, func() {
		l.replica.node.onDisk(func() { l.flush(wal) })
	})
}

// flush what a replica has received.
func (l *link) flush(wal []entry) {
	v := &l.replica.node.volume
	if !l.replica.dead && l.replica.upstream == l && len(wal) > len(v.wal) {
		v.wal = append(v.wal, wal[len(v.wal):]...)
		l.acknowledge(len(v.wal))
	}
}

func (l *link) acknowledge(lsn int) {
	l.carry(l.replica, l.primary, &l.back, func() {
		l.flushed = max(l.flushed, lsn)
		l.primary.release()
	})
}
