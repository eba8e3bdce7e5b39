package simulation

import (
	"strconv"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/elect"
)

// store is the API server with the Lease.
type store struct {
	w       *world
	version uint64
	record  elect.Record
	newest  elect.Record // that was ever written: the store may have been rolled back since
	history []elect.Record

	away   time.Duration // until when nobody gets through
	slow   time.Duration // how long an answer may take
	late   float64       // chance that a request lies about
	stale  float64       // chance that something old is read
	writes int
}

func newStore(w *world) *store {
	s := &store{w: w, version: 1, slow: 20 * millisecond}
	s.record.Version = "1"
	s.history = []elect.Record{s.record}
	return s
}

// reaches says whether a request of a machine gets through now, or an answer to it.
func (s *store) reaches(n *node) bool { return s.w.now >= s.away && s.w.open(n.name, "") }

func (s *store) latency() time.Duration {
	if s.w.chance(s.late) {
		return s.w.between(0, 30*second)
	}
	return s.w.between(s.slow/40, s.slow/2)
}

// patience of who asks the API server.
const patience = 2 * time.Second

// request something. It may be lost, its answer may be, and it may be done long after the caller has given it up.
func (s *store) request(a *agent, there, back time.Duration, do func(), answer func(ok bool)) {
	answered := false
	end := func(ok bool) {
		if !answered {
			answered = true
			answer(ok)
		}
	}
	a.node.w.after(a.node.clock.when(a.local()+patience)-s.w.now, func() { a.do(func() { end(false) }) })
	if !s.reaches(a.node) {
		if s.w.chance(0.5) { // refused, rather than lost
			s.w.after(5*millisecond, func() { a.do(func() { end(false) }) })
		}
		return
	}
	s.w.after(there, func() {
		if s.w.now < s.away && there < patience {
			return
		}
		do()
		s.w.after(back, func() {
			if s.reaches(a.node) {
				a.do(func() { end(true) })
			}
		})
	})
}

func (s *store) read(a *agent, answer func(record elect.Record, ok bool)) {
	var found elect.Record
	s.request(a, s.latency(), s.latency(), func() {
		found = s.record
		if s.w.chance(s.stale) {
			found = s.history[max(0, len(s.history)-1-s.w.rng.IntN(4))]
		}
	}, func(ok bool) { answer(found, ok) })
}

func (s *store) write(a *agent, write *elect.Write) {
	outcome, version := elect.Unknown, ""
	there, back := s.latency(), s.latency()
	if differ(s.record, write.Record) {
		there, back = s.w.faults.meddle(a, there, back)
	}
	s.request(a, there, back, func() {
		if s.w.chance(s.late / 4) { // somebody on the way sends it twice
			s.apply(a.node.name, write.Record)
		}
		if version = s.apply(a.node.name, write.Record); version == "" {
			outcome = elect.Conflict
		} else {
			outcome = elect.Written
		}
	}, func(ok bool) {
		if !ok {
			outcome = elect.Unknown
		}
		a.core.Wrote(a.local(), write, outcome, version)
		a.soon()
	})
}

// apply a write if its precondition holds; it returns the new version.
func (s *store) apply(by string, record elect.Record) string {
	if record.Version != s.record.Version {
		s.w.log("lease: conflict for %s, who has version %s", by, record.Version)
		return ""
	}
	before := s.newest
	s.version += 1 + s.w.rng.Uint64N(3)
	record.Version = strconv.FormatUint(s.version, 10)
	s.record = record
	s.newest = record
	s.history = append(s.history, record)
	s.writes++
	if differ(before, record) {
		s.w.log("lease: %s writes %s", by, show(record))
	}
	s.w.judge(before, record)
	s.notify()
	return record.Version
}

// rollBack restores the store from a backup: the Lease is an older one, with its version, or with a later one where those who restore it
// see to that.
func (s *store) rollBack() {
	s.record = s.history[max(0, len(s.history)-1-s.w.rng.IntN(30))]
	if s.w.chance(0.5) {
		s.version += 1000
		s.record.Version = strconv.FormatUint(s.version, 10)
	}
	s.w.log("lease: rolled back to %s", show(s.record))
	s.notify()
}

// notify who watches. What is on its way may be overtaken.
func (s *store) notify() {
	record := s.record
	for _, n := range s.w.nodes {
		if a := n.agent; a != nil && a.watching {
			s.w.after(s.w.mostly(20*millisecond, 3*second), func() {
				if !s.reaches(n) {
					s.w.after(s.w.between(second/2, 12*second), func() { a.watching = false })
					return
				}
				a.tell(func() { a.core.SawLease(a.local(), record) })
			})
		}
	}
}

// differ says whether a write is more than a renewal.
func differ(a, b elect.Record) bool {
	return a.Term != b.Term || a.Holder != b.Holder || len(a.Members) != len(b.Members) || a.Quorum != b.Quorum
}

func show(r elect.Record) string {
	text := "v" + r.Version + " holder=" + r.HolderUID + " term=" + strconv.FormatInt(r.Term, 10) + " timeline=" +
		strconv.FormatInt(r.Timeline, 10) + " k=" + strconv.Itoa(r.Quorum) + " members="
	for _, m := range r.Members {
		text += m.Name
	}
	if r.Holder == "" {
		text += " last=" + r.LastHolder + " successor=" + r.Successor + " complete=" + strconv.FormatBool(r.Complete)
	}
	return text
}
