//go:build integration

package cluster

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
)

func TestAPodThatAloneKeepsItsVolumeIsNotReplaced(t *testing.T) {
	l := newLab(t)
	shop := l.shop(three)
	l.awaitReplicated(shop)
	claim, pod := &corev1.PersistentVolumeClaim{}, &corev1.Pod{}
	if !l.there(claim, "data-shop-2") || !l.there(pod, "shop-2") {
		t.Fatal("there is no third instance")
	}
	if err := l.Delete(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	message := l.awaitCondition(shop, v1alpha1.ConditionStorageHealthy, metav1.ConditionFalse, v1alpha1.ReasonClaimDeleted)
	if !strings.Contains(message, "PersistentVolumeClaim data-shop-2 is marked for deletion") {
		t.Errorf("message: %s", message)
	}
	was := pod.UID
	l.change(shop, func() { shop.Spec.Image = "postgres:17.99" })
	l.eventually("it says that the instance waits", func() bool {
		l.get(shop)
		for _, c := range shop.Status.Conditions {
			if c.Type == v1alpha1.ConditionUpToDate && strings.Contains(c.Message, "data-shop-2") {
				return true
			}
		}
		return false
	})
	l.change(shop, func() { shop.Spec.Hibernate = true })
	l.awaitCondition(shop, v1alpha1.ConditionUpToDate, metav1.ConditionFalse, v1alpha1.ReasonClaimDeleted)
	l.settle()
	if l.get(pod); pod.UID != was || !pod.DeletionTimestamp.IsZero() {
		t.Error("the pod was ended, and the volume with it")
	}
}

func TestAClaimThatAQuotaRefusesStandsInTheWayOfItsOwnInstanceOnly(t *testing.T) {
	l := newLab(t)
	shop := l.shop(nil)
	l.awaitRunning(shop)
	l.create(&corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "one-volume"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePersistentVolumeClaims: resource.MustParse("2")}},
	})
	quota := &corev1.ResourceQuota{}
	l.there(quota, "one-volume")
	quota.Status.Hard, quota.Status.Used = quota.Spec.Hard, corev1.ResourceList{corev1.ResourcePersistentVolumeClaims: resource.MustParse("1")}
	if err := l.Status().Update(t.Context(), quota); err != nil { // there is no controller here that counts
		t.Fatal(err)
	}
	l.change(shop, func() { three(shop) })
	message := l.awaitCondition(shop, v1alpha1.ConditionStorageHealthy, metav1.ConditionFalse, v1alpha1.ReasonClaimRefused)
	if !strings.Contains(message, "shop-2 has no volume: ") || !strings.Contains(message, "exceeded quota") {
		t.Errorf("message: %s", message)
	}
	l.eventually("the others are told, and started", func() bool {
		set := &appsv1.StatefulSet{}
		return l.there(set, "shop") && *set.Spec.Replicas == 3 && l.there(&corev1.Pod{}, "shop-1")
	})
}
