package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
)

// expandClaims grants every larger request of a bound claim. A folder has no size of its own, so all there is to do
// is to say so: first on the volume, then on the claim, which is the order that kubelet relies on.
func expandClaims(ctx context.Context, clients kubernetes.Interface) {
	factory := informers.NewSharedInformerFactory(clients, 0)
	claims := factory.Core().V1().PersistentVolumeClaims().Informer()
	grow := func(object any) {
		claim, ok := object.(*corev1.PersistentVolumeClaim)
		if !ok || !wantsMore(claim) {
			return
		}
		if err := expand(ctx, clients, claim); err != nil {
			klog.FromContext(ctx).Error(err, "expand", "claim", klog.KObj(claim))
		}
	}
	_, err := claims.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    grow,
		UpdateFunc: func(_, object any) { grow(object) },
	})
	if err != nil {
		klog.FromContext(ctx).Error(err, "watch claims")
		return
	}
	factory.Start(ctx.Done())
	<-ctx.Done()
}

func wantsMore(claim *corev1.PersistentVolumeClaim) bool {
	if claim.Status.Phase != corev1.ClaimBound || claim.Annotations["volume.kubernetes.io/storage-provisioner"] != provisionerName {
		return false
	}
	asked, have := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
	return asked.Cmp(have) > 0
}

func expand(ctx context.Context, clients kubernetes.Interface, claim *corev1.PersistentVolumeClaim) error {
	asked := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	volumes, claims := clients.CoreV1().PersistentVolumes(), clients.CoreV1().PersistentVolumeClaims(claim.Namespace)
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		volume, err := volumes.Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		volume.Spec.Capacity[corev1.ResourceStorage] = asked
		_, err = volumes.Update(ctx, volume, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("volume %s: %w", claim.Spec.VolumeName, err)
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		fresh, err := claims.Get(ctx, claim.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		fresh.Status.Capacity[corev1.ResourceStorage] = asked
		_, err = claims.UpdateStatus(ctx, fresh, metav1.UpdateOptions{})
		return err
	})
}
