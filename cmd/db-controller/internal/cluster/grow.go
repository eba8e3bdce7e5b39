package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/pkg/flow"
)

// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get

// claims are those of the instances that there are or shall be, by their ordinals. Those that are on their way out, or
// were left behind, are not among them.
func (w *world) claims() []*corev1.PersistentVolumeClaim {
	var claims []*corev1.PersistentVolumeClaim
	for ordinal := range max(w.wanted(), w.reach()) {
		claim := w.claim(ordinal)
		if claim != nil && claim.DeletionTimestamp.IsZero() && !volume.IsRetained(claim) && volume.Belongs(claim, w.cluster) {
			claims = append(claims, claim)
		}
	}
	return claims
}

// tooSmall says that a claim asks for less than is wanted.
func (w *world) tooSmall(claim *corev1.PersistentVolumeClaim) bool {
	asked := volume.Asked(claim)
	return asked.Cmp(volume.Size(w.cluster)) < 0
}

// readClasses reads the StorageClasses of volumes that are to grow.
func (r *Reconciler) readClasses(ctx context.Context, w *world) error {
	w.classes = map[string]*storagev1.StorageClass{}
	for _, claim := range w.claims() {
		name := ptr.Deref(claim.Spec.StorageClassName, "")
		if _, known := w.classes[name]; known || name == "" || !w.tooSmall(claim) && !w.filling() {
			continue
		}
		class := &storagev1.StorageClass{}
		err := r.Live.Get(ctx, client.ObjectKey{Name: name}, class)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read StorageClass %s: %w", name, err)
		}
		w.classes[name] = nil
		if err == nil {
			w.classes[name] = class
		}
	}
	return nil
}

// barrier says in a sentence why a claim can't be enlarged; empty: it can.
func (w *world) barrier(claim *corev1.PersistentVolumeClaim) string {
	name := ptr.Deref(claim.Spec.StorageClassName, "")
	class := w.classes[name]
	switch {
	case name == "":
		return "it has no StorageClass, and only that could let it grow"
	case class == nil:
		return fmt.Sprintf("there is no StorageClass %s any more, and only that could let it grow", name)
	case !ptr.Deref(class.AllowVolumeExpansion, false):
		return fmt.Sprintf("StorageClass %s doesn't let volumes grow: if its provisioner can, set allowVolumeExpansion: true there", name)
	}
	return ""
}

// growVolumes asks for larger volumes. It is done whatever state the database is in: a full volume may be why it is down.
// What is refused for one claim stands in nobody's way.
func (r *Reconciler) growVolumes(ctx context.Context, w *world) flow.Outcome {
	for _, claim := range w.claims() {
		if !w.tooSmall(claim) || claim.Status.Phase != corev1.ClaimBound || w.barrier(claim) != "" {
			continue
		}
		if err := r.growVolume(ctx, w, claim); err != nil {
			return flow.Retry(err)
		}
	}
	return flow.Next
}

func (r *Reconciler) growVolume(ctx context.Context, w *world, claim *corev1.PersistentVolumeClaim) error {
	size, asked := volume.Size(w.cluster), volume.Asked(claim)
	err := r.Client.Patch(ctx, volume.Enlarged(claim, size), client.MergeFrom(claim), client.FieldOwner(FieldManager))
	switch {
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		w.refused[claim.Name] = err.Error()
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("enlarge PersistentVolumeClaim %s: %w", claim.Name, err)
	case err == nil:
		log.FromContext(ctx).Info("Asked for a larger volume", "name", claim.Name, "from", asked.String(), "to", size.String())
	}
	return nil
}

// growing says how far the volumes are from the size that is wanted; an empty reason: they have it.
func growing(w *world) finding {
	for _, look := range []func(*world, *corev1.PersistentVolumeClaim) finding{barred, refusedGrowth, onItsWay} {
		for _, claim := range w.claims() {
			if found := look(w, claim); found.reason != "" {
				return found
			}
		}
	}
	return finding{}
}

func barred(w *world, claim *corev1.PersistentVolumeClaim) finding {
	if !w.tooSmall(claim) || claim.Status.Phase != corev1.ClaimBound {
		return finding{}
	}
	why := w.barrier(claim)
	if why == "" {
		return finding{}
	}
	asked, size := volume.Asked(claim), volume.Size(w.cluster)
	otherwise := "else restore a backup into a new PostgresCluster with another class"
	if w.wanted() > 1 {
		otherwise = "else delete the claim and the pod of a replica, which is then made anew with a larger volume, and go on with the next one when it follows"
	}
	return no(v1alpha1.ReasonExpansionNotAllowed, fmt.Sprintf("PersistentVolumeClaim %s has %s, not the %s that is wanted: %s; %s.",
		claim.Name, asked.String(), size.String(), why, otherwise))
}

func refusedGrowth(w *world, claim *corev1.PersistentVolumeClaim) finding {
	why := w.refused[claim.Name]
	if why == "" && w.lacksSpace(claim) {
		why = volume.ResizeTrouble(claim)
	}
	if why == "" {
		return finding{}
	}
	size := volume.Size(w.cluster)
	return no(v1alpha1.ReasonExpansionFailed, fmt.Sprintf("PersistentVolumeClaim %s can't be enlarged to %s: %s", claim.Name, size.String(), sentence(why)))
}

// lacksSpace says that a claim has a volume, and one that is smaller than is wanted.
func (w *world) lacksSpace(claim *corev1.PersistentVolumeClaim) bool {
	capacity := volume.Capacity(claim)
	return !capacity.IsZero() && capacity.Cmp(volume.Size(w.cluster)) < 0
}

func onItsWay(w *world, claim *corev1.PersistentVolumeClaim) finding {
	if !w.tooSmall(claim) && !w.lacksSpace(claim) {
		return finding{}
	}
	size, capacity := volume.Size(w.cluster), volume.Capacity(claim)
	message := fmt.Sprintf("PersistentVolumeClaim %s grows from %s to %s", claim.Name, capacity.String(), size.String())
	switch {
	case claim.Status.Phase != corev1.ClaimBound:
		message = fmt.Sprintf("PersistentVolumeClaim %s grows to %s once it has a volume.", claim.Name, size.String())
	case volume.AwaitsNode(claim):
		message += "; its file system has yet to be enlarged, which happens where its pod runs."
	default:
		message += "."
	}
	if grown := w.cluster.Status.Storage; grown != nil && grown.Size.Cmp(size) == 0 {
		message += prefixed(" ", grown.Message)
	}
	return no(v1alpha1.ReasonVolumesGrowing, message)
}
