package observedtest

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/agentapi"
)

const GiB = int64(1) << 30

// Bound is a trio with volumes of 10Gi, of a class that lets them grow; change makes it otherwise.
func Bound(change func(*observed.Cluster)) *observed.Cluster {
	return Trio(func(o *observed.Cluster) {
		o.Cluster.Spec.Storage = v1alpha1.StorageSpec{Size: resource.MustParse("10Gi"), StorageClassName: ptr.To("fast")}
		o.Classes = map[string]*storagev1.StorageClass{"fast": {AllowVolumeExpansion: ptr.To(true)}}
		o.Refused = map[string]string{}
		o.StatefulSet().Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("10Gi")
		for ordinal := range 3 {
			claim := volume.Claim(o.Cluster, ordinal)
			claim.Status = corev1.PersistentVolumeClaimStatus{
				Phase: corev1.ClaimBound, Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")},
			}
			o.Live[observed.Key("PersistentVolumeClaim", claim.Name)] = claim
			Fill(o, ordinal, 40)
		}
		if change != nil {
			change(o)
		}
	})
}

// WithWAL gives the instances WAL volumes of 4Gi.
func WithWAL(o *observed.Cluster) {
	o.Cluster.Spec.Storage.WAL = &v1alpha1.WALStorage{Size: resource.MustParse("4Gi"), StorageClassName: ptr.To("fast")}
	for ordinal := range 3 {
		claim := volume.WALClaim(o.Cluster, ordinal)
		claim.Status = corev1.PersistentVolumeClaimStatus{
			Phase: corev1.ClaimBound, Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("4Gi")},
		}
		o.Live[observed.Key("PersistentVolumeClaim", claim.Name)] = claim
		FillWAL(o, ordinal, 40)
	}
}

// FillWAL fills the WAL volume of an instance.
func FillWAL(o *observed.Cluster, ordinal int, percent int64) {
	o.Agents[o.Names.Instance(ordinal)].WALVolume = &agentapi.VolumeStatus{Bytes: 4 * GiB, UsedBytes: 4*GiB*percent/100 + 1}
}

// Fill fills the volume of an instance.
func Fill(o *observed.Cluster, ordinal int, percent int64) {
	o.Agents[o.Names.Instance(ordinal)].Volume = &agentapi.VolumeStatus{Bytes: 10 * GiB, UsedBytes: 10*GiB*percent/100 + 1}
}

// WantSize asks for larger volumes in the spec.
func WantSize(o *observed.Cluster, size string) {
	o.Cluster.Spec.Storage.Size = resource.MustParse(size)
}

// AskSize has a claim request a size.
func AskSize(o *observed.Cluster, ordinal int, size string) {
	o.Claim(ordinal).Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(size)
}

// Infeasible has the storage refuse to enlarge a claim.
func Infeasible(o *observed.Cluster, ordinal int) {
	o.Claim(ordinal).Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{
		corev1.ResourceStorage: corev1.PersistentVolumeClaimControllerResizeInfeasible,
	}
}
