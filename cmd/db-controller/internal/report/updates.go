package report

import (
	"k8s.io/apimachinery/pkg/api/meta"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/condition"
	"howdah.dev/howdah/cmd/db-controller/internal/imagechange"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
)

// reportUpdates says whether the suite has another image for the version that runs, and what becomes of it.
func reportUpdates(o *observed.Cluster, conditions map[string]condition.Finding) {
	status := &o.Cluster.Status
	status.PendingUpdate = imagechange.Pending(o)
	found := imagechange.Updated(o)
	if found.Reason == "" {
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionUpdated)
		return
	}
	conditions[v1alpha1.ConditionUpdated] = found
}
