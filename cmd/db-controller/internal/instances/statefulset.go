package instances

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/apply"
	"howdah.dev/howdah/cmd/db-controller/internal/availability"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/cmd/db-controller/internal/desired"
	"howdah.dev/howdah/cmd/db-controller/internal/hibernation"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/pace"
	"howdah.dev/howdah/cmd/db-controller/internal/scaling"
	"howdah.dev/howdah/cmd/db-controller/internal/volumegrant"
	"howdah.dev/howdah/pkg/flow"
)

// StopInstances stops PostgreSQL in order, and waits until all pods are gone.
func (s *Steps) StopInstances(ctx context.Context, o *observed.Cluster) flow.Outcome {
	if o.StatefulSet() != nil && !o.IdleSet() || o.Orphaned() {
		if err := s.Put(ctx, o, desired.StatefulSet(o, 0)); err != nil {
			return flow.Retry(err)
		}
		return flow.Poll(pace.BusyInterval, v1alpha1.ReasonDeleting, "PostgreSQL is being stopped.")
	}
	if !o.Stopped() {
		return flow.Poll(pace.BusyInterval, v1alpha1.ReasonDeleting, "PostgreSQL is being stopped."+availability.Stuck(o))
	}
	return flow.Next
}

// EnsureStatefulSet keeps the instances running, or down while the volumes are somebody else's. PostgreSQL is started
// only when nobody else writes to its volume.
func (s *Steps) EnsureStatefulSet(ctx context.Context, o *observed.Cluster) flow.Outcome {
	replicas := scaling.Replicas(o)
	switch {
	case volumegrant.MustBeStopped(o) || hibernation.Hibernating(o):
		if o.StatefulSet() == nil && !o.Orphaned() && (o.LockToken() == "" || !o.HasRun()) {
			return flow.Next
		}
		replicas = 0 // with the token of the lock
	case o.IdleSet() && len(o.Workers) > 0:
		return flow.Poll(pace.BusyInterval, v1alpha1.ReasonStarting,
			fmt.Sprintf("Pod %s still writes to the volume; PostgreSQL starts when it has ended.", o.Workers[0].Name))
	}
	if err := s.markUsed(ctx, o, replicas); err != nil {
		return flow.Retry(err)
	}
	return s.PutAll(ctx, o, desired.StatefulSet(o, replicas))
}

// markUsed writes to the claims that instances are about to use, so that each is another version from then on. A db-controller that was held up after
// it had decided to delete one that no instance used may delete only the version that it saw: see storage.Steps.ReleaseRemoved. Once for each state of
// the cluster is enough, so that a process which dies after each write gets further.
func (s *Steps) markUsed(ctx context.Context, o *observed.Cluster, replicas int) error {
	used := o.Reach()
	switch set := o.StatefulSet(); {
	case set != nil:
		used = int(ptr.Deref(set.Spec.Replicas, 1))
	case !o.HasRun():
		return nil // no instance was ever removed
	}
	state := wantedBy(o)
	for ordinal := used; ordinal < replicas; ordinal++ {
		for _, claim := range observed.ClaimsOf(o, ordinal) {
			if claim.Annotations[component.AnnotationUsedFor] == state {
				continue
			}
			marked := claim.DeepCopy()
			metav1.SetMetaDataAnnotation(&marked.ObjectMeta, component.AnnotationUsedFor, state)
			if err := s.Client.Patch(ctx, marked, client.MergeFrom(claim), client.FieldOwner(apply.FieldManager)); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("mark PersistentVolumeClaim %s as used: %w", claim.Name, err)
			}
		}
	}
	return nil
}

// wantedBy is another text after each change of how many instances are wanted, and of the StatefulSet. An instance may be removed again before the
// StatefulSet had it.
func wantedBy(o *observed.Cluster) string {
	text := fmt.Sprintf("generation %d", o.Cluster.Generation)
	if applied := o.Cluster.Status.AppliedReplicas(); applied != nil {
		text += " at " + applied.Since.UTC().Format(time.RFC3339)
	}
	if set := o.StatefulSet(); set != nil {
		text += fmt.Sprintf(" of %s/%d", set.UID, set.Generation)
	}
	return text
}

// RefreshConfig tells the agents which configuration to apply. A change of an annotation also has kubelet bring the
// new content of ConfigMap and Secrets into the pod at once, rather than within a minute or two.
func (s *Steps) RefreshConfig(ctx context.Context, o *observed.Cluster) flow.Outcome {
	wanted := desired.Annotations(o)
	for i := range o.Pods {
		pod := &o.Pods[i]
		changed := pod.DeepCopy()
		for name, value := range wanted {
			metav1.SetMetaDataAnnotation(&changed.ObjectMeta, name, value)
		}
		if !pod.DeletionTimestamp.IsZero() || maps.Equal(pod.Annotations, changed.Annotations) {
			continue
		}
		if err := s.Client.Patch(ctx, changed, client.MergeFrom(pod), client.FieldOwner(apply.FieldManager)); client.IgnoreNotFound(err) != nil {
			return flow.Retry(fmt.Errorf("annotate pod %s: %w", pod.Name, err))
		}
	}
	return flow.Next
}

// RenewStatefulSet takes a StatefulSet away whose claims have another size or class than is wanted, or that another Service governs
// (one of an earlier suite), as neither can be changed in it, and leaves its pods alone. It is then created again and adopts
// them, so that nothing is restarted. Should we end in between, there is a cluster with pods and without a StatefulSet, which
// is created as usual: see observed.Cluster.Orphaned. While it fences a volume lock, it stays.
func (s *Steps) RenewStatefulSet(ctx context.Context, o *observed.Cluster) flow.Outcome {
	set := o.StatefulSet()
	if set == nil || volumegrant.MustBeStopped(o) || desired.ClaimsShaped(o, set) && set.Spec.ServiceName == o.Names.Any() {
		return flow.Next
	}
	if set.DeletionTimestamp.IsZero() {
		options := []client.DeleteOption{client.Preconditions{UID: &set.UID}, client.PropagationPolicy(metav1.DeletePropagationOrphan)}
		if err := s.Client.Delete(ctx, set, options...); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return flow.Retry(fmt.Errorf("delete StatefulSet %s: %w", set.Name, err))
		}
		log.FromContext(ctx).Info("Deleted object and left its pods", "kind", "StatefulSet", "name", set.Name)
	}
	if desired.ClaimsShaped(o, set) {
		return flow.Poll(pace.BusyInterval, v1alpha1.ReasonApplying, fmt.Sprintf("StatefulSet %s is being created again; its pods keep running.", set.Name))
	}
	size, reason := volume.Size(o.Cluster), v1alpha1.ReasonVolumesGrowing
	if move := o.Cluster.Status.StorageMove; move != nil && move.State == v1alpha1.StorageMoveMoving {
		reason = v1alpha1.ReasonStorageMoving
	}
	return flow.Poll(pace.BusyInterval, reason,
		fmt.Sprintf("StatefulSet %s is being created again with volumes of %s; its pods keep running.", set.Name, size.String()))
}

// RemovePodsService removes it once no pod is named by it: agents of that suite look for each other by those names.
func (s *Steps) RemovePodsService(ctx context.Context, o *observed.Cluster) flow.Outcome {
	service := o.Live[observed.Key("Service", o.Names.Pods())]
	if service == nil || slices.ContainsFunc(o.Pods, func(pod corev1.Pod) bool { return pod.Spec.Subdomain == service.GetName() }) {
		return flow.Next
	}
	return flow.Retry(s.Remove(ctx, service))
}
