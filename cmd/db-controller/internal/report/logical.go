package report

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/condition"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/postgres"
)

// reportLogical says whether clients of logical replication continue after a failover, where spec requests logical replication and there is
// anybody to fail over to.
func reportLogical(o *observed.Cluster, conditions map[string]condition.Finding) {
	parameters := map[string]string{}
	for name, value := range o.Cluster.Spec.PostgreSQL.Parameters {
		parameters[name] = string(value)
	}
	if o.Wanted() < 2 || !o.Begun() || parameters["wal_level"] != "logical" {
		meta.RemoveStatusCondition(&o.Cluster.Status.Conditions, v1alpha1.ConditionLogicalSlotsSynchronized)
		return
	}
	found := logicalSlots(int(o.Cluster.Status.MajorVersion), parameters)
	if found.Status == metav1.ConditionTrue && awaitsLogical(o) {
		found = condition.False(v1alpha1.ReasonRestartPending, "Logical slots are lost in a failover until all instances were restarted with wal_level=logical.")
	}
	conditions[v1alpha1.ConditionLogicalSlotsSynchronized] = found
}

// awaitsLogical says whether an instance still runs with another wal_level.
func awaitsLogical(o *observed.Cluster) bool {
	return slices.ContainsFunc(o.Cluster.Status.Instances, func(i v1alpha1.InstanceStatus) bool { return slices.Contains(i.PendingRestart, "wal_level") })
}

func logicalSlots(major int, parameters map[string]string) condition.Finding {
	switch {
	case postgres.KeepsFailoverSlots(major, parameters):
		return condition.True(v1alpha1.ReasonEnabled, "Replicas copy the logical slots that were created with failover, and their clients continue after a failover.")
	case postgres.KeepsFailoverSlots(major, map[string]string{"wal_level": "logical"}):
		return condition.False(v1alpha1.ReasonParameterOff, "Logical slots are lost in a failover, because hot_standby_feedback or sync_replication_slots is off: "+
			"remove it from spec.postgresql.parameters.")
	}
	return condition.False(v1alpha1.ReasonVersionTooLow, fmt.Sprintf("Logical slots are lost in a failover, because replicas of PostgreSQL %d have no copies of them, "+
		"and clients have to copy their tables again: upgrade to 17 or later.", major))
}
