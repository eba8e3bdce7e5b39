//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/majorupdate"
	"howdah.dev/howdah/test/testkit/place"
)

// TestAClusterGoesToTheVersionOfItsSpecByPolicy has only spec.version changed, outside of the window and then in it, while rows are
// written.
func TestAClusterGoesToTheVersionOfItsSpecByPolicy(t *testing.T) {
	onlyInFull(t, "what an Upgrade does is tried without a policy as well")
	t.Parallel()
	b := newBed(t, "minio")
	shop := b.Cluster("shop", 15)
	b.SQL("shop", "CREATE TABLE t AS SELECT n, md5(n::text) FROM generate_series(1, 50000) AS n")
	before := b.SQL("shop", sum)
	w := b.startWriter("shop")

	shut := fmt.Sprintf("0 %d * * *", time.Now().UTC().Add(12*time.Hour).Hour())
	b.Merge(shop, `{"spec":{"version":18,"updates":{"major":"Automatic","window":{"schedule":"`+shut+`","duration":"10m"}}}}`)
	check := &v1alpha1.Upgrade{ObjectMeta: b.Meta(majorupdate.CheckName(shop))}
	b.AwaitTrue(check, v1alpha1.ConditionSucceeded)
	b.AwaitReason(shop, v1alpha1.ConditionUpToDate, v1alpha1.ReasonVersionPending, "It waits until")
	if got := len(b.upgradesOf("shop")); got != 1 || shop.Status.MajorVersion != 15 {
		t.Errorf("before the window there are %d Upgrades, and it runs %s", got, shop.Status.Version)
	}

	b.Merge(shop, `{"spec":{"updates":{"window":{"schedule":"* * * * *"}}}}`)
	upgrade := &v1alpha1.Upgrade{ObjectMeta: b.Meta(majorupdate.SuccessorName(check))}
	b.AwaitTrue(upgrade, v1alpha1.ConditionSucceeded)
	gap := w.judge()
	t.Logf("%s; no new connection for %s", place.Condition(upgrade, v1alpha1.ConditionSucceeded).Message, gap)
	b.AwaitTrue(shop, v1alpha1.ConditionReady)
	if got := b.SQL("shop", sum); got != before || shop.Status.MajorVersion != 18 || !strings.HasPrefix(b.SQL("shop", "SHOW server_version"), "18.") {
		t.Errorf("it runs %s with %s, not 18 with %s", shop.Status.Version, got, before)
	}
	if upgrade.Status.PriorBackup == "" {
		t.Error("nothing was backed up before it")
	}

	b.Merge(upgrade, `{"spec":{"decision":"RollBack"}}`)
	b.AwaitReason(upgrade, v1alpha1.ConditionConfirmed, v1alpha1.ReasonRolledBack, "")
	b.AwaitReason(shop, v1alpha1.ConditionUpToDate, v1alpha1.ReasonVersionPending, "It is not tried again")
	if got := len(b.upgradesOf("shop")); got != 2 || shop.Status.MajorVersion != 15 {
		t.Errorf("after a person has rolled it back there are %d Upgrades, and it runs %s", got, shop.Status.Version)
	}
}

// upgradesOf are the Upgrades of a cluster.
func (b *bed) upgradesOf(cluster string) []v1alpha1.Upgrade {
	b.Helper()
	upgrades := &v1alpha1.UpgradeList{}
	b.Must(b.List(b.Context(), upgrades, client.InNamespace(b.Namespace), client.MatchingLabels{v1alpha1.LabelCluster: cluster}))
	return upgrades.Items
}
