package workload

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"howdah.dev/apis/v1alpha1"
)

// amounts of CPU and memory; empty: none.
func amounts(cpu, memory string) corev1.ResourceList {
	all := corev1.ResourceList{}
	if cpu != "" {
		all[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		all[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return all
}

// TestAJobHasALimitOfWhateverItsClusterHasOneOf: a quota of limits.cpu refuses each pod that has none.
func TestAJobHasALimitOfWhateverItsClusterHasOneOf(t *testing.T) {
	own := corev1.ResourceRequirements{Requests: amounts("100m", "128Mi"), Limits: amounts("", "256Mi")}
	none := corev1.ResourceRequirements{}
	bounds := Bounds{Least: amounts("", "1Gi"), Most: amounts("2", "")}
	for name, c := range map[string]struct {
		own, cluster, want corev1.ResourceRequirements
	}{
		"the cluster has no resources":         {own, none, own},
		"the cluster has requests only":        {own, corev1.ResourceRequirements{Requests: amounts("4", "4Gi")}, own},
		"the cluster has limits":               {own, corev1.ResourceRequirements{Limits: amounts("500m", "4Gi")}, corev1.ResourceRequirements{Requests: own.Requests, Limits: amounts("500m", "256Mi")}},
		"more than it is to get":               {own, corev1.ResourceRequirements{Limits: amounts("8", "")}, corev1.ResourceRequirements{Requests: own.Requests, Limits: amounts("2", "256Mi")}},
		"less than it requests":                {own, corev1.ResourceRequirements{Limits: amounts("50m", "64Mi")}, corev1.ResourceRequirements{Requests: own.Requests, Limits: amounts("100m", "256Mi")}},
		"it sets all itself":                   {corev1.ResourceRequirements{Requests: amounts("1", "1Gi"), Limits: amounts("4", "2Gi")}, corev1.ResourceRequirements{Limits: amounts("1", "1Gi")}, corev1.ResourceRequirements{Requests: amounts("1", "1Gi"), Limits: amounts("4", "2Gi")}},
		"it sets nothing, as does the cluster": {none, none, none},
		"it sets nothing":                      {none, corev1.ResourceRequirements{Limits: amounts("1", "4Gi")}, corev1.ResourceRequirements{Requests: amounts("100m", "128Mi"), Limits: amounts("1", "4Gi")}},
		"it sets nothing, and needs more":      {none, corev1.ResourceRequirements{Requests: amounts("50m", "256Mi"), Limits: amounts("", "512Mi")}, corev1.ResourceRequirements{Requests: amounts("50m", "128Mi"), Limits: amounts("", "1Gi")}},
		"it sets nothing, and only requests":   {none, corev1.ResourceRequirements{Requests: amounts("1", "")}, corev1.ResourceRequirements{Requests: amounts("100m", "")}},
		"its limit is less than is usual":      {corev1.ResourceRequirements{Limits: amounts("50m", "")}, corev1.ResourceRequirements{Limits: amounts("1", "")}, corev1.ResourceRequirements{Requests: amounts("50m", ""), Limits: amounts("50m", "")}},
	} {
		cluster := &v1alpha1.PostgresClusterSpec{Resources: v1alpha1.Resources{Requests: c.cluster.Requests, Limits: c.cluster.Limits}}
		if got := bounds.Limit(c.own, cluster); !equality.Semantic.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	if len(own.Limits) != 1 {
		t.Errorf("the lists of the caller were changed: %+v", own)
	}
	if got := bounds.Limit(own, nil); !equality.Semantic.DeepEqual(got, own) {
		t.Errorf("there is no cluster, and it has %+v", got)
	}
}
