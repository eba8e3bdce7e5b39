package report

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/condition"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/phrase"
)

// reportMaintenance adds the condition of the work after a restore or an upgrade, from its first word on.
func reportMaintenance(o *observed.Cluster, conditions map[string]condition.Finding) {
	status := &o.Cluster.Status
	known := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionMaintained) != nil
	if !known && len(status.Maintenance)+len(status.MaintenanceMessages) == 0 {
		return
	}
	conditions[v1alpha1.ConditionMaintained] = Maintained(status)
}

// Maintained says what is left of that work.
func Maintained(status *v1alpha1.PostgresClusterStatus) condition.Finding {
	switch {
	case len(status.Maintenance) > 0:
		return condition.False(v1alpha1.ReasonMaintaining, fmt.Sprintf("%s are being brought up to date; queries may be slow until then.", phrase.List(status.Maintenance)))
	case len(status.MaintenanceMessages) > 0:
		return condition.False(v1alpha1.ReasonMaintenanceIncomplete, phrase.First(status.MaintenanceMessages))
	}
	return condition.True(v1alpha1.ReasonCurrent, "Extensions, statistics and indexes are up to date.")
}
