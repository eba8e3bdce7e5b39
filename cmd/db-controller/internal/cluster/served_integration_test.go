//go:build integration

package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/protocol"
)

// handsBack has an Upgrade take the previous data back under its lock, as its controller does when the cluster isn't Ready.
func (l *lab) handsBack(upgrade *v1alpha1.Upgrade, previous string) {
	l.Helper()
	l.say(upgrade, func() {
		upgrade.Status.Handover.DataGeneration, upgrade.Status.Handover.MajorVersion, upgrade.Status.Handover.Image = previous, 17, "postgres:17"
	})
}

// adopted is a cluster that has adopted what an Upgrade has written.
func (l *lab) adopted() (shop *v1alpha1.PostgresCluster, upgrade *v1alpha1.Upgrade, previous string) {
	l.Helper()
	shop = l.shop(nil)
	l.awaitRunning(shop)
	previous = shop.Status.DataGeneration
	upgrade = l.upgrade("to-18", shop)
	l.awaitAnswer(shop, upgrade, v1alpha1.VolumeLockGranted)
	l.say(upgrade, func() { upgrade.Status.Handover = handover(shop, upgrade) })
	l.awaitAnswer(shop, upgrade, v1alpha1.VolumeLockAdopted)
	return shop, upgrade, previous
}

func TestDataThatHasServedClientsIsNotTakenBack(t *testing.T) {
	l := newLab(t)
	shop, upgrade, previous := l.adopted()
	l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRunning)
	l.kube.set(func(s *standIn) { s.notReady = true })
	l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonStarting)
	l.handsBack(upgrade, previous)
	l.kube.set(func(s *standIn) { s.notReady = false })
	l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRunning)
	if shop.Status.DataGeneration == previous {
		t.Errorf("it runs on %s, the data from before the upgrade", previous)
	}
}

func TestDataThatHasServedNobodyIsTakenBackOnceAllIsStopped(t *testing.T) {
	l := newLab(t)
	shop := l.shop(nil)
	l.awaitRunning(shop)
	previous := shop.Status.DataGeneration
	upgrade := l.upgrade("to-18", shop)
	l.awaitAnswer(shop, upgrade, v1alpha1.VolumeLockGranted)
	l.kube.set(func(s *standIn) { s.notReady, s.unpublished = true, true })
	l.say(upgrade, func() { upgrade.Status.Handover = handover(shop, upgrade) })
	l.awaitAnswer(shop, upgrade, v1alpha1.VolumeLockAdopted)
	pod := &corev1.Pod{}
	l.eventually("a pod of the new image", func() bool { return l.there(pod, "shop-0") && pod.Spec.Containers[0].Image == "postgres:18" })
	l.handsBack(upgrade, previous)
	l.eventually("the previous data is adopted", func() bool {
		return l.answer(shop, upgrade) != nil && protocol.Adopted(shop, upgrade.UID, upgrade.Status.VolumeLockRequest, upgrade.Status.Handover)
	})
	l.kube.set(func(s *standIn) { s.notReady, s.unpublished = false, false })
	l.awaitRunning(shop)
	l.eventually("a pod of the old image", func() bool { return l.there(pod, "shop-0") && pod.Spec.Containers[0].Image == "postgres:17" })
	l.say(upgrade, func() { upgrade.Status.VolumeLockRequest, upgrade.Status.Handover = nil, nil })
	l.eventually("the lock is over", func() bool { l.get(shop); return len(shop.Status.VolumeLocks) == 0 })
	l.awaitRunning(shop)
}

func TestDataThatHasServedWhileNoControllerRanIsNotTakenBack(t *testing.T) {
	l := newLab(t)
	l.kube.set(func(s *standIn) { s.unpublished = true })
	shop := l.shop(nil)
	l.eventually("the cluster runs, and nobody is led to it", func() bool { l.get(shop); return shop.Status.SystemIdentifier != "" })
	previous := shop.Status.DataGeneration
	upgrade := l.upgrade("to-18", shop)
	l.awaitAnswer(shop, upgrade, v1alpha1.VolumeLockGranted)
	l.kube.set(func(s *standIn) { s.notReady = true })
	l.say(upgrade, func() { upgrade.Status.Handover = handover(shop, upgrade) })
	l.awaitAnswer(shop, upgrade, v1alpha1.VolumeLockAdopted)
	pod := &corev1.Pod{}
	l.eventually("a pod of the new image", func() bool { return l.there(pod, "shop-0") && pod.Spec.Containers[0].Image == "postgres:18" })
	l.stop()
	l.kube.set(func(s *standIn) { s.notReady, s.unpublished = false, false })
	slice := &discoveryv1.EndpointSlice{}
	l.eventually("clients are led to it", func() bool {
		return l.there(slice, "shop-rw") && slice.Annotations[agentapi.AnnotationDataGeneration] == shop.Status.DataGeneration
	})
	l.kube.set(func(s *standIn) { s.notReady = true })
	l.eventually("it is down", func() bool { return l.there(pod, "shop-0") && !observed.PodReady(pod) })
	l.handsBack(upgrade, previous)
	l.startController()
	l.eventually("it is recorded that it has served", func() bool {
		answer := l.answer(shop, upgrade)
		return answer != nil && answer.ServedSince != nil
	})
	l.kube.set(func(s *standIn) { s.notReady = false })
	l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRunning)
	if shop.Status.DataGeneration == previous {
		t.Errorf("it runs on %s, the data from before the upgrade", previous)
	}
}
