package cluster

import (
	"context"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
)

// hibernating: all instances are to be stopped. They run for a last backup all the same, and for who has handed over data
// and waits until it is seen to work.
func (w *world) hibernating() bool {
	wakes := w.held() || w.deleting() && w.wantsFinalBackup()
	return w.cluster.Spec.Hibernate && !wakes
}

const hibernates = "All instances are stopped, and their volumes are kept, as spec.hibernate asks."

// awaitWaking ends the pass of a cluster that sleeps.
func (r *Reconciler) awaitWaking(_ context.Context, w *world) flow.Outcome {
	switch {
	case !w.hibernating():
		return flow.Next
	case !w.stopped():
		return flow.Poll(busyInterval, v1alpha1.ReasonHibernated, "PostgreSQL is being stopped."+w.stuck())
	}
	return flow.Wait(v1alpha1.ReasonHibernated, hibernates)
}

// asleep says that nothing runs because nothing shall; an empty reason: it shall.
func asleep(w *world) finding {
	switch {
	case !w.hibernating():
		return finding{}
	case !w.stopped():
		return no(v1alpha1.ReasonApplying, "PostgreSQL is being stopped, as spec.hibernate asks."+w.stuck())
	}
	return yes(v1alpha1.ReasonHibernated, hibernates)
}
