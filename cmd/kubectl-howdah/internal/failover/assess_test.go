package failover

import (
	"fmt"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
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
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
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
		"it has all of the WAL":    {election{Members: members, Complete: true, End: position{4, 700}}, "shop-1", "Nothing is lost: shop-0 was shut down cleanly"},
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

// three is a cluster of three whose pods run, and whose instances are on these timelines.
func three(known election, timelines ...int64) *observed {
	o := &observed{cluster: &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "shop"}}, pods: map[string]*corev1.Pod{}, known: known, lease: &coordinationv1.Lease{}}
	o.known.LastHolder = "shop-0"
	for i, timeline := range timelines {
		name := fmt.Sprintf("shop-%d", i)
		o.cluster.Status.Instances = append(o.cluster.Status.Instances, v1alpha1.InstanceStatus{Name: name, Timeline: timeline})
		o.pods[name] = pod(name, corev1.ContainerState{})
	}
	return o
}

func TestNoInstanceIsProposedWhereNobodyKnowsWhichHasMost(t *testing.T) {
	one := []member{{"shop-1", position{4, 500}}}
	for name, c := range map[string]struct {
		o    *observed
		want string
	}{
		"none is a member": {three(election{}, 4, 4, 4), ""},
		"none is a member, and one is on an older timeline": {three(election{}, 4, 3, 4), ""},
		"of a member no position is known":                  {three(election{Members: []member{{Name: "shop-1"}}}, 4, 4, 4), ""},
		"there is only one, and it is no member":            {three(election{}, 4, 4), "shop-1"},
		"one of them is a member":                           {three(election{Members: one}, 4, 4, 4), "shop-1"},
		"the member is on an older timeline":                {three(election{Members: one}, 5, 4, 5), ""},
		"its agent doesn't say what it is on":               {three(election{Members: one}, 4, 0, 4), "shop-1"},
	} {
		if got := c.o.best(); got != c.want {
			t.Errorf("%s: %q is proposed", name, got)
		}
		if refused := c.o.refusal(c.o.best()); (c.want == "") != strings.Contains(refused, "pg_last_wal_receive_lsn") {
			t.Errorf("%s: %q", name, refused)
		}
	}
}

func TestAPodThatIsNotReadyIsSaid(t *testing.T) {
	o := three(election{Members: []member{{"shop-1", position{4, 500}}, {"shop-2", position{4, 500}}}}, 4, 4, 4)
	o.pods["shop-1"].Status.Conditions[0].Status = corev1.ConditionUnknown
	if got := o.best(); got != "shop-2" {
		t.Errorf("%s, though it is not ready and shop-2 has as much", got)
	}
	if doubt := o.doubt("shop-1"); o.refusal("shop-1") != "" || !strings.Contains(doubt, "Pod shop-1 is not ready. If its node n1 or its agent") || o.doubt("shop-2") != "" {
		t.Errorf("%q, %q", doubt, o.refusal("shop-1"))
	}
	out := &strings.Builder{}
	if err := (Request{Out: out}).show(o); err != nil || !strings.Contains(out.String(), "Running, NotReady, on n1") {
		t.Error(err, out)
	}
}

func TestASwitchoverThatWaitsIsSaid(t *testing.T) {
	for name, c := range map[string]struct {
		asked *v1alpha1.Switchover
		said  *v1alpha1.SwitchoverStatus
		want  bool
	}{
		"nobody asks":            {nil, nil, false},
		"nobody has answered":    {&v1alpha1.Switchover{To: "shop-1", Token: "b"}, &v1alpha1.SwitchoverStatus{Token: "a", State: v1alpha1.SwitchoverDone}, true},
		"it was only begun":      {&v1alpha1.Switchover{To: "shop-1", Token: "b"}, &v1alpha1.SwitchoverStatus{Token: "b", From: "shop-2", State: v1alpha1.SwitchoverRunning}, true},
		"it was begun elsewhere": {&v1alpha1.Switchover{To: "shop-1", Token: "b"}, &v1alpha1.SwitchoverStatus{Token: "b", From: "shop-0", State: v1alpha1.SwitchoverRunning}, false},
		"it was done or refused": {&v1alpha1.Switchover{To: "shop-1", Token: "b"}, &v1alpha1.SwitchoverStatus{Token: "b", State: v1alpha1.SwitchoverRefused}, false},
	} {
		o := three(election{}, 4, 4)
		o.cluster.Spec.Switchover, o.cluster.Status.Switchover = c.asked, c.said
		got := o.pending("shop-2")
		if want := `to shop-1. As soon as there is a primary, that moves the primary again.`; strings.Contains(got, want) != c.want || (got != "") != c.want {
			t.Errorf("%s: %q", name, got)
		}
		if c.want && !strings.HasSuffix(got, `kubectl patch postgrescluster shop -n demo --type=merge -p '{"spec":{"switchover":null}}'`) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestWhatWasKnownBeforeADecisionCountsUntilSomebodyLeads(t *testing.T) {
	const decided = `{"generation":"g1","timeline":5,"lastHolder":"shop-2","members":[]}`
	const kept = `{"term":8,"election":{"generation":"g1","timeline":4,"lastHolder":"shop-0","quorum":1,"members":[]}}`
	for name, c := range map[string]struct {
		holder, kept string
		term         int32
		last, failed string
	}{
		"nobody has led since":             {"", kept, 8, "shop-0", ""},
		"somebody leads":                   {"shop-2", kept, 9, "shop-2", ""},
		"somebody has led":                 {"", kept, 9, "shop-2", ""},
		"it is about other data":           {"", strings.Replace(kept, "g1", "g0", 1), 8, "shop-2", ""},
		"an earlier version has decided":   {"", "", 8, "shop-2", ""},
		"somebody has damaged what was so": {"", "{", 8, "", "annotation howdah.dev/election-before-failover of Lease shop can't be parsed"},
	} {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "shop", Annotations: map[string]string{annotation: decided, annotationBefore: c.kept}}}
		lease.Spec.HolderIdentity, lease.Spec.LeaseTransitions = &c.holder, &c.term
		known, err := readElection(lease, &v1alpha1.PostgresClusterStatus{})
		if c.failed != "" {
			if err == nil || !strings.Contains(err.Error(), c.failed) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || known.LastHolder != c.last || known.Timeline != 5 || (known.decided == "shop-2") != (c.last == "shop-0") {
			t.Errorf("%s: %+v, %v", name, known, err)
		}
	}
}
