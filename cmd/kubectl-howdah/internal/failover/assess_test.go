package failover

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
)

func node(ready corev1.ConditionStatus, taints ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
	for _, taint := range taints {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: taint})
	}
	return n
}

func pod(name string, state corev1.ContainerState) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: "n1"}, Status: corev1.PodStatus{
		Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "postgres", State: state}},
	}}
}

func TestWhetherTheLastPrimaryIsOffIsKnownOnlyFromWhoCanKnow(t *testing.T) {
	runs := pod("shop-0", corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	ended := pod("shop-0", corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}})
	for name, c := range map[string]struct {
		pod    *corev1.Pod
		node   *corev1.Node
		noNode bool
		want   string
	}{
		"it runs":                       {runs, node(corev1.ConditionTrue), false, ""},
		"its node is silent":            {ended, node(corev1.ConditionUnknown), false, ""},
		"its pod was deleted, by force": {nil, nil, false, ""},
		"nobody may read nodes":         {ended, nil, false, ""},
		"its container has ended":       {ended, node(corev1.ConditionTrue), false, "does not run, says its node"},
		"somebody said that it is off":  {runs, node(corev1.ConditionUnknown, corev1.TaintNodeOutOfService), false, "has the taint"},
		"somebody has removed the node": {runs, nil, true, "was removed from Kubernetes"},
	} {
		o := &observed{known: election{LastHolder: "shop-0"}, pods: map[string]*corev1.Pod{}, node: c.node, noNode: c.noNode}
		if c.pod != nil {
			o.pods["shop-0"] = c.pod
		}
		if got := o.off(); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestWhatIsLostDependsOnWhatTheInstanceHad(t *testing.T) {
	members := []member{{"shop-1", position{4, 800}}, {"shop-2", position{4, 500}}}
	for name, c := range map[string]struct {
		known election
		to    string
		want  string
	}{
		"it was primary last":      {election{}, "shop-0", "Nothing is lost, if the volume"},
		"it has all of the WAL":    {election{Members: members, Complete: true, End: position{4, 700}}, "shop-1", "Nothing is lost: shop-0 was stopped in order"},
		"it lacks the last of it":  {election{Members: members, Complete: true, End: position{4, 700}}, "shop-2", "Acknowledged commits may be lost: replication is asynchronous"},
		"a quorum had each commit": {election{Members: members, Quorum: 1}, "shop-2", "on at least 1 of the members (shop-1, shop-2)"},
		"it was no member":         {election{Members: members[:1], Quorum: 1}, "shop-2", "will probably be lost"},
	} {
		c.known.LastHolder = "shop-0"
		if got := (&observed{known: c.known}).loss(c.to); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestTheInstanceThatHadMostIsProposed(t *testing.T) {
	o := &observed{cluster: &v1alpha1.PostgresCluster{}, pods: map[string]*corev1.Pod{}, known: election{
		LastHolder: "shop-0", Timeline: 4, Members: []member{{"shop-1", position{4, 500}}, {"shop-2", position{4, 800}}},
	}}
	for _, name := range []string{"shop-0", "shop-1", "shop-2", "shop-3"} {
		o.cluster.Status.Instances = append(o.cluster.Status.Instances, v1alpha1.InstanceStatus{Name: name, Timeline: 6})
		o.pods[name] = pod(name, corev1.ContainerState{})
	}
	if got := o.best(); got != "shop-2" || o.timeline() != 7 {
		t.Errorf("%s on timeline %d", got, o.timeline())
	}
	o.cluster.Spec.Failover = &v1alpha1.Failover{Fenced: []v1alpha1.InstanceName{"shop-2"}}
	if got := o.best(); got != "shop-1" {
		t.Errorf("%s, though shop-2 is fenced", got)
	}
	o.pods["shop-1"], o.pods["shop-3"] = nil, nil
	if got := o.best(); got != "" {
		t.Errorf("%s, though no other pod runs", got)
	}
}
