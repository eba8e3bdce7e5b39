package volume

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/protocol"
)

// Size that each volume of a cluster is to have: what spec requests, or what it has grown to by itself. In a move it is that of the plan:
// until the move begins, what the volumes have; from then on, what was approved.
func Size(cluster *v1alpha1.PostgresCluster) resource.Quantity {
	return grown(cluster, shape(cluster).Size)
}

// WALSize that each WAL volume of a cluster is to have; zero: there are none.
func WALSize(cluster *v1alpha1.PostgresCluster) resource.Quantity {
	wal := cluster.Spec.Storage.WAL
	if wal == nil {
		return resource.Quantity{}
	}
	if grown := cluster.Status.WALStorage; grown != nil && grown.Size.Cmp(wal.Size) > 0 {
		return grown.Size
	}
	return wal.Size
}

// SizeOf is the size that a claim of a cluster is to have.
func SizeOf(cluster *v1alpha1.PostgresCluster, claim *corev1.PersistentVolumeClaim) resource.Quantity {
	if IsWAL(claim) {
		return WALSize(cluster)
	}
	return Size(cluster)
}

// IsWAL says whether a claim, or a template of one, is for WAL.
func IsWAL(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Name == WALTemplateName || protocol.IsWALClaim(claim.Name)
}

// Class that each volume of a cluster is to have; nil: the default class.
func Class(cluster *v1alpha1.PostgresCluster) *string {
	if class := shape(cluster).StorageClassName; class != "" {
		return &class
	}
	return nil
}

// ClassOf is the class that a claim of a cluster is to have; nil: the default class.
func ClassOf(cluster *v1alpha1.PostgresCluster, claim *corev1.PersistentVolumeClaim) *string {
	if wal := cluster.Spec.Storage.WAL; wal != nil && IsWAL(claim) {
		return wal.StorageClassName
	}
	return Class(cluster)
}

// ClassSettled says whether new volumes have the class that spec requests, or that was approved.
func ClassSettled(cluster *v1alpha1.PostgresCluster) bool {
	return !moveIs(cluster, v1alpha1.StorageMovePlanned)
}

func shape(cluster *v1alpha1.PostgresCluster) v1alpha1.VolumeShape {
	switch {
	case moveIs(cluster, v1alpha1.StorageMovePlanned):
		return cluster.Status.StorageMove.From
	case moveIs(cluster, v1alpha1.StorageMoveMoving):
		return cluster.Status.StorageMove.To
	}
	return Asked(cluster)
}

func moveIs(cluster *v1alpha1.PostgresCluster, state v1alpha1.StorageMoveState) bool {
	move := cluster.Status.StorageMove
	return move != nil && move.State == state
}

func grown(cluster *v1alpha1.PostgresCluster, size resource.Quantity) resource.Quantity {
	if grown := cluster.Status.Storage; grown != nil && grown.Size.Cmp(size) > 0 {
		return grown.Size
	}
	return size
}

// Asked is what spec asks of the volumes.
func Asked(cluster *v1alpha1.PostgresCluster) v1alpha1.VolumeShape {
	storage := &cluster.Spec.Storage
	return v1alpha1.VolumeShape{Size: storage.Size, StorageClassName: ptr.Deref(storage.StorageClassName, "")}
}

// Wanted is what spec asks of the volumes, whether that has to be approved or not. What they have grown to by themselves counts, unless
// spec requests a move, and no longer for growth.
func Wanted(cluster *v1alpha1.PostgresCluster) v1alpha1.VolumeShape {
	wanted, storage := Asked(cluster), &cluster.Spec.Storage
	if storage.Move == nil || storage.AutoGrow != nil || moveIs(cluster, v1alpha1.StorageMoveMoving) {
		wanted.Size = grown(cluster, wanted.Size)
	}
	return wanted
}

// Unlike says whether a claim can't come to what spec requests, because it is larger, or of another class.
func Unlike(cluster *v1alpha1.PostgresCluster, claim *corev1.PersistentVolumeClaim) bool {
	wanted, requested := Wanted(cluster), Requested(claim)
	return requested.Cmp(wanted.Size) > 0 || otherClass(claim, wanted.StorageClassName)
}

// Outgoing says whether a claim is of a class from which its instance is being moved, so that it needs to grow no more.
func Outgoing(cluster *v1alpha1.PostgresCluster, claim *corev1.PersistentVolumeClaim) bool {
	return !IsWAL(claim) && moveIs(cluster, v1alpha1.StorageMoveMoving) && otherClass(claim, shape(cluster).StorageClassName)
}

func otherClass(claim *corev1.PersistentVolumeClaim, class string) bool {
	return class != "" && ptr.Deref(claim.Spec.StorageClassName, "") != class
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
