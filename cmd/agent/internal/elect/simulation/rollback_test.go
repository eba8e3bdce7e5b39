package simulation

import (
	"slices"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/elect"
)

func TestALeaseThatIsRolledBackIsWrittenAgainByThePrimary(t *testing.T) {
	try(t, *seeds, func(w *world) {
		w.settle()
		w.kind.calm = true
		for range 4 {
			w.uninterrupted(w.between(0, 20*second))
			newest := w.store.newest
			w.store.rollBack()
			older := w.store.record.Term != newest.Term || w.store.record.Sequence != newest.Sequence
			w.uninterrupted(w.between(10*second, 20*second) + w.limits(0).Renew)
			if now := w.store.record; w.err == nil && older && (now.Term != newest.Term || now.Sequence <= newest.Sequence) {
				w.fail("the Lease was not written again: %s", show(now))
			}
		}
		w.awaitOrder()
	})
}

// No commit may be lost silently, whatever of the data and of what is known of it is rolled back. There may be no primary after that.
func TestNothingIsLostWhateverIsRolledBack(t *testing.T) {
	try(t, *seeds, func(w *world) {
		instances := 2 + w.rng.IntN(3)
		w.kind.number, w.kind.required, w.kind.quorum = 1+w.rng.IntN(instances-1), w.chance(0.6), true
		w.populate(instances, instances)
		w.await("full strength", 60*second, w.full)
		w.faults = faults{until: w.now + w.between(20*second, 90*second), actions: append(some(w), rollBackVolume, rollBackVolume, loseVolume, rollBackLease)}
		w.every(w.between(second/2, 6*second), w.strike)
		w.run(w.faults.until)
		w.heal()
		w.run(w.now + 60*second)
		if p := w.primary(); p != nil {
			w.complete(p)
		}
	})
}

// rollBackLease restores the store while there is a primary, which writes the Lease again.
func rollBackLease(w *world, _ *node, _ time.Duration) {
	if w.primary() != nil && len(w.store.history) > 40 { // not to one that nobody has written yet
		w.store.rollBack()
	}
}

// rollBackVolume replaces the volume of a pod by an older snapshot of it.
func rollBackVolume(w *world, n *node, d time.Duration) {
	v := n.volume
	if v.torn || len(v.wal) == 0 {
		return
	}
	v.wal = slices.Clone(v.wal)
	w.after(w.between(second, 20*second), func() {
		if n.agent == nil || n.isFrozen() || n.w.now >= w.faults.until || !w.shows(n, v) {
			return
		}
		w.log("%s: the volume is rolled back from %d to %d", n.name, len(n.volume.wal), len(v.wal))
		n.lose(d)
		n.volume = v
	})
}

// shows says whether the Lease has a mark that tells an older volume from the right one: a last holder's by a checkpoint, a member's by
// what it had replayed. What was written since the mark is not missed.
func (w *world) shows(n *node, v volume) bool {
	r := w.store.record
	if r.LastHolder == n.name {
		if v.checkpoint.LSN == 0 {
			return false // there is no such volume: initdb ends with a checkpoint, which this model leaves out
		}
		return v.checkpoint.Timeline < r.Checkpoint.Timeline || v.checkpoint.LSN < r.Checkpoint.LSN
	}
	i := slices.IndexFunc(r.Members, func(m elect.Member) bool { return m.Name == n.name })
	return i < 0 || uint64(len(v.wal)) < r.Members[i].Replayed.LSN
}

// loseVolume replaces the volume of a pod by an empty one.
func loseVolume(w *world, n *node, d time.Duration) {
	if n.agent == nil || n.isFrozen() {
		return
	}
	w.log("%s: the volume is lost", n.name)
	n.lose(d)
	n.volume = volume{checkpoint: elect.End{}}
}
