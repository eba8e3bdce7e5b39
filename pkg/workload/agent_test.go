package workload

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestTheCopyingContainerHasResourcesWhereOthersHave: a quota of memory refuses a pod with one container that names none. It never makes
// the pod need more than the other container does.
func TestTheCopyingContainerHasResourcesWhereOthersHave(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		all := corev1.ResourceList{}
		if cpu != "" {
			all[corev1.ResourceCPU] = resource.MustParse(cpu)
		}
		if memory != "" {
			all[corev1.ResourceMemory] = resource.MustParse(memory)
		}
		return all
	}
	for name, c := range map[string]struct{ requests, limits, wantRequests, wantLimits corev1.ResourceList }{
		"none":           {nil, nil, nil, nil},
		"many":           {list("4", "16Gi"), list("8", "16Gi"), list("100m", "64Mi"), list("500m", "128Mi")},
		"few":            {list("50m", "32Mi"), list("50m", "32Mi"), list("50m", "32Mi"), list("50m", "32Mi")},
		"a memory limit": {nil, list("", "1Gi"), nil, list("", "128Mi")},
	} {
		pod := &corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: c.requests, Limits: c.limits}}}}
		Agent{Image: "agent:1"}.Bring(pod)
		got := pod.InitContainers[0].Resources
		for what, pair := range map[string][2]corev1.ResourceList{"requests": {got.Requests, c.wantRequests}, "limits": {got.Limits, c.wantLimits}} {
			if len(pair[0]) != len(pair[1]) {
				t.Errorf("%s: %s are %v, want %v", name, what, pair[0], pair[1])
			}
			for resource, quantity := range pair[1] {
				if has := pair[0][resource]; has.Cmp(quantity) != 0 {
					t.Errorf("%s: %s of %s are %s, want %s", name, what, resource, has.String(), quantity.String())
				}
			}
		}
	}
}
