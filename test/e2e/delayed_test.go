//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
)

func TestADelayedReplicaHasWhatWasDeletedAndServesNobody(t *testing.T) {
	onlyInFull(t, "the agent's own tests and the simulations have delayed replicas, too")
	t.Parallel()
	b := newBed(t, "minio")
	cluster := b.replicated(17)
	b.SQL("shop", "CREATE TABLE orders AS SELECT generate_series(1, 100) AS id")
	rows := func() string {
		rows, _ := b.SQLOn("shop-2", "SELECT count(*) FROM orders")
		return rows
	}
	late := func() v1alpha1.InstanceStatus { return cluster.Status.Instances[2] }
	if late().Role == v1alpha1.RolePrimary {
		t.Fatal("the first primary is another instance")
	}
	b.Await(cluster, "shop-2 to have the rows", func() bool { return rows() == "100" })
	b.Merge(cluster, `{"spec":{"delayedReplicas":[{"name":"shop-2","delay":"1h"}]}}`)
	b.Await(cluster, "the delay", func() bool { return late().DelaySeconds == 3600 && !late().Eligible })
	b.SQL("shop", "DELETE FROM orders")

	primary, replicas := b.addresses(cluster)
	address := b.Pod("shop-2").Status.PodIP
	replicas = slices.DeleteFunc(replicas, func(a string) bool { return a == address })
	for service, want := range map[string][]string{"shop-ro": replicas, "shop-r": append(replicas, primary...)} {
		b.awaitEndpoints(service, want)
	}
	b.Merge(cluster, `{"spec":{"switchover":{"token":"late","to":"shop-2"}}}`)
	b.Await(cluster, "the switchover to be refused", func() bool {
		s := cluster.Status.Switchover
		return s != nil && s.Token == "late" && s.State == v1alpha1.SwitchoverRefused && strings.Contains(s.Message, "is a delayed replica")
	})
	if got := rows(); got != "100" {
		t.Errorf("shop-2 has %q rows", got)
	}
	b.Merge(cluster, `{"spec":{"delayedReplicas":null}}`)
	b.Await(cluster, "shop-2 to replay", func() bool { return rows() == "0" && late().Eligible })
}

// TestADelayedReplicaStaysLateThroughHibernationAndAMajorUpgrade: it wakes without the newest rows, holds nothing up, and is late again once the
// upgraded data was copied to it.
func TestADelayedReplicaStaysLateThroughHibernationAndAMajorUpgrade(t *testing.T) {
	t.Parallel()
	onlyInFull(t, "the agent's own tests and the simulations have delayed replicas, too")
	b := newBed(t, "minio")
	cluster := b.NewCluster("shop", 15)
	cluster.Spec.Instances = 2
	cluster.Spec.DelayedReplicas = []v1alpha1.DelayedReplica{{Name: "shop-1", Delay: metav1.Duration{Duration: time.Hour}}}
	b.Must(b.Create(t.Context(), cluster))
	isLate := func() bool {
		for _, i := range cluster.Status.Instances {
			if i.Name == "shop-1" {
				return i.Ready && i.Role == v1alpha1.RoleReplica && i.DelaySeconds == 3600 && !i.Eligible
			}
		}
		return false
	}
	b.Await(cluster, "a delayed replica", isLate)
	rows := func(instance, table string) string {
		rows, _ := b.SQLOn(instance, "SELECT count(*) FROM "+table)
		return rows
	}
	b.SQL("shop", "CREATE TABLE orders AS SELECT generate_series(1, 100) AS id")

	b.Merge(cluster, `{"spec":{"hibernate":true}}`)
	b.AwaitReason(cluster, v1alpha1.ConditionReady, v1alpha1.ReasonHibernated, "")
	b.Merge(cluster, `{"spec":{"hibernate":false}}`)
	b.AwaitTrue(cluster, v1alpha1.ConditionReady)
	b.Await(cluster, "a delayed replica after the hibernation", isLate)
	if b.Primary("shop") != "shop-0" || rows("shop-0", "orders") != "100" || rows("shop-1", "orders") == "100" {
		t.Errorf("%s is primary; the primary has %q rows, and the delayed replica %q", b.Primary("shop"), rows("shop-0", "orders"), rows("shop-1", "orders"))
	}

	b.Merge(cluster, `{"spec":{"version":17}}`)
	upgrade := b.upgradeTo("up", 17, false)
	b.AwaitTrue(upgrade, v1alpha1.ConditionSucceeded)
	b.Await(cluster, "a delayed replica after the upgrade", func() bool { return cluster.Status.MajorVersion == 17 && isLate() })
	if got := rows("shop-0", "orders"); got != "100" || b.Primary("shop") != "shop-0" {
		t.Errorf("%s is primary, with %q rows", b.Primary("shop"), got)
	}
	b.SQL("shop", "CREATE TABLE later AS SELECT 1")
	b.Await(cluster, "shop-1 to receive what it doesn't replay", func() bool {
		waits, _ := b.SQLOn("shop-1", "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'RecoveryApplyDelay'")
		return waits == "1"
	})
	if got := rows("shop-1", "later"); got == "1" {
		t.Error("it replayed at once what was written after the upgrade")
	}
}
