package statefulset

import (
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

func affinity(scheduling v1alpha1.Scheduling) *corev1.Affinity {
	if scheduling.NodeAffinity == nil {
		return nil
	}
	return &corev1.Affinity{NodeAffinity: scheduling.NodeAffinity}
}

// spread keeps the instances apart: by zone where that is possible, by node as strictly as is asked. Where pods run is not
// part of Hash, so a change moves nothing that runs.
func spread(cluster *v1alpha1.PostgresCluster) []corev1.TopologySpreadConstraint {
	byNode := corev1.ScheduleAnyway
	if cluster.Spec.Scheduling.Spread == v1alpha1.SpreadRequired {
		byNode = corev1.DoNotSchedule
	}
	return []corev1.TopologySpreadConstraint{
		apart(cluster, corev1.LabelTopologyZone, corev1.ScheduleAnyway), apart(cluster, corev1.LabelHostname, byNode),
	}
}

func apart(cluster *v1alpha1.PostgresCluster, topology string, otherwise corev1.UnsatisfiableConstraintAction) corev1.TopologySpreadConstraint {
	return corev1.TopologySpreadConstraint{
		MaxSkew: 1, TopologyKey: topology, WhenUnsatisfiable: otherwise,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
			v1alpha1.LabelCluster: cluster.Name, v1alpha1.LabelComponent: workload.ComponentInstance,
		}},
	}
}
