//go:build integration

package cluster

import (
	"context"
	"maps"
	"reflect"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/orphan"
	"howdah.dev/howdah/pkg/workload"
	"howdah.dev/howdah/test/testkit/apiserver"
	"howdah.dev/howdah/test/testkit/subset"
)

func orphaned(c *v1alpha1.PostgresCluster) {
	three(c)
	c.Spec.DeletionPolicy.Database = v1alpha1.DatabaseOrphan
}

// podsByName are the UIDs by the names of the pods.
func (l *lab) podsByName() map[string]types.UID {
	l.Helper()
	pods, uids := &corev1.PodList{}, map[string]types.UID{}
	if err := l.List(context.Background(), pods, client.InNamespace(l.ns)); err != nil {
		l.Fatal(err)
	}
	for i := range pods.Items {
		uids[pods.Items[i].Name] = pods.Items[i].UID
	}
	return uids
}

// owners are the UIDs of the PostgresClusters that own the parts of shop, and how many parts there are of each. Nobody is "".
func (l *lab) owners(shop *v1alpha1.PostgresCluster) map[types.UID]int {
	l.Helper()
	owners := map[types.UID]int{}
	for _, part := range orphan.Parts(shop, nil) {
		part.Namespace = l.ns
		if !l.there(part, part.Name) {
			continue
		}
		var owner types.UID
		for _, reference := range part.OwnerReferences {
			owner = reference.UID
		}
		owners[owner]++
	}
	return owners
}

// TestADatabaseIsReleasedAndTakenOverWithoutARestart with each write the last of its process, with the rights of the account alone.
func TestADatabaseIsReleasedAndTakenOverWithoutARestart(t *testing.T) {
	subset.OnlyInFull(t)
	l := newLab(t)
	l.agent, l.account = workload.Agent{Image: "registry.local/howdah/agent:1"}, apiserver.As(t, "db-controller")
	l.create(repository(l.ns))
	l.create(credentials(l.ns))
	wanted := func(c *v1alpha1.PostgresCluster) {
		archived(c)
		orphaned(c)
		c.Spec.Roles = []v1alpha1.Role{{Name: "web", Login: ptr.To(true), CertificateSecret: &v1alpha1.CertificateSecret{Name: "web-tls"}}}
	}
	l.stop()
	l.startController()
	first := l.shop(wanted)
	l.awaitReplicated(first)
	l.patience *= 4
	stop := l.mortals(1)
	pods, told, parts := l.podsByName(), l.told(), l.owners(first)
	authority, app := &corev1.Secret{}, &corev1.Secret{}
	l.there(authority, "shop-ca")
	l.there(app, "shop-app")

	l.beginDeletion(first)
	l.awaitGone(first)
	if owners := l.owners(first); len(owners) != 1 || owners[""] != parts[first.UID] {
		t.Fatalf("released %v of %v", owners, parts)
	}
	backups := &v1alpha1.BackupList{}
	if err := l.List(t.Context(), backups, client.InNamespace(l.ns)); err != nil || len(backups.Items) > 0 {
		t.Errorf("a last backup was requested: %v, %+v", err, backups.Items)
	}
	l.kube.set(func(s *standIn) { s.leaders["shop"] = "shop-1" }) // nobody needs a controller for it

	second := l.shop(wanted)
	l.awaitReplicated(second)
	l.eventually("the record is gone", func() bool { return !l.there(&corev1.ConfigMap{}, "shop-released") })
	stop()
	if owners := l.owners(second); len(owners) != 1 || owners[second.UID] != parts[first.UID] {
		t.Errorf("owned %v of %v", owners, parts)
	}
	status := second.Status
	if status.Identity != first.UID || status.Primary != "shop-1" || status.DataGeneration != first.Status.DataGeneration {
		t.Errorf("identity %s, primary %s, data generation %s", status.Identity, status.Primary, status.DataGeneration)
	}
	if now := l.podsByName(); !maps.Equal(now, pods) || len(now) != 3 {
		t.Errorf("pods %v, and now %v", pods, now)
	}
	if now := l.told(); !reflect.DeepEqual(now, told) {
		t.Errorf("instances were told %+v, and now %+v", told, now)
	}
	for _, before := range []*corev1.Secret{authority, app} {
		now := &corev1.Secret{}
		if l.there(now, before.Name); !reflect.DeepEqual(now.Data, before.Data) || now.UID != before.UID {
			t.Errorf("Secret %s has changed", now.Name)
		}
	}
}

