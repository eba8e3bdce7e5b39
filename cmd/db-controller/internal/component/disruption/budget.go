// Package disruption builds the PodDisruptionBudget of a cluster.
package disruption

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
	"howdah.dev/howdah/pkg/workload"
)

// Budget lets one instance at a time be evicted. With a single instance that is the only one: draining a node then
// means a short outage, rather than a drain that never ends.
func Budget(cluster *v1alpha1.PostgresCluster) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: component.Meta(cluster, component.NamesOf(cluster).DisruptionBudget(), workload.ComponentInstance),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: ptr.To(intstr.FromInt32(1)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{
				v1alpha1.LabelCluster:   cluster.Name,
				v1alpha1.LabelComponent: workload.ComponentInstance,
			}},
			UnhealthyPodEvictionPolicy: ptr.To(policyv1.AlwaysAllow),
		},
	}
}
