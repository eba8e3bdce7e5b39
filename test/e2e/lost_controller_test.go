//go:build e2e

package e2e

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/place"
)

// leader is the pod of a controller that leads, and empty while none does.
func (b *bed) leader(controller string) string {
	b.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: suite, Name: controller + ".howdah.dev"}}
	b.Must(b.Get(b.Context(), client.ObjectKeyFromObject(lease), lease))
	pod, _, _ := strings.Cut(ptr.Deref(lease.Spec.HolderIdentity, ""), "_")
	return pod
}

// twoReplicas has a controller run with as many as the chart has by default.
func (b *bed) twoReplicas(controller string) {
	b.Helper()
	b.kubectl("scale", "deployment", "-n", suite, controller, "--replicas=2")
	b.T.Cleanup(func() { // the context of the test is done by then
		if out, err := exec.Command(kubectl(b.T), "scale", "deployment", "-n", suite, controller, "--replicas=1").CombinedOutput(); err != nil {
			b.Errorf("scale %s: %v: %s", controller, err, out)
		}
	})
	b.kubectl("rollout", "status", "deployment", "-n", suite, controller, "--timeout=180s")
}

// TestTheSuiteGoesOnWhenTheNodeOfALeaderIsLost is not parallel: it breaks a node.
func TestTheSuiteGoesOnWhenTheNodeOfALeaderIsLost(t *testing.T) {
	onlyInFull(t, "it breaks a node")
	place.NeedKube(t)
	b := newBed(t, "minio")
	b.twoReplicas("db-controller")
	before := b.leader("db-controller")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: suite, Name: before}}
	b.Must(b.Get(t.Context(), keyOf(pod), pod))
	node := pod.Spec.NodeName

	undo := b.taint(node, "example.com/leader") // so that what is lost is the leader, and no instance
	shop := b.replicated(15)
	w := b.startWriter("shop")
	undo()
	start := b.loseNode(node)
	lost := time.Now()
	b.Merge(shop, `{"spec":{"postgresql":{"parameters":{"work_mem":"7MB"}}}}`)
	b.Await(shop, "another leader", func() bool { now := b.leader("db-controller"); return now != "" && now != before })
	leads := time.Since(lost)
	b.Await(shop, "the change of its spec", func() bool {
		return shop.Status.ObservedGeneration == shop.Generation && place.Condition(shop, v1alpha1.ConditionUpToDate).Status == metav1.ConditionTrue
	})
	changed := time.Since(lost)
	if size := b.SQL("shop", "SHOW work_mem"); size != "7MB" {
		t.Errorf("work_mem is %s", size)
	}
	upgrade := b.upgradeTo("up", 18, false)
	b.Await(upgrade, "the volumes", func() bool { return upgrade.Status.Previous != nil })
	t.Logf("another replica leads after %s, the spec is in effect after %s, and a volume lock was granted after %s",
		leads.Round(time.Second/10), changed.Round(time.Second/10), time.Since(lost).Round(time.Second/10))
	if leads > time.Minute {
		t.Errorf("nobody led for %s", leads)
	}
	start()
	b.AwaitTrue(upgrade, v1alpha1.ConditionSucceeded)
	b.awaitInstances(shop, 3)
	w.judge()
}
