//go:build integration

package cluster

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/howdah/pkg/protocol"
)

// volumes are what the controllers of claims do.
type volumes struct {
	// bind claims to volumes of the size that they ask for.
	bind bool
	// resize volumes when their claims ask for more.
	resize bool
	// gone are the claims that went with their data, and wrong those of them that an instance might have needed.
	gone, wrong []string
}

// fenced says whether the agents are told that the PostgreSQL of an instance is to be stopped.
func (s *standIn) fenced(ctx context.Context, cluster, instance string) bool {
	config := s.config(ctx, cluster)
	return config != nil && config.Failover != nil && slices.Contains(config.Failover.Fenced, instance)
}

// leaves says whether a claim is being deleted.
func (s *standIn) leaves(ctx context.Context, name string) bool {
	claim := &corev1.PersistentVolumeClaim{}
	return s.client.Get(ctx, client.ObjectKey{Namespace: s.ns, Name: name}, claim) == nil && !claim.DeletionTimestamp.IsZero()
}

// release does what Kubernetes does with a claim that was deleted, once no pod uses it.
func (s *standIn) release(ctx context.Context, claim *corev1.PersistentVolumeClaim) {
	instance := protocol.InstanceOf(claim.Name)
	if err := s.client.Get(ctx, client.ObjectKey{Namespace: s.ns, Name: instance}, &corev1.Pod{}); !apierrors.IsNotFound(err) {
		return
	}
	claim.Finalizers = nil
	if s.client.Update(ctx, claim) != nil {
		return
	}
	s.volumes.gone = append(s.volumes.gone, instance)
	if cluster := claim.Labels["howdah.dev/cluster"]; s.leaders[cluster] == instance || !s.fenced(ctx, cluster, instance) {
		s.volumes.wrong = append(s.volumes.wrong, instance)
	}
}

// runClaims does what binds claims to volumes, and what enlarges them.
func (s *standIn) runClaims(ctx context.Context) {
	claims := &corev1.PersistentVolumeClaimList{}
	if !s.volumes.bind || s.client.List(ctx, claims, client.InNamespace(s.ns)) != nil {
		return
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		if !claim.DeletionTimestamp.IsZero() {
			s.release(ctx, claim)
			continue
		}
		asked, has := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
		if claim.Status.Phase == corev1.ClaimBound && (!s.volumes.resize || asked.Cmp(has) <= 0) {
			continue
		}
		claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, corev1.ResourceList{corev1.ResourceStorage: asked}
		_ = s.client.Status().Update(ctx, claim)
	}
}

// orphan does what the garbage collector does when a StatefulSet is deleted and its pods are to stay.
func (s *standIn) orphan(ctx context.Context, set *appsv1.StatefulSet, pods []corev1.Pod) {
	for i := range pods {
		if metav1.IsControlledBy(&pods[i], set) {
			pods[i].OwnerReferences = nil
			if s.client.Update(ctx, &pods[i]) != nil {
				return
			}
		}
	}
	set.Finalizers = slices.DeleteFunc(set.Finalizers, func(f string) bool { return f == metav1.FinalizerOrphanDependents })
	_ = s.client.Update(ctx, set)
}

// adopt does what the StatefulSet's controller does with pods that nobody owns.
func (s *standIn) adopt(ctx context.Context, set *appsv1.StatefulSet, pods []corev1.Pod) {
	for i := range pods {
		pod := &pods[i]
		if metav1.GetControllerOf(pod) != nil || !pod.DeletionTimestamp.IsZero() || !selects(set, pod) {
			continue
		}
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
		_ = s.client.Update(ctx, pod)
	}
}

func selects(set *appsv1.StatefulSet, pod *corev1.Pod) bool {
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	return err == nil && selector.Matches(labels.Set(pod.Labels))
}
