//go:build e2e

package e2e

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/place"
)

// TestABackupWhoseNodeDiesIsFinishedOnceTheNodeIsBackAndRestores is not parallel: it breaks a node.
func TestABackupWhoseNodeDiesIsFinishedOnceTheNodeIsBackAndRestores(t *testing.T) {
	onlyInFull(t, "the node of a primary dies in another one, and the Job of a lost node has tests of its controller")
	place.NeedKube(t)
	b := newBed(t, "minio")
	cluster := b.Cluster("shop", 17)
	b.SQL("shop", "CREATE TABLE t AS SELECT n, md5(n::text) FROM generate_series(1, 300000) AS n")
	want := b.SQL("shop", sum)
	backup := &v1alpha1.Backup{ObjectMeta: b.Meta("slow"), Spec: v1alpha1.BackupSpec{
		Cluster: v1alpha1.LocalReference{Name: "shop"}, MaxBytesPerSecond: ptr.To(resource.MustParse("2Mi")),
	}}
	b.Must(b.Create(t.Context(), backup))
	b.Await(backup, "to have copied something", func() bool {
		progress := backup.Status.Progress
		return progress != nil && progress.DoneBytes > 0 && progress.DoneBytes < progress.TotalBytes
	})

	node := b.Pod("shop-0").Spec.NodeName
	start := func() { b.Kube("start-node", node) }
	t.Cleanup(start)
	b.Kube("kill-node", node)
	start()
	b.AwaitTrue(cluster, v1alpha1.ConditionReady)
	b.Merge(backup, `{"spec":{"maxBytesPerSecond":null}}`)
	b.AwaitTrue(backup, v1alpha1.ConditionSucceeded)

	restore := b.restoreOf("copy", nil)
	restore.Spec.Source = v1alpha1.RestoreSource{Backup: &v1alpha1.LocalReference{Name: backup.Name}}
	b.Must(b.Create(t.Context(), restore))
	b.AwaitTrue(restore, v1alpha1.ConditionSucceeded)
	if got := b.SQL("copy", sum); got != want {
		t.Errorf("it has %s instead of %s", got, want)
	}
}

// TestTheVolumeOfAnInstanceIsReplacedWhileABackupReadsIt, as the runbook says. A pod of the Job that has failed would keep the claim, and its next pod
// can't be scheduled as long as the claim is being deleted.
func TestTheVolumeOfAnInstanceIsReplacedWhileABackupReadsIt(t *testing.T) {
	t.Parallel()
	onlyInFull(t, "the controller has tests of its own for it")
	b := newBed(t, "minio")
	cluster := b.NewCluster("shop", 17)
	cluster.Spec.Instances = 2
	b.Must(b.Create(t.Context(), cluster))
	b.awaitInstances(cluster, 2)
	b.SQL("shop", "CREATE TABLE t AS SELECT n, md5(n::text) FROM generate_series(1, 300000) AS n")
	backup := &v1alpha1.Backup{ObjectMeta: b.Meta("slow"), Spec: v1alpha1.BackupSpec{
		Cluster: v1alpha1.LocalReference{Name: "shop"}, MaxBytesPerSecond: ptr.To(resource.MustParse("2Mi")),
	}}
	b.Must(b.Create(t.Context(), backup))
	b.Await(backup, "to have copied something", func() bool {
		progress := backup.Status.Progress
		return progress != nil && progress.DoneBytes > 0 && progress.DoneBytes < progress.TotalBytes
	})
	instance := backup.Status.Plan.Instance
	claim := b.claimOf(instance)
	pod := b.Pod(instance)
	b.Must(b.Delete(t.Context(), claim.DeepCopy()))
	b.Must(b.Delete(t.Context(), pod))
	b.Await(cluster, "another volume", func() bool {
		for _, now := range cluster.Status.Instances {
			if now.Name == instance {
				return now.VolumeUID != "" && now.VolumeUID != claim.UID
			}
		}
		return false
	})
	b.Merge(backup, `{"spec":{"maxBytesPerSecond":null}}`)
	b.awaitInstances(cluster, 2)
	b.AwaitTrue(backup, v1alpha1.ConditionSucceeded)
}