func TestOnlyTheDatabaseThatWasReleasedIsTakenOver(t *testing.T) {
	l := newLab(t)
	apiserver.InstallBoundaries(t)
	shop := l.shop(orphaned)
	l.awaitReplicated(shop)
	pods := l.podsByName()
	l.eventually("a deletion in the foreground is refused", func() bool {
		err := l.Delete(t.Context(), shop, client.PropagationPolicy(metav1.DeletePropagationForeground), client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), "delete the PostgresCluster with --cascade=background")
	})
	l.beginDeletion(shop)
	l.awaitGone(shop)

	released, other := &corev1.Service{}, &corev1.Service{}
	l.there(released, "shop-ro")
	if err := l.Delete(t.Context(), released); err != nil {
		t.Fatal(err)
	}
	other.ObjectMeta, other.Spec = metav1.ObjectMeta{Namespace: l.ns, Name: "shop-ro", Labels: released.Labels}, corev1.ServiceSpec{Ports: released.Spec.Ports}
	l.create(other)
	unlike := l.shop(func(c *v1alpha1.PostgresCluster) {
		orphaned(c)
		c.Spec.Bootstrap = &v1alpha1.Bootstrap{Initdb: &v1alpha1.BootstrapInitdb{Database: "other"}}
	})
	message := l.awaitCondition(unlike, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNameConflict)
	if !strings.Contains(message, "Service shop-ro exists, but is not the one that was released") {
		t.Errorf("message: %s", message)
	}
	if err := l.Delete(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	message = l.awaitCondition(unlike, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonTakeoverRefused)
	if !strings.Contains(message, "its spec.bootstrap can't be changed") {
		t.Errorf("message: %s", message)
	}
	l.beginDeletion(unlike)
	l.awaitGone(unlike)
	if now := l.podsByName(); !maps.Equal(now, pods) {
		t.Fatalf("the pods of the released database: %v, and now %v", pods, now)
	}

	again := l.shop(func(c *v1alpha1.PostgresCluster) { three(c); c.Spec.DeletionPolicy.Volumes = v1alpha1.VolumesDelete })
	l.awaitReplicated(again)
	if now := l.podsByName(); !maps.Equal(now, pods) || again.Status.Identity != shop.UID {
		t.Errorf("pods %v, and now %v; identity %s of %s", pods, now, again.Status.Identity, shop.UID)
	}
	l.beginDeletion(again)
	l.awaitGone(again)
	claim := &corev1.PersistentVolumeClaim{}
	if len(l.podsByName()) > 0 || l.there(claim, "data-shop-0") && claim.DeletionTimestamp.IsZero() {
		t.Error("the pods or a volume are still there")
	}
}

func TestADatabaseIsReleasedOnceNobodyNeedsItsCluster(t *testing.T) {
	l := newLab(t)
	shop := l.shop(orphaned)
	l.awaitReplicated(shop)
	upgrade := l.upgrade("to-18", shop)
	l.awaitAnswer(shop, upgrade, v1alpha1.VolumeLockGranted)
	l.beginDeletion(shop)
	message := func() string {
		l.get(shop)
		for _, condition := range shop.Status.Conditions {
			if condition.Type == v1alpha1.ConditionReady {
				return condition.Message
			}
		}
		return ""
	}
	l.passes(shop, 2)
	if !strings.Contains(message(), "Upgrade to-18 holds the volume lock") || l.owners(shop)[shop.UID] == 0 {
		t.Errorf("message: %s", message())
	}
	l.say(upgrade, func() { upgrade.Status.VolumeLockRequest = nil })
	l.eventually("it waits for the Upgrade", func() bool { return strings.Contains(message(), "when Upgrade to-18 has ended") })
	l.say(upgrade, func() {
		upgrade.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionSucceeded, Status: metav1.ConditionFalse, Reason: "X", LastTransitionTime: metav1.Now()}}
	})
	l.awaitGone(shop)
	set := &appsv1.StatefulSet{}
	if !l.there(set, "shop") || *set.Spec.Replicas != 3 || l.owners(shop)[""] == 0 {
		t.Errorf("the StatefulSet was not left as it should run: %+v", set.Spec.Replicas)
	}
}
