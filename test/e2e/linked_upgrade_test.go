//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

// TestALinkedUpgradeLeadsBackToAReplica upgrades a cluster of three by linking files while rows are written, and brings the old version back,
// which runs on what a replica has: nothing that was acknowledged before the new version is lost.
func TestALinkedUpgradeLeadsBackToAReplica(t *testing.T) {
	onlyInFull(t, "the agent and the controllers try each part of it")
	t.Parallel()
	b := newBed(t, "minio")
	const from, to = 15, 18
	shop := b.NewCluster("shop", from)
	shop.Spec.Instances = 3
	b.Must(b.Create(t.Context(), shop))
	b.awaitInstances(shop, 3)
	if b.refusesTooOld(shop, to) {
		return
	}
	former := shop.Status.Primary
	w := b.startWriter("shop")
	upgrade := &v1alpha1.Upgrade{ObjectMeta: b.Meta("up"), Spec: v1alpha1.UpgradeSpec{
		Cluster: v1alpha1.LocalReference{Name: "shop"}, Version: to, Transfer: v1alpha1.TransferLink,
	}}
	b.Must(b.Create(t.Context(), upgrade))
	b.Await(upgrade, "the new version to accept connections", func() bool { return upgrade.Status.UpAt != nil })
	t.Logf("no new connection for %s", w.judge())
	previous := upgrade.Status.Previous
	if previous.Instance == former {
		t.Errorf("the way back is %s, whose files are linked", former)
	}
	links, err := b.Exec(former, "sh", "-c", "find /var/lib/howdah/current/pgdata/base -type f -links +1 | wc -l")
	b.Must(err)
	if links == "0" {
		t.Error("no file is linked")
	}
	acks := w.acks()
	b.Must(b.Delete(t.Context(), w.pod))

	b.Must(b.Patch(t.Context(), upgrade, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"decision":"RollBack"}}`))))
	b.AwaitReason(upgrade, v1alpha1.ConditionConfirmed, v1alpha1.ReasonRolledBack, "")
	b.AwaitTrue(shop, v1alpha1.ConditionReady)
	if shop.Status.MajorVersion != from || shop.Status.DataInstance != previous.Instance {
		t.Errorf("it runs %d, begun on %s, and not %d on %s", shop.Status.MajorVersion, shop.Status.DataInstance, from, previous.Instance)
	}
	present := map[string]bool{}
	for _, number := range strings.Fields(b.SQL("shop", "SELECT n FROM numbers")) {
		present[number] = true
	}
	before, lost := w.missing(acks, present, upgrade.Status.UpAt.Time)
	if t.Logf("%d rows were acknowledged before the new version", before); before == 0 || lost > 0 {
		t.Errorf("%d of them are lost", lost)
	}
	b.awaitInstances(shop, 3)
	b.AwaitTrue(shop, v1alpha1.ConditionReplicated)
}
