package simulation

import (
	"howdah.dev/howdah/cmd/agent/internal/elect"
)

// ledger is what clients have written, and what they were told.
type ledger struct {
	last  int   // commit
	acked []int // that must not be lost
	total int   // of acknowledged ones

	heirloom []int  // what the heir must have, as a primary ended in order
	heir     string // who has taken the lease after that; empty: nobody has yet
}

// client writes to the server beside it whenever that is a primary.
func (w *world) client(n *node) {
	w.every(w.kind.pause, func() bool {
		if a := n.agent; a != nil && a.server != nil && a.server.accepts() {
			w.ledger.last++
			a.server.commit(w.ledger.last)
		}
		return true
	})
}

func (w *world) acknowledge(s *server, id int) {
	if !s.accepts() {
		w.fail("%s acknowledges a commit while it doesn't accept any", s.node.name)
	}
	w.ledger.total++
	if w.kind.orderly || !asynchronous(w.store.newest) {
		w.ledger.acked = append(w.ledger.acked, id)
	}
}

// asynchronous is a lease without quorum that somebody may take.
func asynchronous(r elect.Record) bool { return r.Quorum == 0 && len(r.Members) > 0 }

// onePrimary holds when no other server accepts writes at the moment when this one does.
func (w *world) onePrimary(s *server) {
	if !s.accepts() || w.kind.pauses {
		return
	}
	for _, n := range w.nodes {
		if n.agent == nil || n.agent.server == nil || n.agent.server == s {
			continue
		}
		if n.agent.server.accepts() {
			w.fail("%s and %s both accept writes", s.node.name, n.name)
		}
	}
}

// complete holds when a primary has all that was acknowledged.
func (w *world) complete(s *server) {
	have := make([]bool, w.ledger.last+1)
	for _, e := range s.node.volume.wal {
		have[e.commit] = true
	}
	w.missing(s, have, w.ledger.acked, "a commit was acknowledged under a quorum")
	if w.ledger.heir == s.node.name {
		w.missing(s, have, w.ledger.heirloom, "a commit was acknowledged before an orderly end")
	}
}

func (w *world) missing(s *server, have []bool, want []int, what string) {
	for _, id := range want {
		if !have[id] {
			w.fail("%s: %s does not have %d", what, s.node.name, id)
			return
		}
	}
}

// judge a change of the Lease.
func (w *world) judge(before, after elect.Record) {
	l := &w.ledger
	switch {
	case after.Term < before.Term:
		w.fail("the term goes back: %s", show(after))
	case asynchronous(after) && w.kind.quorum:
		w.fail("the lease has members but no quorum: %s", show(after))
	case w.kind.calm && after.Term != before.Term && before.Term > 0:
		w.fail("a switch without a fault: %s", show(after))
	}
	if asynchronous(after) && !w.kind.orderly {
		l.acked = l.acked[:0]
	}
	switch {
	case after.Holder == "" && after.Complete:
		w.bequeath(after)
	case before.Holder == "" && before.Complete:
		l.heir = after.Holder
	case before.Holder == "":
		l.heir, l.heirloom = "", nil
	case before.Term != after.Term && before.Holder != "":
		l.heir, l.heirloom = "", nil
	}
}

// bequeath what the last holder has to whoever comes next.
func (w *world) bequeath(r elect.Record) {
	w.ledger.heir, w.ledger.heirloom = "", nil
	for _, e := range w.node(r.LastHolder).volume.wal {
		if e.commit > 0 {
			w.ledger.heirloom = append(w.ledger.heirloom, e.commit)
		}
	}
}
