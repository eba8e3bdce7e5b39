//go:build e2e

package e2e

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/place"
)

// killNodeOf kills the node of a restore's Job as soon as the Job has one, and starts it again.
func (b *bed) killNodeOf(restore *v1alpha1.Restore) {
	b.Helper()
	node, pods := "", &corev1.PodList{}
	b.Await(restore, "its Job to be on a node", func() bool {
		b.Must(b.List(b.Context(), pods, client.InNamespace(b.Namespace), client.MatchingLabels{batchv1.JobNameLabel: restore.Name + "-restore"}))
		for _, pod := range pods.Items {
			if len(pod.Status.InitContainerStatuses) > 0 || pod.Status.Phase == corev1.PodRunning {
				node = pod.Spec.NodeName
			}
		}
		return node != ""
	})
	start := func() { b.Kube("start-node", node) }
	b.T.Cleanup(start)
	b.Kube("kill-node", node)
	b.Must(b.Get(b.Context(), client.ObjectKeyFromObject(restore), restore))
	b.Logf("%s was killed; the restore: %s", node, place.Condition(restore, v1alpha1.ConditionSucceeded).Message)
	start()
}

// TestARestoreWhoseNodeDiesGoesOnOnceTheNodeIsBack is not parallel: it breaks nodes.
func TestARestoreWhoseNodeDiesGoesOnOnceTheNodeIsBack(t *testing.T) {
	onlyInFull(t, "the node of a primary dies in another one, and the Job of a lost node has tests of its controller")
	place.NeedKube(t)
	b := newBed(t, "minio")
	shop := b.Cluster("shop", 17)
	b.SQL("shop", "CREATE TABLE t AS SELECT n, md5(n::text) FROM generate_series(1, 500000) AS n")
	b.Backup("base", "shop")
	b.SQL("shop", "INSERT INTO t SELECT n, 'after the backup' FROM generate_series(1, 200000) AS n")
	before := b.SQL("shop", sum)
	b.SQL("shop", "SELECT pg_create_restore_point('here')")
	b.SQL("shop", "INSERT INTO t SELECT n, 'later' FROM generate_series(1, 1000) AS n")
	awaitArchived(b)

	target := &v1alpha1.RestoreTarget{RestorePoint: "here"}
	copied := b.restoreOf("copy", target)
	b.Must(b.Create(t.Context(), copied))
	b.killNodeOf(copied)
	b.AwaitTrue(copied, v1alpha1.ConditionSucceeded)
	if got := b.SQL("copy", sum); got != before {
		t.Errorf("the copy has %s, not %s", got, before)
	}

	b.AwaitTrue(shop, v1alpha1.ConditionReady) // it may have been on that node
	restore := b.inPlace("back", target)
	b.Must(b.Create(t.Context(), restore))
	b.killNodeOf(restore)
	b.AwaitReason(restore, v1alpha1.ConditionSucceeded, v1alpha1.ReasonAwaitingConfirmation, "")
	b.decides(restore, v1alpha1.DecisionConfirm)
	b.AwaitTrue(restore, v1alpha1.ConditionSucceeded)
	if got := b.SQL("shop", sum); got != before {
		t.Errorf("restored in place it has %s, not %s", got, before)
	}
}
