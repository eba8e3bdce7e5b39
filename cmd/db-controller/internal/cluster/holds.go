package cluster

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
)

// adoptHandover records that the cluster runs on what the holder hands over from now on. Only then a pod is started on it.
func (r *Reconciler) adoptHandover(_ context.Context, w *world) flow.Outcome {
	status := &w.cluster.Status
	ask := protocol.PendingHandover(status.VolumeLocks, w.asks)
	if ask == nil {
		return flow.Next
	}
	handover, instance := ask.Handover, w.handedOver(ask)
	if status.DataGeneration != handover.DataGeneration {
		status.PreviousDataGeneration = status.DataGeneration
		if !w.hasRun() {
			status.PreviousDataGeneration = "" // there was nothing yet
		}
		status.DataGeneration = handover.DataGeneration
	}
	w.beginOn(instance)
	status.SystemIdentifier = handover.SystemIdentifier
	status.MajorVersion = handover.MajorVersion
	status.Version = fmt.Sprint(handover.MajorVersion)
	status.Image = handover.Image
	status.Timeline = 0
	status.VolumeLocks = protocol.Adopt(status.VolumeLocks, ask)
	return flow.Save(v1alpha1.ReasonStarting, fmt.Sprintf("The data of %s %s is being taken over.", ask.Kind, ask.Name))
}

// answerHolds says to everybody who asks for the volumes how their ask stands.
func (r *Reconciler) answerHolds(_ context.Context, w *world) flow.Outcome {
	answers := protocol.VolumeLocks(w.cluster.Status.VolumeLocks, w.asks, w.holdFacts())
	if equality.Semantic.DeepEqual(answers, w.cluster.Status.VolumeLocks) {
		return flow.Next
	}
	w.cluster.Status.VolumeLocks = answers
	if w.held() && w.hasRun() {
		// The Lease speaks of the data of before; whose volume the new data comes onto has to be known beyond that.
		w.cluster.Status.Primary = w.names.Instance(w.dataInstance())
	}
	reason, message := w.heldBy()
	if reason == "" {
		reason, message = v1alpha1.ReasonStarting, "The volumes are the cluster's again."
	}
	return flow.Save(reason, message)
}

// release records which data generations nobody wants any more; the instances are told with their configuration.
func (r *Reconciler) release(_ context.Context, w *world) flow.Outcome {
	status := &w.cluster.Status
	if slices.Equal(w.released, status.ReleasedDataGenerations) {
		return flow.Next
	}
	status.ReleasedDataGenerations = w.released
	if slices.Contains(w.released, status.PreviousDataGeneration) {
		status.PreviousDataGeneration = ""
	}
	return flow.Save(v1alpha1.ReasonApplying, "Data that nobody wants any more is being removed.")
}

func (w *world) holdFacts() protocol.LockFacts {
	facts := protocol.LockFacts{}
	for _, claim := range w.volumesMade() {
		facts.Volumes = append(facts.Volumes, v1alpha1.LockedVolume{Instance: protocol.InstanceOf(claim.Name), ClaimName: claim.Name})
	}
	facts.Stopped = w.vacated() && len(facts.Volumes) > 0
	if w.deleting() {
		facts.Refusal = "the PostgresCluster is being deleted"
	}
	return facts
}

// mustBeStopped: somebody has the volumes, or will.
func (w *world) mustBeStopped() bool {
	return protocol.MustBeStopped(w.cluster.Status.VolumeLocks, w.asks)
}

// held: somebody has been granted the volumes and has not given them back.
func (w *world) held() bool {
	for _, answer := range w.cluster.Status.VolumeLocks {
		if answer.State == v1alpha1.VolumeLockGranted || answer.State == v1alpha1.VolumeLockAdopted {
			return true
		}
	}
	return false
}

// heldBy says for whom PostgreSQL is stopped; an empty reason: for nobody.
func (w *world) heldBy() (reason, message string) {
	holder := protocol.Holder(w.cluster.Status.VolumeLocks, w.asks)
	if holder == nil || !w.mustBeStopped() {
		return "", ""
	}
	for _, answer := range w.cluster.Status.VolumeLocks {
		if answer.RequesterUID == holder.UID && answer.State == v1alpha1.VolumeLockGranted {
			return v1alpha1.ReasonVolumesLocked, fmt.Sprintf("%s %s has the volumes.", holder.Kind, holder.Name)
		}
	}
	return v1alpha1.ReasonVolumesLocked, fmt.Sprintf("PostgreSQL is being stopped for %s %s.%s", holder.Kind, holder.Name, w.stuck())
}

// awaitHoldOver waits until the volumes are the cluster's again.
func (r *Reconciler) awaitHoldOver(_ context.Context, w *world) flow.Outcome {
	reason, message := w.heldBy()
	if reason == "" {
		return flow.Next
	}
	if !w.stopped() {
		return flow.Poll(busyInterval, reason, message)
	}
	return flow.Wait(reason, message)
}

// awaitRelease lets a deletion wait for who has the volumes.
func (r *Reconciler) awaitRelease(_ context.Context, w *world) flow.Outcome {
	if !w.held() {
		return flow.Next
	}
	holder := protocol.Holder(w.cluster.Status.VolumeLocks, w.asks)
	if holder == nil {
		return flow.Poll(busyInterval, v1alpha1.ReasonVolumesLocked, "The deletion waits for the volumes.")
	}
	return flow.Poll(quietInterval, v1alpha1.ReasonVolumesLocked, fmt.Sprintf(
		"The deletion waits for %s %s, which has the volumes: wait until it has ended, or cancel it with spec.cancel.", holder.Kind, holder.Name))
}
