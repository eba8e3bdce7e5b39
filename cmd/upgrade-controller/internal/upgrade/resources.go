package upgrade

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/workload"
)

// The Jobs have limits where the instances have: a quota that wants them would refuse the pods for ever, one of them while the cluster is
// stopped. They request little, so that there is room for them wherever there was for an instance.
var (
	// upgrading runs in place of an instance. pg_upgrade and what it starts need more than a tiny one has, and nobody is served meanwhile.
	upgrading = workload.Bounds{Least: amounts("1", "1Gi")}
	// checking has the memory of upgrading, so that what is too little for the schema shows while the cluster serves. It runs beside the
	// instances, so a quota need not have room for as much as a large one has.
	checking = workload.Bounds{Least: upgrading.Least, Most: amounts("2", "8Gi")}
	// inspecting reads the control file, and counts bytes.
	inspecting = workload.Bounds{Most: amounts("1", "512Mi")}
)

func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

func resourcesOf(cluster *v1alpha1.PostgresCluster, bounds workload.Bounds) corev1.ResourceRequirements {
	return bounds.Limit(corev1.ResourceRequirements{}, &cluster.Spec)
}
