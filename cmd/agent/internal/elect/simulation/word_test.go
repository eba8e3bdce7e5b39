package simulation

import (
	"testing"
	"time"
)

// reword changes in which way the lease is to be kept.
func reword(w *world, _ *node, _ time.Duration) {
	w.kind.byWord = !w.kind.byWord
	w.log("the lease is to be kept by word: %v", w.kind.byWord)
	w.configure(len(w.config.Peers))
}

// settleByWord makes a cluster that keeps its lease by the word of its members.
func (w *world) settleByWord() {
	w.kind.byWord = true
	w.settle()
	w.await("a lease by word", 60*second, func() bool { return w.store.record.Word > 0 })
}

func TestWhateverHappensToALeaseByWordNothingIsLostAndNobodyElseWrites(t *testing.T) {
	try(t, *seeds, func(w *world) {
		w.settleByWord()
		w.suffer(w.between(20*second, 120*second))
		w.run(w.faults.until)
		w.awaitOrder()
	})
}

func TestAChangeOfTheWayNeverLetsTwoWrite(t *testing.T) {
	try(t, *seeds, func(w *world) {
		w.settleByWord()
		for range 6 {
			reword(w, nil, 0)
			w.run(w.now + w.between(0, 20*second))
			if holder := w.node(w.store.record.Holder); holder != nil && w.chance(0.6) {
				isolateFor(w, holder, w.between(second, 20*second))
			}
			w.reconnect()
			w.await("full strength", 120*second, w.full)
		}
		w.awaitOrder()
	})
}

// isolateFor cuts a machine off from all others, and perhaps from the API server, for so long.
func isolateFor(w *world, n *node, d time.Duration) {
	w.log("%s is cut off from all for %s", n.name, d)
	if w.chance(0.6) {
		w.disconnect(n.name, "", true, d)
	}
	for _, other := range w.nodes {
		if other != n {
			w.disconnect(n.name, other.name, true, d)
		}
	}
	w.run(w.now + d)
}

func TestALeaseByWordIsHardlyWritten(t *testing.T) {
	try(t, max(1, *seeds/2), func(w *world) {
		w.settleByWord()
		w.run(w.now + 20*second)
		before := w.store.writes
		w.run(w.now + 10*time.Minute)
		if writes := w.store.writes - before; writes > 30 {
			w.fail("%d writes in ten quiet minutes", writes)
		}
	})
}

// Losing questions and answers, as at 35 % in either direction, is no reason for another primary, nor is an API server that is slow or away.
func TestLossIsNoReasonForAnotherPrimaryByWord(t *testing.T) {
	try(t, max(1, *seeds/2), func(w *world) {
		w.settleByWord()
		w.kind.calm, w.net.drop = true, 0.35
		w.store.slow = w.between(second/10, patience-50*millisecond)
		w.uninterrupted(40 * second)
	})
}

func TestThePrimaryGoesOnByWordWithoutTheAPIServer(t *testing.T) {
	try(t, max(1, *seeds/2), func(w *world) {
		w.settleByWord()
		w.kind.calm = true
		for range 1 + w.rng.IntN(3) {
			d := w.between(second, 90*second)
			if w.chance(0.5) {
				away(w, nil, d)
			} else {
				flap(w, nil, d)
			}
			w.uninterrupted(d + w.between(0, 5*second))
		}
		w.uninterrupted(15 * second)
	})
}

// One member's pod dies while the API server is as slow as it may be.
func TestASilentMemberIsNoReasonForAnotherPrimary(t *testing.T) {
	try(t, max(1, *seeds/2), func(w *world) {
		w.settleByWord()
		w.kind.calm = true
		w.store.slow = w.between(second/10, patience-50*millisecond)
		for _, n := range w.nodes {
			if n.name != w.store.record.Holder {
				n.lose(30 * second)
				break
			}
		}
		w.uninterrupted(60 * second)
	})
}
