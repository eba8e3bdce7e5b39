package report

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/availability"
	"howdah.dev/howdah/cmd/db-controller/internal/component/config"
	"howdah.dev/howdah/cmd/db-controller/internal/condition"
	"howdah.dev/howdah/cmd/db-controller/internal/firstbackup"
	"howdah.dev/howdah/cmd/db-controller/internal/hibernation"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/storage"
	"howdah.dev/howdah/cmd/db-controller/internal/volumegrant"
	"howdah.dev/howdah/cmd/db-controller/internal/volumemove"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/workload"
)

// Write makes the status say what was seen and how the pass ended. It is pure; decisions were recorded by steps.
func Write(o *observed.Cluster, outcome flow.Outcome) {
	status := &o.Cluster.Status
	status.ObservedGeneration = o.Cluster.Generation
	if o.Begun() {
		reportInstances(o)
		status.Selector = labels.SelectorFromSet(map[string]string{
			v1alpha1.LabelCluster: o.Cluster.Name, v1alpha1.LabelComponent: workload.ComponentInstance,
		}).String()
		status.Connection = config.Connection(o.Cluster)
		status.Binding = &v1alpha1.BindingStatus{Name: status.Connection.AppSecret}
	}
	reportImport(o)
	reportClone(o)
	volumemove.Report(o)
	reportArchive(o)
	reportWritten(o)
	reportFindings(o)
	reportAutoscale(o)
	reportTuning(o)
	conditions := map[string]condition.Finding{
		v1alpha1.ConditionReady:          ready(o, outcome),
		v1alpha1.ConditionUpToDate:       upToDate(o, outcome),
		v1alpha1.ConditionArchiving:      archiving(o),
		v1alpha1.ConditionStorageHealthy: storage.Space(o),
	}
	if o.Wanted() > 1 && o.Begun() {
		conditions[v1alpha1.ConditionReplicated] = replicated(o)
	} else {
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionReplicated)
	}
	reportFailover(o, conditions)
	reportRepair(o, conditions)
	reportLogical(o, conditions)
	reportDeclared(o, conditions)
	reportCertificates(o, conditions)
	reportSlots(o, conditions)
	reportUpdates(o, conditions)
	reportMonitoring(o, conditions)
	reportMaintenance(o, conditions)
	reportStandby(o, conditions)
	firstbackup.Report(o, conditions)
	for kind, found := range conditions {
		flow.SetCondition(&status.Conditions, o.Cluster, kind, found.Status, found.Reason, found.Message)
	}
}

// WriteUnseen is the report of a pass that could not read what it needs: what was said of the database stays.
func WriteUnseen(cluster *v1alpha1.PostgresCluster, outcome flow.Outcome) {
	cluster.Status.ObservedGeneration = cluster.Generation
	flow.SetCondition(&cluster.Status.Conditions, cluster, v1alpha1.ConditionUpToDate, metav1.ConditionUnknown, outcome.Reason, outcome.Message)
}

// ready says whether clients can connect to the primary, and if not, why.
func ready(o *observed.Cluster, outcome flow.Outcome) condition.Finding {
	locked, message := volumegrant.LockedBy(o)
	switch {
	case locked != "":
		return condition.False(locked, message)
	case hibernation.Hibernating(o) && outcome.Reason == v1alpha1.ReasonHibernated:
		return condition.False(outcome.Reason, outcome.Message)
	case o.Serving(o.Primary()) && !availability.Reachable(o):
		return condition.False(availability.Unreachable(o))
	case o.Serving(o.Primary()) && (outcome.Reason == v1alpha1.ReasonAwaitingFinalBackup || outcome.Reason == v1alpha1.ReasonAwaitingRelease):
		return condition.True(outcome.Reason, outcome.Message)
	case o.Serving(o.Primary()):
		return condition.True(v1alpha1.ReasonRunning, fmt.Sprintf("PostgreSQL accepts connections at %s:%d.",
			o.Cluster.Status.Connection.Host, o.Cluster.Status.Connection.Port))
	case !outcome.Finished() && outcome.Reason != "":
		return condition.False(outcome.Reason, outcome.Message)
	case !o.Begun():
		return condition.False(v1alpha1.ReasonInitializing, "The cluster is being created.")
	}
	return condition.False(availability.NotServing(o))
}
