package storage

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/availability"
	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/cmd/db-controller/internal/finalbackup"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/protocol"
)

// whyKept says why the volume of an instance is left behind; nil: it is deleted. Data that a person has kept from being replaced or repaired is a reason of
// its own, unless a cluster is deleted without a final backup: there volumes are deleted only where a person has said so.
func whyKept(o *observed.Cluster, instance string) *volume.Why {
	wanted := finalbackup.Wanted(o.Cluster)
	why := whyLeft(o, instance, wanted)
	if why == nil && o.Deleting() && !wanted {
		return nil
	}
	return withHeldBack(o, instance, withCopies(o, instance, why))
}

// whyLeft says why what the cluster runs on, or may have to run on again, is left behind; nil: it needn't be. Where a final backup is wanted, nothing
// that it may lack is deleted, whatever deletionPolicy says of volumes. A final backup may be wanted and never taken, as of a cluster whose last primary
// has lost its volume: then those of the other instances may be all that is left.
func whyLeft(o *observed.Cluster, instance string, wanted bool) *volume.Why {
	if o.Deleting() && wanted {
		if why := onlyCopy(o, instance); why != nil {
			return why
		}
	}
	switch policy := o.Cluster.Spec.DeletionPolicy.Volumes; {
	case policy == v1alpha1.VolumesDelete:
		return nil
	case policy == v1alpha1.VolumesRetain:
		return &volume.Why{Reason: volume.ByPolicy, Message: "The PostgresCluster had spec.deletionPolicy.volumes: Retain."}
	case !wanted:
		return &volume.Why{Reason: volume.ByPolicy, Message: "The PostgresCluster takes no final backup, and spec.deletionPolicy.volumes is not set to Delete."}
	case o.Deleting() && availability.MayHaveServed(o) && !finalbackup.Taken(o):
		return &volume.Why{Reason: volume.NoFinalBackup, Message: "No final backup was taken."}
	}
	return nil
}

// onlyCopy says what the volume of an instance may have that neither the final backup nor the archive has; nil: nothing.
func onlyCopy(o *observed.Cluster, instance string) *volume.Why {
	if whose := o.PreviousOn[instance]; whose != "" {
		return &volume.Why{Reason: volume.PreviousData, Message: fmt.Sprintf(
			"It has the previous data of %[1]s, which is neither confirmed nor undone. status.previous.dataGeneration of %[1]s names its folder below generations.", whose)}
	}
	if !finalbackup.Taken(o) {
		return nil
	}
	if why := finalbackup.Unproven(o); why != "" {
		return &volume.Why{Reason: volume.NotArchived, Message: "Its last commits may not be archived. " + why}
	}
	return nil
}

// announce says in an event that a volume was left behind, why, and what to do with it, at the PostgresCluster and at the claim, which stays.
func (s *Steps) announce(o *observed.Cluster, claim *corev1.PersistentVolumeClaim, why *volume.Why) {
	kind, next := corev1.EventTypeWarning, "To use it, create the PostgresCluster again with spec.bootstrap.volumes.from: DeletedCluster."
	if !o.Deleting() {
		next = fmt.Sprintf("It is used again when spec.instances includes %s.", protocol.InstanceOf(claim.Name))
	}
	if why.Reason == volume.ByPolicy {
		kind = corev1.EventTypeNormal
	}
	note := fmt.Sprintf("PersistentVolumeClaim %s is kept. %s %s Delete it when you don't need it.", claim.Name, why.Message, next)
	s.Events.Eventf(o.Cluster, claim, kind, v1alpha1.ReasonVolumeRetained, "Retain", "%s", note)
	s.Events.Eventf(claim, nil, kind, v1alpha1.ReasonVolumeRetained, "Retain", "%s", note)
}
