package statefulset

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
)

func TestARunningPodIsGivenRequestsThatWereDecidedAutomatically(t *testing.T) {
	applied := func(c *v1alpha1.PostgresCluster, requests corev1.ResourceList) {
		c.Status.Autoscale = &v1alpha1.AutoscaleStatus{Applied: &v1alpha1.AppliedRequests{Requests: requests}}
	}
	for name, c := range map[string]struct {
		requests, limits corev1.ResourceList
		change           func(*v1alpha1.PostgresCluster, *corev1.Pod)
		state            ResizeState
		why              string
	}{
		"none":                         {list("500m", "1Gi"), nil, func(*v1alpha1.PostgresCluster, *corev1.Pod) {}, ResizeDone, ""},
		"more":                         {list("500m", "1Gi"), nil, func(c *v1alpha1.PostgresCluster, _ *corev1.Pod) { applied(c, list("1", "2Gi")) }, ResizeDue, ""},
		"less memory":                  {list("500m", "1Gi"), nil, func(c *v1alpha1.PostgresCluster, _ *corev1.Pod) { applied(c, list("", "512Mi")) }, ResizeDue, ""},
		"what spec has no request for": {list("500m", ""), nil, func(c *v1alpha1.PostgresCluster, _ *corev1.Pod) { applied(c, list("", "2Gi")) }, ResizeDone, ""},
		"more than the limit":          {list("500m", "2Gi"), list("", "2Gi"), func(c *v1alpha1.PostgresCluster, _ *corev1.Pod) { applied(c, list("", "4Gi")) }, ResizeDone, ""},
		"another class": {list("1", "1Gi"), list("1", "1Gi"), func(c *v1alpha1.PostgresCluster, p *corev1.Pod) {
			p.Spec.InitContainers = nil
			applied(c, list("500m", ""))
		}, ResizeNot, "its quality of service class would be Burstable instead of Guaranteed"},
		"a pod that goes": {list("500m", "1Gi"), nil, func(c *v1alpha1.PostgresCluster, p *corev1.Pod) {
			applied(c, list("1", "2Gi"))
			p.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		}, ResizeRunning, ""},
		"a node without room": {list("500m", "1Gi"), nil, func(c *v1alpha1.PostgresCluster, p *corev1.Pod) {
			applied(c, list("1", "2Gi"))
			postgresOf(p).Resources = Resources(c)
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible, Message: "too big"}}
		}, ResizeNot, "says Infeasible: too big"},
	} {
		cluster, pod := sized(c.requests, c.limits)
		before := Hash(cluster, inputs)
		c.change(cluster, pod)
		if state, why := Adjust(pod, cluster, noon); state != c.state || !strings.Contains(why, c.why) {
			t.Errorf("%s: %d, %s", name, state, why)
		}
		if Hash(cluster, inputs) != before {
			t.Errorf("%s: the pod would be replaced for it", name)
		}
	}
}
