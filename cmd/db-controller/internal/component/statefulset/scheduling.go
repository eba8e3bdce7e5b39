package statefulset

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/workload"
)

// annotationScheduling on a database pod is the hash of spec.scheduling that it was created with.
const annotationScheduling = "howdah.dev/scheduling"

func schedulingHash(scheduling v1alpha1.Scheduling) string { return hashOf(scheduling) }

// misplaced: no node has taken the pod yet, and it says where it may run as spec did before.
func misplaced(pod *corev1.Pod, cluster *v1alpha1.PostgresCluster) bool {
	return pod.Spec.NodeName == "" && pod.Annotations[annotationScheduling] != schedulingHash(cluster.Spec.Scheduling)
}

// spread keeps the instances apart: by zone where that is possible, by node as strictly as is asked, and as spec says itself.
// Where pods run is not part of Hash, so a change moves nothing that runs.
func spread(cluster *v1alpha1.PostgresCluster) []corev1.TopologySpreadConstraint {
	scheduling := cluster.Spec.Scheduling
	byNode := corev1.ScheduleAnyway
	if scheduling.Spread == v1alpha1.SpreadRequired {
		byNode = corev1.DoNotSchedule
	}
	var all []corev1.TopologySpreadConstraint
	for _, ours := range []corev1.TopologySpreadConstraint{
		apart(cluster, corev1.LabelTopologyZone, corev1.ScheduleAnyway), apart(cluster, corev1.LabelHostname, byNode),
	} {
		if !slices.ContainsFunc(scheduling.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool { return c.TopologyKey == ours.TopologyKey }) {
			all = append(all, ours)
		}
	}
	for _, asked := range scheduling.TopologySpreadConstraints {
		if asked.LabelSelector == nil {
			asked.LabelSelector = instances(cluster)
		}
		all = append(all, asked)
	}
	return all
}

func apart(cluster *v1alpha1.PostgresCluster, topology string, otherwise corev1.UnsatisfiableConstraintAction) corev1.TopologySpreadConstraint {
	return corev1.TopologySpreadConstraint{
		MaxSkew: 1, TopologyKey: topology, WhenUnsatisfiable: otherwise,
		LabelSelector: instances(cluster),
	}
}

func instances(cluster *v1alpha1.PostgresCluster) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{
		v1alpha1.LabelCluster: cluster.Name, v1alpha1.LabelComponent: workload.ComponentInstance,
	}}
}
