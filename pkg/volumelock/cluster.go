package volumelock

import (
	"k8s.io/apimachinery/pkg/api/meta"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
)

// Ready reports that a cluster accepts connections, as of its present spec. Nil is not Ready.
func Ready(cluster *v1alpha1.PostgresCluster) bool {
	return cluster != nil && protocol.Current(cluster, cluster.Status.ObservedGeneration) &&
		meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ConditionReady)
}

// State is the reason and message of a cluster's condition Ready, as a sentence for a person.
func State(cluster *v1alpha1.PostgresCluster) string {
	if cluster == nil {
		return "The PostgresCluster does not exist."
	}
	condition := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ConditionReady)
	if condition == nil {
		return "The db-controller has not looked at it yet."
	}
	if condition.Message == "" {
		return condition.Reason + "."
	}
	return condition.Reason + ": " + flow.Sentence(condition.Message)
}
