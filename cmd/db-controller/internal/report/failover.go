package report

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/condition"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/agentapi"
)

// reportFailover says whether another instance takes over when the primary fails, where spec says something about that.
func reportFailover(o *observed.Cluster, conditions map[string]condition.Finding) {
	failover := o.Cluster.Spec.Failover
	if failover == nil || o.Wanted() < 2 {
		meta.RemoveStatusCondition(&o.Cluster.Status.Conditions, v1alpha1.ConditionAutomaticFailover)
		return
	}
	found := condition.True(v1alpha1.ReasonEnabled, "Another instance takes over when the primary fails.")
	if until := failover.PausedUntil; until != nil && o.Now.Before(until.Time) {
		found = condition.False(v1alpha1.ReasonPaused, fmt.Sprintf(
			"If the primary fails, no instance takes over before %s, when the pause ends by itself. To end it now, remove spec.failover.pausedUntil.",
			until.UTC().Format(time.RFC3339)))
	}
	conditions[v1alpha1.ConditionAutomaticFailover] = found
}

// isFenced says whether an instance is stopped because spec says so.
func isFenced(o *observed.Cluster, name string, agent *agentapi.Status) bool {
	return o.Cluster.Spec.Failover.IsFenced(name) && agent.State == agentapi.StateStopped
}
