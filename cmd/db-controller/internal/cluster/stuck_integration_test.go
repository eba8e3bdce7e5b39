//go:build integration

package cluster

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
)

// hang has the pod of an instance be deleted and not end, as on a node that was lost.
func (l *lab) hang(name string) {
	l.Helper()
	pod := &corev1.Pod{}
	l.there(pod, name)
	pod.Finalizers = append(pod.Finalizers, "test/hangs")
	if err := l.Update(l.Context(), pod); err != nil {
		l.Fatal(err)
	}
	if err := l.Delete(l.Context(), pod); err != nil {
		l.Fatal(err)
	}
}

// end has such a pod end after all.
func (l *lab) end(name string) {
	l.Helper()
	pod := &corev1.Pod{}
	l.there(pod, name)
	pod.Finalizers = nil
	if err := l.Update(l.Context(), pod); err != nil {
		l.Fatal(err)
	}
}

func TestNothingIsStoppedForALockWhileAPodHangs(t *testing.T) {
	l := newLab(t)
	shop := l.shop(three)
	l.awaitReplicated(shop)
	l.hang("shop-2")
	upgrade := l.upgrade("to-18", shop)
	l.awaitAnswer(shop, upgrade, v1alpha1.VolumeLockQueued)
	l.eventually("it is said what is waited for", func() bool {
		answer := l.answer(shop, upgrade)
		return answer != nil && strings.HasPrefix(answer.Message, "Pod shop-2 is being deleted")
	})
	l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRunning)
	primary := &corev1.Pod{}
	if !l.there(primary, "shop-0") || !primary.DeletionTimestamp.IsZero() {
		t.Error("the primary was stopped")
	}
	l.end("shop-2")
	l.awaitAnswer(shop, upgrade, v1alpha1.VolumeLockGranted)
}

func TestAClusterGoesOnWhenTheMaximalDowntimeIsOver(t *testing.T) {
	l := newLab(t)
	shop := l.shop(nil)
	l.awaitRunning(shop)
	generation := shop.Status.DataGeneration
	upgrade := l.upgradeWithin(&metav1.Duration{Duration: time.Second}, "to-18", shop)
	l.awaitAnswer(shop, upgrade, v1alpha1.VolumeLockRefused) // its controller is away
	l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRunning)
	l.say(upgrade, func() { upgrade.Status.Handover = handover(shop, upgrade) }) // too late
	l.awaitRunning(shop)
	if shop.Status.DataGeneration != generation {
		t.Errorf("it runs on %s", shop.Status.DataGeneration)
	}
}
