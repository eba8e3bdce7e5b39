package hibernation

import (
	"context"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/availability"
	"howdah.dev/howdah/cmd/db-controller/internal/condition"
	"howdah.dev/howdah/cmd/db-controller/internal/finalbackup"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/pace"
	"howdah.dev/howdah/cmd/db-controller/internal/volumegrant"
	"howdah.dev/howdah/pkg/flow"
)

// Hibernating says whether all instances are to be stopped. They run for a last backup all the same, and for who has handed over data
// and waits until it is seen to work. Nor are they stopped while a pod alone keeps a volume from being deleted.
func Hibernating(o *observed.Cluster) bool {
	wakes := volumegrant.Granted(o) || o.Deleting() && finalbackup.Due(o)
	return o.Cluster.Spec.Hibernate && !wakes && !endangered(o)
}

func endangered(o *observed.Cluster) bool { return !o.IdleSet() && availability.Endangered(o) != "" }

const Message = "All instances are stopped, and their volumes are kept, as spec.hibernate requests."

// AwaitWaking ends the pass of a cluster that sleeps.
func AwaitWaking(_ context.Context, o *observed.Cluster) flow.Outcome {
	switch {
	case !Hibernating(o):
		return flow.Next
	case !o.Stopped():
		return flow.Poll(pace.BusyInterval, v1alpha1.ReasonHibernated, "PostgreSQL is being stopped."+availability.Stuck(o))
	}
	if o.CertificatesReady.Reason == v1alpha1.ReasonApplying {
		return flow.Poll(pace.UnknownInterval, v1alpha1.ReasonHibernated, Message) // clients are getting a CA
	}
	return flow.Wait(v1alpha1.ReasonHibernated, Message)
}

// Condition says that nothing runs because nothing shall; an empty reason: it shall.
func Condition(o *observed.Cluster) condition.Finding {
	switch {
	case o.Cluster.Spec.Hibernate && endangered(o):
		return condition.False(v1alpha1.ReasonClaimDeleted, "The cluster is not stopped, although spec.hibernate requests it: "+availability.Endangered(o))
	case !Hibernating(o):
		return condition.Finding{}
	case !o.Stopped():
		return condition.False(v1alpha1.ReasonApplying, "PostgreSQL is being stopped, as spec.hibernate requests."+availability.Stuck(o))
	}
	return condition.True(v1alpha1.ReasonHibernated, Message)
}
