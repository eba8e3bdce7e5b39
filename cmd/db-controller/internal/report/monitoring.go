package report

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/podmonitor"
	"howdah.dev/howdah/cmd/db-controller/internal/condition"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/phrase"
)

// reportMonitoring adds the condition of what spec.monitoring wants, where it wants something.
func reportMonitoring(o *observed.Cluster, conditions map[string]condition.Finding) {
	wanted := o.Cluster.Spec.Monitoring
	if !o.Begun() || wanted == nil || len(wanted.CustomQueriesConfigMap) == 0 && wanted.PodMonitor == nil {
		meta.RemoveStatusCondition(&o.Cluster.Status.Conditions, v1alpha1.ConditionMonitoringReady)
		return
	}
	if !o.Seen {
		return // what was said stays
	}
	conditions[v1alpha1.ConditionMonitoringReady] = Monitoring(o)
}

// Monitoring says whether queries and PodMonitor are as spec wants them.
func Monitoring(o *observed.Cluster) condition.Finding {
	live, _ := o.Live[observed.Key("PodMonitor", o.Names.PodMonitor())].(*unstructured.Unstructured)
	wanted := o.Cluster.Spec.Monitoring.PodMonitor != nil
	switch {
	case len(o.RefusedQueries) > 0:
		return condition.False(v1alpha1.ReasonQueriesRefused, phrase.First(o.RefusedQueries))
	case wanted && o.NoPodMonitors:
		return condition.False(v1alpha1.ReasonPodMonitorsMissing, "There is no PodMonitor, because the Kubernetes cluster doesn't have this kind: "+
			"install the Prometheus operator, or remove spec.monitoring.podMonitor.")
	case wanted && live != nil && observed.Foreign(live, o.Cluster):
		return condition.False(v1alpha1.ReasonNameConflict, podmonitor.Taken(live))
	}
	return condition.True(v1alpha1.ReasonCurrent, "The queries and the PodMonitor match spec.monitoring.")
}
