package storage

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/cmd/db-controller/internal/condition"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/phrase"
)

// TooSmall says that a claim requests less than is desired, and that its instance is to keep it.
func TooSmall(o *observed.Cluster, claim *corev1.PersistentVolumeClaim) bool {
	requested := volume.Requested(claim)
	return requested.Cmp(volume.SizeOf(o.Cluster, claim)) < 0 && !volume.Outgoing(o.Cluster, claim)
}

// barrier says in a sentence why a claim can't be enlarged; empty: it can.
func barrier(o *observed.Cluster, claim *corev1.PersistentVolumeClaim) string {
	name := ptr.Deref(claim.Spec.StorageClassName, "")
	class := o.Classes[name]
	switch {
	case name == "":
		return "it has no StorageClass, so it can't grow"
	case class == nil:
		return fmt.Sprintf("its StorageClass %s was deleted, so it can't grow. If its provisioner still runs, create that StorageClass again, with allowVolumeExpansion: true", name)
	case !ptr.Deref(class.AllowVolumeExpansion, false):
		return fmt.Sprintf("StorageClass %s doesn't let volumes grow. If its provisioner supports that, set allowVolumeExpansion: true there", name)
	}
	return ""
}

// Growing says how far the volumes are from the size that is wanted; an empty reason: they have it.
func Growing(o *observed.Cluster) condition.Finding {
	for _, look := range []func(*observed.Cluster, *corev1.PersistentVolumeClaim) condition.Finding{barred, refusedGrowth, onItsWay} {
		for _, claim := range observed.CurrentVolumes(o) {
			if found := look(o, claim); found.Reason != "" {
				return found
			}
		}
	}
	return condition.Finding{}
}

func barred(o *observed.Cluster, claim *corev1.PersistentVolumeClaim) condition.Finding {
	if !TooSmall(o, claim) || claim.Status.Phase != corev1.ClaimBound {
		return condition.Finding{}
	}
	why := barrier(o, claim)
	if why == "" {
		return condition.Finding{}
	}
	requested, size := volume.Requested(claim), volume.SizeOf(o.Cluster, claim)
	otherwise := "Otherwise restore a backup into a new PostgresCluster with another class"
	if o.Wanted() > 1 && o.Cluster.Spec.Storage.WAL == nil {
		otherwise = "Otherwise move the instances to another class: set spec.storage.storageClassName, and spec.storage.move: {}"
	}
	if ptr.Deref(claim.Spec.StorageClassName, "") == "" { // nothing else helps
		otherwise = strings.Replace(otherwise, "Otherwise", "Instead,", 1)
	}
	return condition.False(v1alpha1.ReasonExpansionNotAllowed, fmt.Sprintf("PersistentVolumeClaim %s has %s instead of %s: %s. %s.",
		claim.Name, requested.String(), size.String(), why, otherwise))
}

func refusedGrowth(o *observed.Cluster, claim *corev1.PersistentVolumeClaim) condition.Finding {
	why := o.Refused[claim.Name]
	if why == "" && lacksSpace(o, claim) {
		why = volume.ResizeTrouble(claim)
	}
	if why == "" {
		return condition.Finding{}
	}
	size := volume.SizeOf(o.Cluster, claim)
	return condition.False(v1alpha1.ReasonExpansionFailed, fmt.Sprintf("PersistentVolumeClaim %s can't be enlarged to %s: %s", claim.Name, size.String(), phrase.Sentence(why)))
}

// lacksSpace says that a claim has a volume, and one that is smaller than is wanted.
func lacksSpace(o *observed.Cluster, claim *corev1.PersistentVolumeClaim) bool {
	capacity := volume.Capacity(claim)
	return !capacity.IsZero() && capacity.Cmp(volume.SizeOf(o.Cluster, claim)) < 0 && !volume.Outgoing(o.Cluster, claim)
}

func onItsWay(o *observed.Cluster, claim *corev1.PersistentVolumeClaim) condition.Finding {
	if !TooSmall(o, claim) && !lacksSpace(o, claim) {
		return condition.Finding{}
	}
	size, capacity := volume.SizeOf(o.Cluster, claim), volume.Capacity(claim)
	message := fmt.Sprintf("PersistentVolumeClaim %s grows from %s to %s", claim.Name, capacity.String(), size.String())
	switch {
	case claim.Status.Phase != corev1.ClaimBound:
		message = fmt.Sprintf("PersistentVolumeClaim %s grows to %s once it has a volume.", claim.Name, size.String())
	case volume.AwaitsNode(claim):
		message += "; its file system has yet to be enlarged, which happens where its pod runs."
	default:
		message += "."
	}
	if grown := kindOf(claim).grown(o); grown != nil && grown.Size.Cmp(size) == 0 {
		message += phrase.Prefixed(" ", grown.Message)
	}
	return condition.False(v1alpha1.ReasonVolumesGrowing, message)
}
