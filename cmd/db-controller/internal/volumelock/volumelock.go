package volumelock

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/availability"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/pace"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
)

// handedOver is the instance whose volume has what is handed over. It is the first that the asker was granted; when an
// adoption is taken back, the data of before is still where it was.
func handedOver(o *observed.Cluster, ask *protocol.LockRequest) string {
	if named := ask.Handover.Instance; named != "" {
		return named
	}
	for _, answer := range o.Cluster.Status.VolumeLocks {
		if answer.RequesterUID == ask.UID && answer.Token == ask.Request.Token && len(answer.Volumes) > 0 {
			return answer.Volumes[0].Instance
		}
	}
	if begun := o.Cluster.Status.DataInstance; begun != "" {
		return begun
	}
	return o.Names.Instance(o.DataInstance())
}

// beginOn records which instance begins the data generation.
func beginOn(o *observed.Cluster, instance string) {
	o.Cluster.Status.DataInstance = instance
	if o.HasRun() {
		o.Cluster.Status.Primary = instance // as nobody was on this data since
	}
}

// AdoptHandover records that the cluster runs on what the holder hands over from now on. Only then a pod is started on it.
func AdoptHandover(_ context.Context, o *observed.Cluster) flow.Outcome {
	status := &o.Cluster.Status
	ask := protocol.PendingHandover(status.VolumeLocks, o.Requests)
	if ask == nil {
		return flow.Next
	}
	handover, instance := ask.Handover, handedOver(o, ask)
	if status.DataGeneration != handover.DataGeneration {
		status.PreviousDataGeneration = status.DataGeneration
		if !o.HasRun() {
			status.PreviousDataGeneration = "" // there was nothing yet
		}
		status.DataGeneration = handover.DataGeneration
	}
	beginOn(o, instance)
	status.SystemIdentifier = handover.SystemIdentifier
	status.MajorVersion = handover.MajorVersion
	status.Version = fmt.Sprint(handover.MajorVersion)
	status.Image = handover.Image
	status.Timeline = 0
	status.VolumeLocks = protocol.Adopt(status.VolumeLocks, ask)
	return flow.Save(v1alpha1.ReasonStarting, fmt.Sprintf("The data of %s %s is being taken over.", ask.Kind, ask.Name))
}

// Respond says to everybody who asks for the volumes how their ask stands.
func Respond(_ context.Context, o *observed.Cluster) flow.Outcome {
	answers := protocol.VolumeLocks(o.Cluster.Status.VolumeLocks, o.Requests, facts(o))
	if equality.Semantic.DeepEqual(answers, o.Cluster.Status.VolumeLocks) {
		return flow.Next
	}
	o.Cluster.Status.VolumeLocks = answers
	if Granted(o) && o.HasRun() {
		// The Lease speaks of the data of before; whose volume the new data comes onto has to be known beyond that.
		o.Cluster.Status.Primary = o.Names.Instance(o.DataInstance())
	}
	reason, message := LockedBy(o)
	if reason == "" {
		reason, message = v1alpha1.ReasonStarting, "The volumes are the cluster's again."
	}
	return flow.Save(reason, message)
}

func facts(o *observed.Cluster) protocol.LockFacts {
	facts := protocol.LockFacts{}
	for _, claim := range o.ExistingClaims() {
		facts.Volumes = append(facts.Volumes, v1alpha1.LockedVolume{Instance: protocol.InstanceOf(claim.Name), ClaimName: claim.Name})
	}
	facts.Stopped = o.Vacated() && len(facts.Volumes) > 0
	if o.Deleting() {
		facts.Refusal = "the PostgresCluster is being deleted"
	}
	return facts
}

// MustBeStopped: somebody has the volumes, or will.
func MustBeStopped(o *observed.Cluster) bool {
	return protocol.MustBeStopped(o.Cluster.Status.VolumeLocks, o.Requests)
}

// Granted: somebody has been granted the volumes and has not given them back.
func Granted(o *observed.Cluster) bool {
	for _, answer := range o.Cluster.Status.VolumeLocks {
		if answer.State == v1alpha1.VolumeLockGranted || answer.State == v1alpha1.VolumeLockAdopted {
			return true
		}
	}
	return false
}

// LockedBy says for whom PostgreSQL is stopped; an empty reason: for nobody.
func LockedBy(o *observed.Cluster) (reason, message string) {
	holder := protocol.Holder(o.Cluster.Status.VolumeLocks, o.Requests)
	if holder == nil || !MustBeStopped(o) {
		return "", ""
	}
	for _, answer := range o.Cluster.Status.VolumeLocks {
		if answer.RequesterUID == holder.UID && answer.State == v1alpha1.VolumeLockGranted {
			return v1alpha1.ReasonVolumesLocked, fmt.Sprintf("%s %s has the volumes.", holder.Kind, holder.Name)
		}
	}
	return v1alpha1.ReasonVolumesLocked, fmt.Sprintf("PostgreSQL is being stopped for %s %s.%s", holder.Kind, holder.Name, availability.Stuck(o))
}

// AwaitUnlocked waits until the volumes are the cluster's again.
func AwaitUnlocked(_ context.Context, o *observed.Cluster) flow.Outcome {
	reason, message := LockedBy(o)
	if reason == "" {
		return flow.Next
	}
	if !o.Stopped() {
		return flow.Poll(pace.BusyInterval, reason, message)
	}
	return flow.Wait(reason, message)
}

// AwaitRelease lets a deletion wait for who has the volumes.
func AwaitRelease(_ context.Context, o *observed.Cluster) flow.Outcome {
	if !Granted(o) {
		return flow.Next
	}
	holder := protocol.Holder(o.Cluster.Status.VolumeLocks, o.Requests)
	if holder == nil {
		return flow.Poll(pace.BusyInterval, v1alpha1.ReasonVolumesLocked, "The deletion waits for the volumes.")
	}
	return flow.Poll(pace.QuietInterval, v1alpha1.ReasonVolumesLocked, fmt.Sprintf(
		"The deletion waits for %s %s, which has the volumes: wait until it has ended, or cancel it with spec.cancel.", holder.Kind, holder.Name))
}
