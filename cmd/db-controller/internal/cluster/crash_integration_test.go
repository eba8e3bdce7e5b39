//go:build integration

package cluster

import (
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/subset"
)

// mortals lets one controller after the other live for this many writes each, until the function that it returns is called.
func (l *lab) mortals(lifetime int) (stop func()) {
	l.stop()
	l.lifetime = lifetime
	l.startController()
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			case <-l.writes.died:
				l.stop()
				l.startController()
			}
		}
	}()
	stop = sync.OnceFunc(func() { close(quit); <-done })
	l.Cleanup(stop)
	return stop
}

func TestEachWriteMayBeTheLastOfAProcess(t *testing.T) {
	l := newLab(t)
	l.patience *= 4
	stop := l.mortals(1)
	shop := l.archivedShop()
	old := shop.Status.DataGeneration

	upgrade := l.upgrade("to-18", shop)
	l.awaitAnswer(shop, upgrade, v1alpha1.VolumeLockGranted)
	if l.there(&corev1.Pod{}, "shop-0") {
		t.Error("granted while a pod was there")
	}
	l.say(upgrade, func() { upgrade.Status.Handover = handover(shop, upgrade) })
	l.awaitAnswer(shop, upgrade, v1alpha1.VolumeLockAdopted)
	l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRunning)
	if shop.Status.PreviousDataGeneration != old || shop.Status.MajorVersion != 18 {
		t.Errorf("status: %+v", shop.Status)
	}
	l.say(upgrade, func() { upgrade.Status.VolumeLockRequest, upgrade.Status.Handover = nil, nil })
	l.eventually("the hold is over", func() bool { l.get(shop); return len(shop.Status.VolumeLocks) == 0 })

	l.beginDeletion(shop)
	l.answerBackup(shop, metav1.ConditionTrue, "done")
	l.awaitGone(shop)
	stop()
	claim := &corev1.PersistentVolumeClaim{}
	if l.there(claim, "data-shop-0") && claim.DeletionTimestamp.IsZero() {
		t.Error("the volume is still there")
	}
}

// A process that begins a cluster doesn't look for what it makes; the one after it meets the half of it.
func TestAProcessMayDieAnywhereInMakingACluster(t *testing.T) {
	for lifetime := 2; lifetime < 30; lifetime += 3 {
		t.Run(fmt.Sprintf("after %d writes", lifetime), func(t *testing.T) {
			l := newLab(t)
			l.patience *= 2
			stop := l.mortals(lifetime)
			shop := l.shop(three)
			l.awaitReplicated(shop)
			stop()
		})
	}
}

func TestEachWriteMayBeTheLastOfAProcessWithThreeInstances(t *testing.T) {
	subset.OneIn(t, 3)
	l := newLab(t)
	l.patience *= 6
	stop := l.mortals(1)
	shop := l.shop(three)
	l.awaitReplicated(shop)
	l.change(shop, func() { shop.Spec.Image = "postgres:17.6" })
	l.awaitReplicated(shop)
	l.change(shop, func() { shop.Spec.Switchover = &v1alpha1.Switchover{To: "shop-2", Token: "a"} })
	l.awaitSwitchover(shop, "a", v1alpha1.SwitchoverDone)

	upgrade := l.upgrade("to-18", shop)
	answer := l.awaitAnswer(shop, upgrade, v1alpha1.VolumeLockGranted)
	if answer.Volumes[0].Instance != "shop-2" {
		t.Errorf("granted %+v", answer.Volumes)
	}
	l.say(upgrade, func() { upgrade.Status.VolumeLockRequest = nil })
	l.kube.set(func(s *standIn) { s.leaders["shop"] = "shop-2" })
	l.awaitReplicated(shop)
	l.scale(shop, 1)
	l.eventually("one instance is left", func() bool { l.get(shop); return len(shop.Status.Instances) == 1 })
	l.awaitRunning(shop)
	l.scale(shop, 2)
	l.awaitReplicated(shop)
	stop()
}
