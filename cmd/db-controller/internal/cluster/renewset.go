package cluster

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/statefulset"
	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/pkg/flow"
)

// renewStatefulSet takes a StatefulSet away whose claims have another size than is wanted, or that another Service governs
// (one of a suite of before), as neither can be changed in it, and leaves its pods alone. It is then made again and adopts
// them, so that nothing is restarted. Should we end in between, there is a cluster with pods and without a StatefulSet, which
// is made as ever: see orphaned.
func (r *Reconciler) renewStatefulSet(ctx context.Context, w *world) flow.Outcome {
	set := w.statefulSet()
	if set == nil || w.claimsSized(set) && set.Spec.ServiceName == w.names.Any() {
		return flow.Next
	}
	if set.DeletionTimestamp.IsZero() {
		options := []client.DeleteOption{client.Preconditions{UID: &set.UID}, client.PropagationPolicy(metav1.DeletePropagationOrphan)}
		if err := r.Client.Delete(ctx, set, options...); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return flow.Retry(fmt.Errorf("delete StatefulSet %s: %w", set.Name, err))
		}
		log.FromContext(ctx).Info("Deleted object and left its pods", "kind", "StatefulSet", "name", set.Name)
	}
	if w.claimsSized(set) {
		return flow.Poll(busyInterval, v1alpha1.ReasonApplying, fmt.Sprintf("StatefulSet %s is being made anew; its pods run on.", set.Name))
	}
	size := volume.Size(w.cluster)
	return flow.Poll(busyInterval, v1alpha1.ReasonVolumesGrowing,
		fmt.Sprintf("StatefulSet %s is being made anew with volumes of %s; its pods run on.", set.Name, size.String()))
}

// claimsSized says that new claims of a StatefulSet would have the size that is wanted.
func (w *world) claimsSized(set *appsv1.StatefulSet) bool {
	for i := range set.Spec.VolumeClaimTemplates {
		size := volume.Asked(&set.Spec.VolumeClaimTemplates[i])
		if size.Cmp(volume.Size(w.cluster)) != 0 {
			return false
		}
	}
	return true
}

// buildSet is the StatefulSet as it is wanted, but for what can't be changed in one that is there.
func (w *world) buildSet(replicas int) *appsv1.StatefulSet {
	wanted := statefulset.Build(w.cluster, w.inputs(replicas))
	live := w.statefulSet()
	if live == nil || len(live.Spec.VolumeClaimTemplates) != len(wanted.Spec.VolumeClaimTemplates) {
		return wanted
	}
	for i := range live.Spec.VolumeClaimTemplates {
		wanted.Spec.VolumeClaimTemplates[i].Spec.Resources.Requests[corev1.ResourceStorage] = volume.Asked(&live.Spec.VolumeClaimTemplates[i])
	}
	wanted.Spec.ServiceName = live.Spec.ServiceName
	return wanted
}

// readPodsService looks in the cache for the headless Service that a suite of before made.
func (r *Reconciler) readPodsService(ctx context.Context, w *world) error {
	service := &corev1.Service{}
	found, err := read(ctx, r.Client, w.cluster.Namespace, w.names.Pods(), service)
	if found && !foreign(service, w.cluster) {
		r.remember(w, service)
	}
	return err
}

// removePodsService removes it once no pod is named by it: agents of then look for each other by those names.
func (r *Reconciler) removePodsService(ctx context.Context, w *world) flow.Outcome {
	service := w.live[key("Service", w.names.Pods())]
	if service == nil || slices.ContainsFunc(w.pods, func(pod corev1.Pod) bool { return pod.Spec.Subdomain == service.GetName() }) {
		return flow.Next
	}
	return flow.Retry(r.remove(ctx, service))
}

// orphaned: there are pods that run, and no StatefulSet that could stop them or make another.
func (w *world) orphaned() bool {
	if w.live[key("StatefulSet", w.names.StatefulSet())] != nil {
		return false
	}
	for i := range w.pods {
		if w.pods[i].DeletionTimestamp.IsZero() {
			return true
		}
	}
	return false
}
