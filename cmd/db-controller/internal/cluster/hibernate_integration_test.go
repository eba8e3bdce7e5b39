//go:build integration

package cluster

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"

	"howdah.dev/howdah/test/testkit/subset"
)

func TestAClusterSleepsAndWakesWhereItWas(t *testing.T) {
	l := newLab(t)
	shop := l.shop(three)
	l.awaitReplicated(shop)
	l.lead("shop-2")
	l.eventually("shop-2 is primary", func() bool { l.get(shop); return shop.Status.Primary == "shop-2" })
	l.change(shop, func() { shop.Spec.Hibernate = true })
	l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonHibernated)
	l.awaitCondition(shop, v1alpha1.ConditionUpToDate, metav1.ConditionTrue, v1alpha1.ReasonHibernated)
	l.awaitCondition(shop, v1alpha1.ConditionReplicated, metav1.ConditionFalse, v1alpha1.ReasonHibernated)
	for _, name := range []string{"0", "1", "2"} {
		if l.there(&corev1.Pod{}, "shop-"+name) || !l.there(&corev1.PersistentVolumeClaim{}, "data-shop-"+name) {
			t.Errorf("shop-%s runs, or its volume is gone", name)
		}
	}
	if shop.Status.Primary != "shop-2" || shop.Status.ReadyInstances != 0 {
		t.Errorf("status: %+v", shop.Status)
	}
	l.settle()
	l.stop()
	l.startController()
	// Fewer are wanted when it wakes, and not the one with the data.
	l.scale(shop, 1)
	l.settle()
	l.change(shop, func() { shop.Spec.Hibernate = false })
	l.eventually("the one with the data is among those that are made", func() bool {
		set := &appsv1.StatefulSet{}
		return l.there(set, "shop") && *set.Spec.Replicas == 3 && l.told().Instances == 3
	})
	l.kube.set(func(s *standIn) { s.leaders["shop"] = "shop-2" })
	l.eventually("one is left", func() bool { l.get(shop); return len(shop.Status.Instances) == 1 })
	l.awaitRunning(shop)
}

func TestASleepingClusterWakesForItsLastBackup(t *testing.T) {
	l := newLab(t)
	shop := l.archivedShop()
	l.change(shop, func() { shop.Spec.Hibernate = true })
	l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonHibernated)
	l.beginDeletion(shop)
	message := l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonAwaitingFinalBackup)
	if !strings.Contains(message, "finalBackup: false") {
		t.Errorf("message: %s", message)
	}
	l.answerBackup(shop, metav1.ConditionTrue, "done")
	l.awaitGone(shop)
}

func TestANewClusterMayBeginAsleep(t *testing.T) {
	subset.OnlyInFull(t)
	l := newLab(t)
	shop := l.shop(func(c *v1alpha1.PostgresCluster) { c.Spec.Hibernate = true })
	l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonHibernated)
	l.settle()
	if l.there(&corev1.Pod{}, "shop-0") {
		t.Error("it runs")
	}
	l.change(shop, func() { shop.Spec.Hibernate = false })
	l.awaitRunning(shop)
}
