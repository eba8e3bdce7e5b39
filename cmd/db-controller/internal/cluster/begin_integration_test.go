//go:build integration

package cluster

import (
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
)

func TestWhoBeginsIsToldAndStaysThroughAFailover(t *testing.T) {
	l := newLab(t)
	shop := l.shop(three)
	l.awaitReplicated(shop)
	if told := l.told(); told.DataInstance != "shop-0" || shop.Status.DataInstance != "shop-0" {
		t.Errorf("told %q, recorded %q", told.DataInstance, shop.Status.DataInstance)
	}
	before := l.told().Hash()
	l.lead("shop-1")
	l.eventually("shop-1 is primary", func() bool { l.get(shop); return shop.Status.Primary == "shop-1" })
	l.settle()
	if l.told().Hash() != before {
		t.Errorf("told %+v", l.told())
	}
}

func TestALeaseIsCreatedAgainOnlyOnceAllKnowWhoHasEveryCommit(t *testing.T) {
	l := newLab(t)
	shop := l.shop(three)
	l.awaitReplicated(shop)
	l.lead("shop-1")
	l.eventually("shop-1 is primary", func() bool { l.get(shop); return shop.Status.Primary == "shop-1" })
	// The holder has gone, which the others don't know, and somebody deletes the Lease.
	l.kube.set(func(s *standIn) {
		s.answer = func(status *agentapi.Status) { status.Election.Leader = "shop-7" }
	})
	lease := &coordinationv1.Lease{}
	l.there(lease, "shop")
	gone := lease.UID
	if err := l.Delete(context.Background(), lease); err != nil {
		t.Fatal(err)
	}
	l.change(shop, func() { shop.Spec.PostgreSQL.Parameters = map[string]v1alpha1.ParameterValue{"work_mem": "8MB"} }) // wakes it
	l.eventually("the Lease is there again", func() bool { return l.there(lease, "shop") && lease.UID != gone })
	if l.get(shop); shop.Status.DataInstance != "shop-1" || l.told().DataInstance != "shop-1" {
		t.Errorf("recorded %s, told %s", shop.Status.DataInstance, l.told().DataInstance)
	}
}

func TestTheInstanceThatAnUpgradeRanOnBeginsItsData(t *testing.T) {
	l := newLab(t)
	shop := l.shop(three)
	l.awaitReplicated(shop)
	old := shop.Status.DataGeneration
	l.lead("shop-2")
	upgrade := l.upgrade("to-18", shop)
	l.awaitAnswer(shop, upgrade, v1alpha1.VolumeLockGranted)
	l.kube.set(func(s *standIn) { s.notReady, s.unpublished = true, true }) // what has served clients isn't taken back
	l.say(upgrade, func() { upgrade.Status.Handover = handover(shop, upgrade) })
	l.awaitAnswer(shop, upgrade, v1alpha1.VolumeLockAdopted)
	l.eventually("the agents are told", func() bool { return l.told().DataInstance == "shop-2" })
	l.kube.set(func(s *standIn) { s.leaders["shop"] = "shop-1" }) // a failover on the new data

	l.say(upgrade, func() {
		upgrade.Status.Handover.DataGeneration, upgrade.Status.Handover.MajorVersion, upgrade.Status.Handover.Image = old, 17, "postgres:17"
	})
	l.eventually("the old data is adopted", func() bool { l.get(shop); return shop.Status.DataGeneration == old })
	if told := l.told().DataInstance; shop.Status.DataInstance != "shop-2" || told != "shop-2" {
		t.Errorf("recorded %s, told %s", shop.Status.DataInstance, told)
	}
}

// initializing is a cluster of three whose init Job runs.
func (l *lab) initializing() *v1alpha1.PostgresCluster {
	l.Helper()
	l.kube.set(func(s *standIn) { s.initRuns = true })
	shop := l.shop(three)
	l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonInitializing)
	l.eventually("the init Job is made", func() bool { return l.there(&batchv1.Job{}, "shop-init") })
	l.settle()
	l.get(shop)
	return shop
}

func (l *lab) endInit() { l.kube.set(func(s *standIn) { s.initRuns = false }) }

