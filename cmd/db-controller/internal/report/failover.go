package report

import (
	"fmt"
	"strings"
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
	found := condition.True(v1alpha1.ReasonEnabled, "Another instance takes over when the primary fails."+renewal(o))
	if until := failover.PausedUntil; until != nil && o.Now.Before(until.Time) {
		found = condition.False(v1alpha1.ReasonPaused, fmt.Sprintf(
			"Automatic failover is paused until %s: if the primary fails, no instance takes over. To end the pause now, remove spec.failover.pausedUntil.",
			until.UTC().Format(time.RFC3339)))
	}
	conditions[v1alpha1.ConditionAutomaticFailover] = found
}

// renewal says how the primary renews its lease, where that is to be through its members.
func renewal(o *observed.Cluster) string {
	primary := o.Agent(o.Primary())
	if !o.Cluster.Spec.Failover.ByMembers() || primary == nil || primary.Election == nil {
		return ""
	}
	election := primary.Election
	switch {
	case election.Renewal == agentapi.RenewalMembers:
		return fmt.Sprintf(" %s renews the lease through its members.", primary.Pod)
	case election.Renewal == "":
		return fmt.Sprintf(" %s renews the lease at the API server, because its agent is too old for spec.failover.renewal. Replace its pod.", primary.Pod)
	case len(election.Silent) > 0:
		return fmt.Sprintf(" %s renews the lease at the API server, because it gets no response to its datagrams from %s. Let UDP port %d through between the "+
			"pods of the cluster, and replace pods of an earlier version of the suite.", primary.Pod, strings.Join(election.Silent, " and "), agentapi.AgentPort)
	}
	return fmt.Sprintf(" %s renews the lease at the API server until all members have answered its datagrams for some seconds.", primary.Pod)
}

// isFenced says whether an instance is stopped because spec says so.
func isFenced(o *observed.Cluster, name string, agent *agentapi.Status) bool {
	return o.Cluster.Spec.Failover.IsFenced(name) && agent.State == agentapi.StateStopped
}
