package cluster

import (
	"context"
	"fmt"

	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
)

// maxInstances that a cluster can have.
const maxInstances = 9

// wanted is the number of instances that spec asks for.
func (w *world) wanted() int { return max(1, int(w.cluster.Spec.Instances)) }

// toldInstances is what the agents are told. They take no lease while it is 1, so it is 1 only when there is no pod but the
// first and none can come; and it is more before others are made.
func (w *world) toldInstances() int {
	if w.wanted() == 1 && w.toldAlone() {
		return 1
	}
	told := max(w.wanted(), w.reach())
	if w.idleSet() {
		told = max(told, w.lastPrimary()+1)
	}
	return told
}

// toldAlone: the agent was told that it is the only one. What can't be read says nothing.
func (w *world) toldAlone() bool {
	last := w.lastConfig()
	return last.Cluster == w.cluster.Name && last.Instances <= 1
}

// electing: the agents are told of more than one instance.
func (w *world) electing() bool { return w.toldInstances() > 1 }

// endsElections: the next thing that the agents are told may be that a single one of them is left.
func (w *world) endsElections() bool { return w.wanted() == 1 && w.begun() && !w.toldAlone() }

// reach is one more than the highest ordinal that has a pod or may get one.
func (w *world) reach() int {
	reach := 0
	for i := range w.pods {
		reach = max(reach, w.names.Ordinal(w.pods[i].Name)+1)
	}
	if set := w.statefulSet(); set != nil {
		reach = max(reach, int(ptr.Deref(set.Spec.Replicas, 1)), int(set.Status.Replicas))
	}
	return reach
}

// replicas is how many pods the StatefulSet shall have now, on the way to what is wanted.
func (w *world) replicas() int {
	if w.orphaned() {
		return max(w.reach(), w.lastPrimary()+1) // as before it was made anew
	}
	if w.idleSet() {
		// The instance with the data is among them, wherever it is; the others can't begin without it.
		return max(w.wanted(), w.lastPrimary()+1)
	}
	now := int(ptr.Deref(w.statefulSet().Spec.Replicas, 1))
	switch {
	case now == 1 && w.wanted() > 1 && !w.firstElects():
		return now
	case now > w.wanted() && !w.primaryStays():
		return now
	}
	return w.wanted()
}

// firstElects: the only instance has taken the lease, so nobody else can.
func (w *world) firstElects() bool {
	agent := w.agent(0)
	return agent != nil && agent.Election != nil && agent.Election.Leader == w.names.Instance(0)
}

// primaryStays: the primary is none of the instances that are to go.
func (w *world) primaryStays() bool {
	primary := w.primary()
	return primary >= 0 && primary < w.wanted() && w.serving(primary)
}

// leaseSeen: an agent says that somebody holds the lease, and that the API server is there.
func (w *world) leaseSeen() bool {
	for _, agent := range w.agents {
		if agent.Election != nil && agent.Election.Leader != "" && !agent.Election.Failsafe {
			return true
		}
	}
	return false
}

// freeInstances has the primary's role given to an instance that stays, when the one that has it is to go.
func (r *Reconciler) freeInstances(ctx context.Context, w *world) flow.Outcome {
	primary := w.primary()
	if w.idleSet() || w.reach() <= w.wanted() || primary < w.wanted() {
		return flow.Next
	}
	name := w.names.Instance(primary)
	why := fmt.Sprintf("%s is primary, and is to be taken away.", name)
	heir := w.heir(w.wanted())
	if heir < 0 {
		return flow.Poll(busyInterval, v1alpha1.ReasonScaling, why+" It waits for an instance that stays to be fit to take over: "+w.whyNoHeir())
	}
	return r.giveAway(ctx, w, "scale", heir, why)
}

// whyNoHeir is what stands in the way of the instances that stay.
func (w *world) whyNoHeir() string {
	for ordinal := range w.wanted() {
		if why := w.unsettled(ordinal); why != "" {
			return why
		}
	}
	return ""
}

// releaseRemoved deals with the volumes of instances that were taken away, as deletionPolicy says. It waits until the
// primary serves among those that stay: until then what was taken away may be all that there is.
func (r *Reconciler) releaseRemoved(ctx context.Context, w *world) flow.Outcome {
	if !w.primaryStays() || w.reach() > w.wanted() {
		return flow.Next
	}
	for _, claim := range w.volumesMade() {
		removed := w.names.Ordinal(protocol.InstanceOf(claim.Name)) >= w.wanted()
		if !removed || !volume.Belongs(claim, w.cluster) || !claim.DeletionTimestamp.IsZero() {
			continue
		}
		if err := r.releaseVolume(ctx, w, claim); err != nil {
			return flow.Retry(err)
		}
	}
	return flow.Next
}

// scaling says how far the number of instances is from what is wanted; an empty reason: it is the one.
func scaling(w *world) finding {
	set := w.statefulSet()
	if set == nil || w.idleSet() {
		return finding{}
	}
	switch now := int(ptr.Deref(set.Spec.Replicas, 1)); {
	case now < w.wanted():
		return no(v1alpha1.ReasonScaling, fmt.Sprintf("More instances are made once the agent of %s has taken the Lease %s.", w.names.Instance(0), w.names.Lease()))
	case now > w.wanted() && w.primary() < 0:
		return no(v1alpha1.ReasonScaling, "Instances are taken away once there is a primary.")
	case now > w.wanted():
		return no(v1alpha1.ReasonScaling, fmt.Sprintf("%s gives its role to an instance that stays.", w.names.Instance(w.primary())))
	case w.reach() > w.wanted():
		return no(v1alpha1.ReasonScaling, fmt.Sprintf("Pod %s is going away.%s", w.names.Instance(w.reach()-1), w.stuck()))
	}
	return finding{}
}