func TestAClusterThatAnotherProcessHasGrantedIsNotStarted(t *testing.T) {
	l := newLab(t)
	shop := l.initializing()
	l.writes.stick(shop.DeepCopy())
	l.say(shop, func() {
		shop.Status.VolumeLocks = []v1alpha1.VolumeLock{{Kind: v1alpha1.KindRestore, Name: "a", RequesterUID: "a", Token: "a.0", State: v1alpha1.VolumeLockGranted}}
	})
	l.requests.reset()
	l.endInit()
	l.eventually("it has tried to start several times", func() bool {
		tried, _ := l.requests.count("patch postgresclusters/shop/status")
		return tried > 3
	})
	if l.there(&appsv1.StatefulSet{}, "shop") {
		t.Error("PostgreSQL was started on a volume that somebody has")
	}
	l.writes.stick(nil)
	l.awaitReplicated(shop) // there is no such Restore
}

func TestTheVolumesOfReplicasAreCreatedWithTheirPods(t *testing.T) {
	l := newLab(t)
	shop := l.initializing()
	claims := &corev1.PersistentVolumeClaimList{}
	if err := l.List(t.Context(), claims, client.InNamespace(l.ns)); err != nil || len(claims.Items) != 1 || claims.Items[0].Name != "data-shop-0" {
		t.Errorf("%v, %+v", err, claims.Items)
	}
	l.endInit()
	l.awaitReplicated(shop)
}

func TestAVolumeThatSomebodyElseMakesMeanwhileIsNotTaken(t *testing.T) {
	l := newLab(t)
	shop := l.initializing()
	taken := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "data-shop-2"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}
	l.create(taken)
	l.endInit()
	message := l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNameConflict)
	if !strings.Contains(message, "PersistentVolumeClaim data-shop-2 already exists") {
		t.Errorf("message: %s", message)
	}
	if l.get(taken); len(taken.Labels) > 0 || l.there(&appsv1.StatefulSet{}, "shop") {
		t.Errorf("taken %+v, or a pod was started", taken)
	}
}

func TestTheDisruptionBudgetComesWhenThereIsSomethingToProtect(t *testing.T) {
	l := newLab(t)
	l.kube.set(func(s *standIn) { s.notReady = true })
	shop := l.shop(three)
	l.eventually("the pods are there", func() bool { return l.there(&corev1.Pod{}, "shop-2") })
	l.settle()
	budget := &policyv1.PodDisruptionBudget{}
	if l.there(budget, "shop") {
		t.Error("it is there before an instance is ready")
	}
	l.kube.set(func(s *standIn) { s.notReady = false })
	l.eventually("it is made", func() bool { return l.there(budget, "shop") })
	l.awaitReplicated(shop)
	// It stays through a restart, and while nothing is ready.
	l.stop()
	l.startController()
	l.kube.set(func(s *standIn) { s.notReady = true })
	l.eventually("nothing is ready", func() bool { l.get(shop); return shop.Status.ReadyInstances == 0 })
	was := budget.UID
	if !l.there(budget, "shop") || budget.UID != was || !budget.DeletionTimestamp.IsZero() {
		t.Errorf("it is gone: %+v", budget)
	}
}

func TestADisruptionBudgetThatSomebodyElseMakesMeanwhileIsLeftAlone(t *testing.T) {
	l := newLab(t)
	l.kube.set(func(s *standIn) { s.notReady = true })
	shop := l.shop(three)
	l.eventually("the pods are there", func() bool { return l.there(&corev1.Pod{}, "shop-2") })
	taken := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "shop"}}
	l.create(taken)
	l.kube.set(func(s *standIn) { s.notReady = false })
	l.awaitCondition(shop, v1alpha1.ConditionUpToDate, metav1.ConditionFalse, v1alpha1.ReasonNameConflict)
	if l.get(taken); len(taken.OwnerReferences) > 0 || taken.Spec.MaxUnavailable != nil {
		t.Errorf("it was changed: %+v", taken)
	}
	if err := l.Delete(t.Context(), taken); err != nil {
		t.Fatal(err)
	}
	l.awaitReplicated(shop)
}
