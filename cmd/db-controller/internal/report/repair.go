package report

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/condition"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
)

// reportRepair says whether instances are repaired, where spec has a pause, and what that holds back.
func reportRepair(o *observed.Cluster, conditions map[string]condition.Finding) {
	repair := o.Cluster.Spec.Repair
	if repair == nil || repair.PausedFrom == nil || repair.PausedUntil == nil {
		meta.RemoveStatusCondition(&o.Cluster.Status.Conditions, v1alpha1.ConditionAutomaticRepair)
		return
	}
	from, until := repair.PausedFrom.UTC().Format(time.RFC3339), repair.PausedUntil.UTC().Format(time.RFC3339)
	switch found := condition.True(v1alpha1.ReasonEnabled, "Instances are restarted, rewound and cloned where they need it."); {
	case repair.Paused(o.Now):
		conditions[v1alpha1.ConditionAutomaticRepair] = condition.False(v1alpha1.ReasonPaused, fmt.Sprintf(
			"Automatic repair is paused until %s: an instance that fails is not restarted, rewound or cloned.%s "+
				"To end the pause now, remove spec.repair.pausedFrom and pausedUntil.", until, heldBack(o)))
	case o.Now.Before(repair.PausedFrom.Time):
		found.Message += fmt.Sprintf(" That is paused from %s until %s.", from, until)
		fallthrough
	default:
		conditions[v1alpha1.ConditionAutomaticRepair] = found
	}
}

// heldBack says what the agents would do.
func heldBack(o *observed.Cluster) string {
	all := ""
	for ordinal := range o.Wanted() {
		if agent := o.Agent(ordinal); agent != nil && agent.HeldBack != "" {
			all += fmt.Sprintf(" Held back on %s: %s", agent.Pod, agent.HeldBack)
		}
	}
	return all
}
