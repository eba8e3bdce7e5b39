//go:build integration

package cluster

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
)

func TestAStatusFromBeforeAnUpgradeStartsNothingUntilAPersonDecides(t *testing.T) {
	l := newLab(t)
	shop, upgrade, previous := l.adopted()
	l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRunning)
	upgraded := shop.Status.DataGeneration
	if shop.Status.Adoptions != 1 {
		t.Fatalf("%d adoptions are counted", shop.Status.Adoptions)
	}
	l.say(upgrade, func() { upgrade.Status.VolumeLockRequest, upgrade.Status.Handover = nil, nil })
	l.eventually("the lock is over", func() bool { l.get(shop); return len(shop.Status.VolumeLocks) == 0 })
	l.kube.set(func(s *standIn) {
		s.answer = func(status *agentapi.Status) { // as the volume knows it
			status.Adoption = &agentapi.Adoption{
				Number: 1, DataGeneration: upgraded, Whole: true, SystemIdentifier: "7000000000000000001", MajorVersion: 18,
			}
		}
	})
	pod := &corev1.Pod{}
	if !l.there(pod, "shop-0") {
		t.Fatal("there is no pod")
	}

	l.say(shop, func() { // as a backup of etcd has it
		status := &shop.Status
		status.Adoptions, status.DataGeneration, status.PreviousDataGeneration = 0, previous, ""
		status.MajorVersion, status.Version, status.Image = 17, "17", "postgres:17"
	})
	message := l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonStatusOutdated)
	decision := fmt.Sprintf("shop-0/%s/1", upgraded)
	if !strings.Contains(message, v1alpha1.AnnotationRunData+"="+decision) {
		t.Errorf("message: %s", message)
	}
	another := l.upgrade("again", shop)
	l.settle()
	was := pod.UID
	if l.get(pod); pod.UID != was || !pod.DeletionTimestamp.IsZero() {
		t.Error("a pod that has the newer data was replaced")
	}
	if answer := l.answer(shop, another); answer != nil {
		t.Errorf("the volumes were given away: %+v", answer)
	}
	l.change(another, func() { another.Finalizers = nil })
	if err := l.Delete(t.Context(), another); err != nil {
		t.Fatal(err)
	}

	l.change(shop, func() { shop.Annotations = map[string]string{v1alpha1.AnnotationRunData: decision} })
	l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRunning)
	if s := shop.Status; s.DataGeneration != upgraded || s.Adoptions != 2 || s.MajorVersion != 18 {
		t.Errorf("status: %+v", s)
	}
}
