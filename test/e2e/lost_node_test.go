//go:build e2e

package e2e

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/place"
)

// loseNode kills a node, until it is started again.
func (b *bed) loseNode(node string) (start func()) {
	b.Helper()
	start = func() { b.Kube("start-node", node) }
	b.T.Cleanup(start)
	b.Kube("kill-node", node)
	return start
}

// writerBeside writes numbered rows from any node but this one.
func (b *bed) writerBeside(node string) *writer {
	b.Helper()
	defer b.taint(node, "example.com/lost")()
	return b.startWriter("shop")
}

// TestNothingIsStoppedForAnUpgradeWhileTheNodeOfAReplicaIsLost is not parallel: it breaks a node.
func TestNothingIsStoppedForAnUpgradeWhileTheNodeOfAReplicaIsLost(t *testing.T) {
	onlyInFull(t, "it breaks a node, and the tests of the db-controller have lost nodes")
	place.NeedKube(t)
	b := newBed(t, "minio")
	shop := b.replicated(15)
	replica := slices.IndexFunc(shop.Status.Instances, func(i v1alpha1.InstanceStatus) bool { return i.Role == v1alpha1.RoleReplica })
	node := b.Pod(shop.Status.Instances[replica].Name).Spec.NodeName
	w := b.writerBeside(node)
	start := b.loseNode(node)
	lost := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	b.awaitNotReady(lost)
	upgrade := b.upgradeTo("up", 18, false)
	b.AwaitSaid(upgrade, node)
	w.awaitAcks(100)
	b.Must(b.Get(t.Context(), keyOf(shop), shop))
	if shop.Status.MajorVersion != 15 || upgrade.Status.DownAt != nil {
		t.Errorf("it was stopped at %s, and runs %d", upgrade.Status.DownAt, shop.Status.MajorVersion)
	}
	if gap := w.judge(); gap > slow*time.Second {
		t.Errorf("no new connection for %s", gap)
	}
	start()
	b.AwaitTrue(upgrade, v1alpha1.ConditionSucceeded)
	b.awaitInstances(shop, 3)
	w.judge()
}

func (b *bed) awaitNotReady(node *corev1.Node) {
	b.Helper()
	b.Must(b.Get(b.Context(), client.ObjectKeyFromObject(node), node))
	b.Await(node, "not to be ready", func() bool {
		return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue
		})
	})
}
