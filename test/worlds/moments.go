package worlds

import (
	"fmt"
	"strings"

	"howdah.dev/apis/v1alpha1"
)

// fresh is for how many events it counts that something was decided.
const fresh = 12

// look whether something was decided: whoever acts on that is about to, and has yet to learn of it. That is when trouble hurts most,
// and by chance alone it seldom comes then.
func (w *World) look() {
	if now := w.decisions(); now != w.moment {
		w.moment, w.tense = now, fresh
		return
	}
	w.tense = max(0, w.tense-1)
}

// decisions are how far everybody has come who has the cluster stopped.
func (w *World) decisions() string {
	var all strings.Builder
	if cluster := w.people.cluster(); cluster != nil {
		for _, lock := range cluster.Status.VolumeLocks {
			fmt.Fprintln(&all, lock.Name, lock.State, lock.StoppingSince != nil, lock.AdoptedGeneration, lock.ServedSince != nil)
		}
	}
	for _, u := range each[*v1alpha1.Upgrade](w) {
		fmt.Fprintln(&all, u.Name, u.Spec.Decision, u.Status.VolumeLockRequest != nil, u.Status.Previous != nil, u.Status.Handover != nil, u.Status.UpAt != nil)
	}
	for _, r := range each[*v1alpha1.Restore](w) {
		fmt.Fprintln(&all, r.Name, r.Spec.Decision, r.Status.VolumeLockRequest != nil, r.Status.Previous != nil, r.Status.Handover != nil, r.Status.RestoredAt != nil)
	}
	return all.String()
}

// strike those who are about to act on what was decided.
func (w *World) strike() {
	switch w.random.IntN(6) {
	case 0, 1:
		w.away(w.requester())
	case 2:
		w.kube.trouble()
	default:
		w.control.trouble()
	}
}

// requester is the controller of whoever has the cluster stopped, or is about to.
func (w *World) requester() string {
	if cluster := w.people.cluster(); cluster != nil {
		for _, lock := range cluster.Status.VolumeLocks {
			if lock.Kind == "Restore" {
				return restoreController
			}
		}
	}
	return upgradeController
}

// away has a controller be away for long. When it returns, the cluster may be down.
func (w *World) away(name string) {
	w.long(w.control.leave(name))
	switch w.random.IntN(3) {
	case 0:
		w.people.disturb()
	case 1:
		for ordinal := range 3 {
			w.people.deletePod(fmt.Sprintf("%s-%d", clusterName, ordinal))
		}
	}
}
