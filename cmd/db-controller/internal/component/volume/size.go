package volume

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"howdah.dev/apis/v1alpha1"
)

// Size that each volume of a cluster is to have: what spec asks for, or what it has grown to by itself.
func Size(cluster *v1alpha1.PostgresCluster) resource.Quantity {
	size := cluster.Spec.Storage.Size
	if grown := cluster.Status.Storage; grown != nil && grown.Size.Cmp(size) > 0 {
		return grown.Size
	}
	return size
}

// Requested is the size that a claim requests.
func Requested(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	return claim.Spec.Resources.Requests[corev1.ResourceStorage]
}

// Capacity that a claim has; zero: it has no volume yet.
func Capacity(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	return claim.Status.Capacity[corev1.ResourceStorage]
}

// Enlarged is the claim as it requests more.
func Enlarged(claim *corev1.PersistentVolumeClaim, size resource.Quantity) *corev1.PersistentVolumeClaim {
	enlarged := claim.DeepCopy()
	enlarged.Spec.Resources.Requests[corev1.ResourceStorage] = size
	return enlarged
}

// ResizeTrouble is what Kubernetes says of a volume that it can't enlarge; empty: nothing.
func ResizeTrouble(claim *corev1.PersistentVolumeClaim) string {
	for _, condition := range claim.Status.Conditions {
		switch condition.Type {
		case corev1.PersistentVolumeClaimControllerResizeError, corev1.PersistentVolumeClaimNodeResizeError:
			if condition.Status == corev1.ConditionTrue {
				return condition.Message
			}
		}
	}
	switch claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] {
	case corev1.PersistentVolumeClaimControllerResizeInfeasible, corev1.PersistentVolumeClaimNodeResizeInfeasible:
		return "the storage can't enlarge it that far"
	}
	return ""
}

// AwaitsNode says that the volume has grown and its file system has yet to, which kubelet does.
func AwaitsNode(claim *corev1.PersistentVolumeClaim) bool {
	for _, condition := range claim.Status.Conditions {
		if condition.Type == corev1.PersistentVolumeClaimFileSystemResizePending && condition.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}
