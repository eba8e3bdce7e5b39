package pooler

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

// waiting is a Pooler of two instances, of which some accept clients.
func waiting(access v1alpha1.PoolAccess, ready, instances int32, conditions ...metav1.Condition) *observed {
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: v1alpha1.PostgresClusterSpec{Instances: instances}}
	cluster.Status.Conditions = conditions
	return &observed{
		pooler: &v1alpha1.Pooler{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: v1alpha1.PoolerSpec{Access: access, Instances: 2}}, cluster: cluster,
		live: map[string]client.Object{"Deployment": &appsv1.Deployment{
			Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](2)}, Status: appsv1.DeploymentStatus{ReadyReplicas: ready, Replicas: 3, UpdatedReplicas: 1},
		}},
	}
}

func is(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

func TestAPoolerThatServesNobodySaysWhatIsWrongWithTheCluster(t *testing.T) {
	const none, some = "0 of 2 instances accept clients.", "1 of 2 instances accept clients."
	asleep := is(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonHibernated, "All instances are stopped")
	runs := is(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRunning, "It runs.")
	lags := is(v1alpha1.ConditionReplicated, metav1.ConditionFalse, v1alpha1.ReasonLagging, "shop-1 lags.")
	long := is(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonUnavailable, strings.Repeat("é", 500))
	grown := waiting(v1alpha1.PoolReadOnly, 0, 1, runs)
	grown.cluster.Status.Instances = make([]v1alpha1.InstanceStatus, 2)
	pending := waiting(v1alpha1.PoolReadWrite, 0, 1, asleep)
	pending.pods = []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "web-1"}, Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "no node"},
	}}}}
	for what, c := range map[string]struct {
		observed        *observed
		reason, message string
	}{
		"nothing is known":           {waiting(v1alpha1.PoolReadWrite, 0, 1), v1alpha1.ReasonStarting, none},
		"the cluster is ready":       {waiting(v1alpha1.PoolReadWrite, 0, 1, runs), v1alpha1.ReasonStarting, none},
		"the cluster is hibernated":  {waiting(v1alpha1.PoolReadWrite, 0, 1, asleep), v1alpha1.ReasonClusterNotReady, none + " PostgresCluster shop is not ready: Hibernated: All instances are stopped."},
		"some still serve":           {waiting(v1alpha1.PoolReadWrite, 1, 1, asleep), v1alpha1.ReasonDegraded, some + " PostgresCluster shop is not ready: Hibernated: All instances are stopped."},
		"a long message":             {waiting(v1alpha1.PoolReadWrite, 0, 1, long), v1alpha1.ReasonClusterNotReady, none + " PostgresCluster shop is not ready: Unavailable: " + strings.Repeat("é", 300) + "…"},
		"the pods don't run":         {pending, v1alpha1.ReasonStarting, none + " Pod web-1 can't be scheduled: no node."},
		"there is no replica":        {waiting(v1alpha1.PoolReadOnly, 0, 1, runs), v1alpha1.ReasonNoReplica, none + " PostgresCluster shop has one instance, so there is no replica. Set its spec.instances to 2 or more, or delete this Pooler and create one with spec.access: ReadWrite."},
		"replicas were added":        {grown, v1alpha1.ReasonStarting, none},
		"a replica lags":             {waiting(v1alpha1.PoolReadOnly, 0, 3, runs, lags), v1alpha1.ReasonStarting, none + " Not all replicas of PostgresCluster shop follow its primary: Lagging: shop-1 lags."},
		"writers need no replica":    {waiting(v1alpha1.PoolReadWrite, 0, 3, runs, lags), v1alpha1.ReasonStarting, none},
		"all serve and are replaced": {waiting(v1alpha1.PoolReadWrite, 2, 1, asleep), v1alpha1.ReasonUpdating, ""},
	} {
		got := awaitPods(t.Context(), c.observed)
		if got.Reason != c.reason || c.message != "" && got.Message != c.message {
			t.Errorf("%s: %s: %s", what, got.Reason, got.Message)
		}
		if c.message == "" && strings.Contains(got.Message, "PostgresCluster") {
			t.Errorf("%s: %s", what, got.Message)
		}
		report(c.observed, got)
		serves := c.reason == v1alpha1.ReasonDegraded || c.reason == v1alpha1.ReasonUpdating
		if status := c.observed.pooler.Status.Conditions[0].Status; (status == metav1.ConditionTrue) != serves || status == metav1.ConditionUnknown {
			t.Errorf("%s: Ready is %s", what, status)
		}
	}
}

func TestAPoolerWhosePodsAreRefusedSaysWhyAndWhatToDo(t *testing.T) {
	const quota, context = `pods "web-pooler-x" is forbidden: failed quota: all: must specify limits.cpu for: pgbouncer`, `pods "web-pooler-x" is forbidden: unable to validate against any security context constraint`
	refused := func(ready int32, why string) *observed {
		o := waiting(v1alpha1.PoolReadWrite, ready, 1, is(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonHibernated, "All instances are stopped"))
		o.pooler.Spec.Cluster.Name = "shop"
		o.live["Deployment"].(*appsv1.Deployment).Status.Conditions = []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionFalse, Message: "no"},
			{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: why},
		}
		return o
	}
	past := refused(0, quota)
	past.live["Deployment"].(*appsv1.Deployment).Status.Conditions[1].Status = corev1.ConditionFalse
	for what, c := range map[string]struct {
		observed        *observed
		reason, message string
		status          metav1.ConditionStatus
	}{
		"all":            {refused(0, quota), v1alpha1.ReasonPodRefused, "0 of 2 instances accept clients. Kubernetes refuses to create a pod: " + quota + ". Set spec.resources.limits (cpu and memory), ", metav1.ConditionFalse},
		"one":            {refused(1, quota), v1alpha1.ReasonDegraded, "1 of 2 instances accept clients. Kubernetes refuses to create a pod: ", metav1.ConditionTrue},
		"a new one":      {refused(2, quota), v1alpha1.ReasonUpdating, "All 2 instances accept clients. They are replaced one by one, each once its clients have gone or spec.drainTimeout has passed. Kubernetes refuses ", metav1.ConditionTrue},
		"on OpenShift":   {refused(0, context), v1alpha1.ReasonPodRefused, "0 of 2 instances accept clients. Kubernetes refuses to create a pod: " + context + ". On OpenShift, ", metav1.ConditionFalse},
		"not any longer": {past, v1alpha1.ReasonClusterNotReady, "0 of 2 instances accept clients. PostgresCluster shop is not ready", metav1.ConditionFalse},
	} {
		got := awaitPods(t.Context(), c.observed)
		if report(c.observed, got); got.Reason != c.reason || !strings.HasPrefix(got.Message, c.message) || c.observed.pooler.Status.Conditions[0].Status != c.status {
			t.Errorf("%s: %s: %s", what, got.Reason, got.Message)
		}
	}
}
