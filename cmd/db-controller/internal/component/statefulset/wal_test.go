package statefulset

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
)

func TestInstancesWithWALVolumesHaveTwoClaims(t *testing.T) {
	cluster := &v1alpha1.PostgresCluster{}
	cluster.Name = "shop"
	cluster.Spec.Storage.Size = resource.MustParse("10Gi")
	cluster.Spec.Storage.WAL = &v1alpha1.WALStorage{Size: resource.MustParse("4Gi"), StorageClassName: ptr.To("fast")}
	set := Build(cluster, Inputs{Replicas: 1})
	claims := set.Spec.VolumeClaimTemplates
	if len(claims) != 2 || claims[0].Name != "data" || claims[1].Name != "wal" {
		t.Fatalf("%+v", claims)
	}
	if size := claims[1].Spec.Resources.Requests[corev1.ResourceStorage]; size.String() != "4Gi" || *claims[1].Spec.StorageClassName != "fast" {
		t.Errorf("%+v", claims[1].Spec)
	}
	mounts := set.Spec.Template.Spec.Containers[0].VolumeMounts
	if !slices.ContainsFunc(mounts, func(m corev1.VolumeMount) bool {
		return m.Name == "wal" && m.MountPath == agentapi.WALVolumeDir && !m.ReadOnly
	}) {
		t.Errorf("%+v", mounts)
	}
}
