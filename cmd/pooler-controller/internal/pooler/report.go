package pooler

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	klabels "k8s.io/apimachinery/pkg/labels"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
)

// report sets the conditions and the rest of status from what was observed and done. It is pure.
func report(o *observed, outcome flow.Outcome) {
	p := o.pooler
	status := &p.Status
	status.ObservedGeneration = p.Generation
	status.Selector = klabels.SelectorFromSet(selector(p)).String()
	status.Host, status.Image = protocol.PoolerHosts(p.Namespace, p.Name)[1], o.image
	status.Instances, status.ReadyInstances = 0, 0
	if d, ok := o.live["Deployment"].(*appsv1.Deployment); ok && metav1.IsControlledBy(d, p) {
		status.Instances, status.ReadyInstances = d.Status.Replicas, d.Status.ReadyReplicas
	}
	if !p.DeletionTimestamp.IsZero() {
		return
	}
	is, reason, message := outcome.Status(), outcome.Reason, outcome.Message
	switch {
	case outcome.Finished():
		reason, message = v1alpha1.ReasonRunning, fmt.Sprintf("All %d instances accept clients.", status.ReadyInstances)
	case reason == v1alpha1.ReasonDegraded, reason == v1alpha1.ReasonUpdating:
		is = metav1.ConditionTrue // clients are served
	case slices.Contains([]string{
		v1alpha1.ReasonStarting, v1alpha1.ReasonPodRefused, v1alpha1.ReasonClusterNotFound, v1alpha1.ReasonClusterNotReady, v1alpha1.ReasonNoReplica, v1alpha1.ReasonNameConflict,
	}, reason):
		is = metav1.ConditionFalse
	}
	flow.SetCondition(&status.Conditions, p, v1alpha1.ConditionReady, is, reason, message)
}
