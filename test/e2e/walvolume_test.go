//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/place"
)

// withWALVolumes makes a cluster of three whose instances have WAL volumes.
func (b *bed) withWALVolumes(version int32) *v1alpha1.PostgresCluster {
	b.Helper()
	shop := b.NewCluster("shop", version)
	shop.Spec.Instances = 3
	shop.Spec.Synchronous = &v1alpha1.Synchronous{Number: 1, Durability: v1alpha1.DurabilityRequired}
	shop.Spec.Storage.WAL = &v1alpha1.WALStorage{Size: resource.MustParse("512Mi")}
	b.Must(b.Create(b.Context(), shop))
	b.awaitInstances(shop, 3)
	b.hasWALApart(shop)
	return shop
}

// hasWALApart expects the WAL of each instance on its WAL volume, and of no other data than is on its data volume.
func (b *bed) hasWALApart(cluster *v1alpha1.PostgresCluster) {
	b.Helper()
	for _, instance := range cluster.Status.Instances {
		at, err := b.Exec(instance.Name, "readlink", "-f", "/var/lib/howdah/current/pgdata/pg_wal")
		b.Must(err)
		if !strings.HasPrefix(at, "/var/lib/howdah-wal/generations/") {
			b.Errorf("the WAL of %s is at %s", instance.Name, at)
		}
		wal, err := b.Exec(instance.Name, "ls", "/var/lib/howdah-wal/generations")
		b.Must(err)
		data := strings.Fields(b.generationsOn(instance.Name))
		for _, id := range strings.Fields(wal) {
			if !slices.Contains(data, id) {
				b.Errorf("%s has WAL of %s, and data of %v", instance.Name, id, data)
			}
		}
	}
}

// loseWAL deletes the WAL volume of an instance, and its pod, and waits until it follows on a new one.
func (b *bed) loseWAL(cluster *v1alpha1.PostgresCluster, instance string) {
	b.Helper()
	claim, pod := &corev1.PersistentVolumeClaim{ObjectMeta: b.Meta("wal-" + instance)}, &corev1.Pod{ObjectMeta: b.Meta(instance)}
	b.Must(b.Get(b.Context(), client.ObjectKeyFromObject(claim), claim))
	uid := claim.UID
	b.Must(b.Delete(b.Context(), claim))
	b.AwaitReason(cluster, v1alpha1.ConditionStorageHealthy, v1alpha1.ReasonClaimDeleted, "wal-"+instance)
	b.Must(b.Delete(b.Context(), pod))
	b.Await(cluster, "another WAL volume of "+instance, func() bool {
		found := &corev1.PersistentVolumeClaim{}
		err := b.Get(b.Context(), client.ObjectKeyFromObject(claim), found)
		return err == nil && found.UID != uid && found.DeletionTimestamp == nil
	})
	b.awaitInstances(cluster, 3)
}

// TestAClusterWithWALVolumesLivesThroughItsLife: backups, the loss of a WAL volume, of a primary and of a table, an upgrade, and a restore onto one volume, while
// a client writes.
func TestAClusterWithWALVolumesLivesThroughItsLife(t *testing.T) {
	t.Parallel()
	place.NeedKube(t)
	b := newBed(t, "minio")
	shop := b.withWALVolumes(15)
	w := b.startWriter("shop")
	b.Backup("base", "shop")
	w.awaitAcks(20)

	replica := slices.IndexFunc(shop.Status.Instances, func(i v1alpha1.InstanceStatus) bool { return i.Name != shop.Status.Primary })
	b.loseWAL(shop, shop.Status.Instances[replica].Name)
	b.hasWALApart(shop)

	old := b.Primary("shop")
	b.Must(b.Delete(t.Context(), &corev1.Pod{ObjectMeta: b.Meta(old)}, client.GracePeriodSeconds(0)))
	b.Await(shop, "another primary", func() bool { return shop.Status.Primary != old && shop.Status.Timeline > 1 })
	b.awaitInstances(shop, 3)

	w.awaitAcks(20)
	target, until := b.moment("shop")
	w.awaitAcks(20)
	undone := b.inPlace("undone", target)
	b.Must(b.Create(t.Context(), undone))
	b.AwaitTrue(undone, v1alpha1.ConditionRestored)
	b.startsWith(until)
	acked := b.ackedBefore(w, undone.Status.DownAt)
	b.awaitInstances(shop, 3)
	b.hasWALApart(shop)
	b.decides(undone, v1alpha1.DecisionUndo)
	b.AwaitReason(undone, v1alpha1.ConditionSucceeded, v1alpha1.ReasonUndone, "")
	b.awaitInstances(shop, 3)
	has := b.numbers("shop")
	for _, n := range acked {
		if _, found := slices.BinarySearch(has, n); !found {
			t.Fatalf("row %d was acknowledged before the restore, and is not back", n)
		}
	}

	upgrade := b.upgradeTo("up", 18, false)
	b.AwaitTrue(upgrade, v1alpha1.ConditionSucceeded)
	b.awaitInstances(shop, 3)
	b.hasWALApart(shop)

	copied := b.restoreOf("copy", nil)
	copied.Spec.Source = v1alpha1.RestoreSource{Backup: &v1alpha1.LocalReference{Name: "base"}}
	copied.Spec.Target = &v1alpha1.RestoreTarget{Immediate: true}
	copied.Spec.Destination.NewCluster.Storage = &v1alpha1.NewStorage{WAL: &v1alpha1.NewWALStorage{None: true}}
	b.Must(b.Create(t.Context(), copied))
	b.AwaitTrue(copied, v1alpha1.ConditionSucceeded)
	if has := len(b.numbers("copy")); has == 0 {
		t.Error("the copy has no rows")
	}
	single := &v1alpha1.PostgresCluster{ObjectMeta: b.Meta("copy")}
	b.Must(b.Get(t.Context(), client.ObjectKeyFromObject(single), single))
	if single.Spec.Storage.WAL != nil {
		t.Error("the copy has WAL volumes")
	}
}
