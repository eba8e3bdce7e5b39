package place

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

// GrowingVolumes gives a cluster LimitVolumes that grow when their claims request more, while they are in use, as a CSI driver has disks grow.
func (p *Place) GrowingVolumes(cluster *v1alpha1.PostgresCluster, workers int) {
	p.Helper()
	p.LimitVolumes(cluster, workers)
	class := &storagev1.StorageClass{}
	p.Must(p.Get(p.Context(), client.ObjectKey{Name: p.Namespace}, class))
	class.AllowVolumeExpansion = ptr.To(true)
	p.Must(p.Update(p.Context(), class))
	go func() {
		_ = wait.PollUntilContextCancel(p.Context(), time.Second, true, func(ctx context.Context) (bool, error) {
			if err := p.growClaims(ctx); err != nil && ctx.Err() == nil {
				p.Logf("volumes can't be enlarged now: %v", err)
			}
			return false, nil
		})
	}()
}

// growClaims enlarges the volumes of the claims that request more than they have. One that has no volume yet may need a free one to grow first:
// a provisioner would create it as large as it is to be.
func (p *Place) growClaims(ctx context.Context) error {
	claims := &corev1.PersistentVolumeClaimList{}
	if err := p.List(ctx, claims, client.InNamespace(p.Namespace)); err != nil {
		return err
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		if ptr.Deref(claim.Spec.StorageClassName, "") != p.Namespace {
			continue
		}
		grow := p.growClaim
		if claim.Status.Phase == corev1.ClaimPending {
			grow = p.growFree
		}
		if err := grow(ctx, claim); err != nil {
			return fmt.Errorf("%s: %w", claim.Name, err)
		}
	}
	return nil
}

func (p *Place) growClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	volume, size := &corev1.PersistentVolume{}, claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if has := claim.Status.Capacity[corev1.ResourceStorage]; has.IsZero() || size.Cmp(has) <= 0 {
		return nil
	}
	if err := p.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, volume); err != nil {
		return err
	}
	if err := p.growVolume(ctx, volume, size); err != nil {
		return err
	}
	claim.Status.Capacity[corev1.ResourceStorage] = size
	return p.Status().Update(ctx, claim)
}

// growFree enlarges the volumes that nobody has, so that a claim can have one of them.
func (p *Place) growFree(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	volumes, size := &corev1.PersistentVolumeList{}, claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if err := p.List(ctx, volumes); err != nil {
		return err
	}
	for i := range volumes.Items {
		volume := &volumes.Items[i]
		has := volume.Spec.Capacity[corev1.ResourceStorage]
		if volume.Spec.StorageClassName != p.Namespace || volume.Status.Phase != corev1.VolumeAvailable || size.Cmp(has) <= 0 {
			continue
		}
		if err := p.growVolume(ctx, volume, size); err != nil {
			return err
		}
	}
	return nil
}

// growVolume enlarges a file system while it is in use, and says so on the volume.
func (p *Place) growVolume(ctx context.Context, volume *corev1.PersistentVolume, size resource.Quantity) error {
	node := strings.TrimPrefix(volume.Name, p.Namespace+"-")
	if _, err := kube(ctx, "exec", node, "mount", "-o", fmt.Sprintf("remount,size=%d", size.Value()), p.ownFolder()); err != nil {
		return err
	}
	volume.Spec.Capacity[corev1.ResourceStorage] = size
	return p.Update(ctx, volume)
}
