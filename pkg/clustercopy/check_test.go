package clustercopy

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"howdah.dev/apis/v1alpha1"
)

func TestACheckHasALimitOfCPUWhereTheCopyHas(t *testing.T) {
	for cpu, want := range map[string]string{"": "0", "500m": "500m", "8": "1"} {
		cluster := &v1alpha1.PostgresCluster{}
		cluster.Status.Connection = &v1alpha1.ConnectionStatus{SuperuserSecret: "copy-superuser"}
		cluster.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("8Gi")}
		if cpu != "" {
			cluster.Spec.Resources.Limits[corev1.ResourceCPU] = resource.MustParse(cpu)
		}
		if limits := (Check{Cluster: cluster}).Job().Resources.Limits; limits.Cpu().Cmp(resource.MustParse(want)) != 0 || limits.Memory().String() != "256Mi" {
			t.Errorf("the copy has %q, and the Job %+v", cpu, limits)
		}
	}
}
