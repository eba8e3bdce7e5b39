//go:build e2e

package e2e

import (
	"testing"

	"howdah.dev/apis/v1alpha1"
)

// TestCommitsGoOnWhileTheReplicaOfUpgradedDataIsBuilt upgrades a cluster whose commits wait for its replica, but not while that is built.
func TestCommitsGoOnWhileTheReplicaOfUpgradedDataIsBuilt(t *testing.T) {
	onlyInFull(t, "another test upgrades a cluster with replicas")
	t.Parallel()
	b := newBed(t, "minio")
	shop := b.NewCluster("shop", 15)
	shop.Spec.Instances = 2
	shop.Spec.Synchronous = &v1alpha1.Synchronous{Number: 1, Durability: v1alpha1.DurabilityRequired, DuringRebuild: v1alpha1.RebuildDegrade}
	b.Must(b.Create(t.Context(), shop))
	b.awaitInstances(shop, 2)
	built := func() bool {
		is := shop.Status.Synchronous
		return is != nil && is.ReducedSince == nil && is.Quorum == 1
	}
	b.Await(shop, "a replica that commits wait for", built)
	w := b.startWriter("shop")
	upgrade := b.upgradeTo("up", 18, false)
	b.Await(shop, "commits that don't wait", func() bool {
		return shop.Status.MajorVersion == 18 && shop.Status.Synchronous != nil && shop.Status.Synchronous.ReducedSince != nil
	})
	b.SQL("shop", "CREATE TABLE meanwhile AS SELECT 1")
	b.AwaitTrue(upgrade, v1alpha1.ConditionSucceeded)
	t.Logf("no new connection for %s", w.judge())
	b.Await(shop, "a replica that commits wait for, on the new data", built)
	b.AwaitTrue(shop, v1alpha1.ConditionReplicated)
}
