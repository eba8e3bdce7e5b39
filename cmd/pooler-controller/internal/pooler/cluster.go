package pooler

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
)

// longestQuote is how many characters of a message a Pooler repeats. The whole of it is in the cluster, or the Deployment.
const longestQuote = 300

// clusterObstacle says why the cluster may have no server for the clients of a Pooler, as far as the cluster itself shows; no message: it doesn't. There
// is a reason if it certainly has none.
func clusterObstacle(o *observed) (reason, message string) {
	readOnly := o.pooler.Spec.Access == v1alpha1.PoolReadOnly
	if message := notReady(o.cluster); message != "" {
		return v1alpha1.ReasonClusterNotReady, message
	}
	if readOnly && o.cluster.Spec.Instances == 1 && len(o.cluster.Status.Instances) <= 1 { // spec.autoscale may have added some
		return v1alpha1.ReasonNoReplica, fmt.Sprintf("PostgresCluster %s has one instance, so there is no replica. Set its spec.instances to 2 or more, or delete this Pooler and create one with spec.access: ReadWrite.", o.cluster.Name)
	}
	if readOnly {
		if replicated := meta.FindStatusCondition(o.cluster.Status.Conditions, v1alpha1.ConditionReplicated); replicated != nil && replicated.Status == metav1.ConditionFalse {
			return "", fmt.Sprintf("Not all replicas of PostgresCluster %s follow its primary: %s", o.cluster.Name, quote(replicated))
		}
	}
	return "", ""
}

// notReady says why clients can't connect to the primary of a cluster; empty: they can, or it is not known.
func notReady(cluster *v1alpha1.PostgresCluster) string {
	ready := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionFalse {
		return ""
	}
	return fmt.Sprintf("PostgresCluster %s is not ready: %s", cluster.Name, quote(ready))
}

func quote(condition *metav1.Condition) string {
	if condition.Message == "" {
		return condition.Reason + "."
	}
	if short := shortened(condition.Message); short != condition.Message {
		return condition.Reason + ": " + short
	}
	return condition.Reason + ": " + flow.Sentence(condition.Message)
}

func shortened(message string) string {
	if characters := []rune(message); len(characters) > longestQuote {
		return string(characters[:longestQuote]) + "…"
	}
	return message
}
