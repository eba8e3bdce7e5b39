package cluster

import (
	"context"
	"fmt"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
)

// handedOver is the instance whose volume has what is handed over. It is the first that the asker was granted; when an
// adoption is taken back, the data of before is still where it was.
func (w *world) handedOver(ask *protocol.LockRequest) string {
	if named := ask.Handover.Instance; named != "" {
		return named
	}
	for _, answer := range w.cluster.Status.VolumeLocks {
		if answer.RequesterUID == ask.UID && answer.Token == ask.Request.Token && len(answer.Volumes) > 0 {
			return answer.Volumes[0].Instance
		}
	}
	if begun := w.cluster.Status.DataInstance; begun != "" {
		return begun
	}
	return w.names.Instance(w.dataInstance())
}

// beginOn records which instance begins the data generation.
func (w *world) beginOn(instance string) {
	w.cluster.Status.DataInstance = instance
	if w.hasRun() {
		w.cluster.Status.Primary = instance // as nobody was on this data since
	}
}

// settleBeginning records who has every commit before a Lease is made in place of one that is gone: nothing else would
// keep an instance that was left behind from beginning. An agent that holds the Lease writes it again as it was.
func (r *Reconciler) settleBeginning(_ context.Context, w *world) flow.Outcome {
	data := w.names.Instance(w.dataInstance())
	if !w.lacksLease() || w.cluster.Status.DataInstance == data {
		return flow.Next
	}
	w.cluster.Status.DataInstance = data
	return flow.Save(v1alpha1.ReasonApplying, fmt.Sprintf("The Lease %s is being made; %s has every commit.", w.names.Lease(), data))
}

// lacksLease: the agents have nothing to elect over.
func (w *world) lacksLease() bool { return w.electing() && w.leaseRead && w.lease == nil }

// beginningTold: all pods were told of the configuration that says who begins.
func (w *world) beginningTold() bool {
	for i := range w.pods {
		if w.pods[i].Annotations[v1alpha1.AnnotationConfigHash] != w.agentConfig().Hash() && w.pods[i].DeletionTimestamp.IsZero() {
			return false
		}
	}
	return true
}
