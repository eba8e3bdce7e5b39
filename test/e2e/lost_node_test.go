//go:build e2e

package e2e

import (
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
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

// awaitWorking waits until the pod of a Job works on a node, and Kubernetes knows that.
func (b *bed) awaitWorking(job string) (node string) {
	b.Helper()
	pods := &corev1.PodList{}
	b.Await(&v1alpha1.PostgresCluster{ObjectMeta: b.Meta("shop")}, "Job "+job+" to work", func() bool {
		b.Must(b.List(b.Context(), pods, client.InNamespace(b.Namespace), client.MatchingLabels{batchv1.JobNameLabel: job}))
		for _, pod := range pods.Items {
			if slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue }) {
				node = pod.Spec.NodeName
			}
		}
		return node != ""
	})
	return node
}

// TestAJobOnALostNodeIsReplacedOrGivenUp is not parallel: it breaks nodes. The Job works on the volume of the last primary, so nothing
// continues before its pod is known to have ended: the node is back, or a person says that it is lost for good. Then a replica continues, as
// they ended after the primary with every row. No row is lost.
func TestAJobOnALostNodeIsReplacedOrGivenUp(t *testing.T) {
	onlyInFull(t, "it breaks nodes, and the tests of the controllers have Jobs on lost nodes")
	place.NeedKube(t)
	b := newBed(t, "minio")
	shop := b.replicated(15)
	b.SQL("shop", "CREATE TABLE t AS SELECT n, md5(n::text) FROM generate_series(1, 200000) AS n")
	node := b.Pod(shop.Status.Primary).Spec.NodeName
	w := b.writerBeside(node)

	upgrade := b.upgradeTo("up", 18, false)
	start := b.loseNode(b.awaitWorking("up-upgrade"))
	b.AwaitSaid(upgrade, "doesn't respond")
	start()
	b.AwaitTrue(upgrade, v1alpha1.ConditionSucceeded)
	w.judge()
	b.awaitInstances(shop, 3)
	if shop.Status.MajorVersion != 18 || b.Pod(shop.Status.Primary).Spec.NodeName != node {
		t.Fatalf("it runs %d, with primary %s", shop.Status.MajorVersion, shop.Status.Primary)
	}

	restore := b.inPlace("back", &v1alpha1.RestoreTarget{Immediate: true})
	restore.Spec.MaxDowntime = &metav1.Duration{Duration: time.Minute}
	b.Must(b.Create(t.Context(), restore))
	start = b.loseNode(b.awaitWorking("back-restore"))
	lost := time.Now()
	b.AwaitSaid(restore, corev1.TaintNodeOutOfService)
	t.Logf("said after %s", time.Since(lost).Round(time.Second))
	untaint := b.taint(node, corev1.TaintNodeOutOfService)
	b.AwaitReason(restore, v1alpha1.ConditionSucceeded, v1alpha1.ReasonMaxDowntimeExceeded, "")
	b.Await(shop, "to continue elsewhere", func() bool {
		b.Must(b.Get(t.Context(), keyOf(shop), shop))
		return shop.Status.Primary != "" && b.Pod(shop.Status.Primary).Spec.NodeName != node && meta.IsStatusConditionTrue(shop.Status.Conditions, v1alpha1.ConditionReady)
	})
	w.awaitAcks(20)
	t.Logf("it continues after %s", time.Since(lost).Round(time.Second))
	untaint()
	start()
	b.awaitInstances(shop, 3)
	w.judge()
}
