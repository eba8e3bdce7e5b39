//go:build integration

package cluster

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
)

// withWAL gives a cluster of three WAL volumes.
func withWAL(c *v1alpha1.PostgresCluster) {
	three(c)
	c.Spec.Storage.WAL = &v1alpha1.WALStorage{Size: resource.MustParse("1Gi")}
}

// TestAClusterWithWALVolumesGrowsThemAndReplacesNoPod with each write the last of its process.
func TestAClusterWithWALVolumesGrowsThemAndReplacesNoPod(t *testing.T) {
	l := newLab(t)
	l.patience *= 4
	l.provides(true)
	shop := l.shop(func(c *v1alpha1.PostgresCluster) {
		withWAL(c)
		c.Spec.Storage.StorageClassName, c.Spec.Storage.WAL.StorageClassName = ptr.To(l.ns), ptr.To(l.ns)
	})
	l.awaitReplicated(shop)
	set, pods := &appsv1.StatefulSet{}, l.podsByName()
	if l.there(set, "shop"); len(set.Spec.VolumeClaimTemplates) != 2 {
		t.Fatalf("%+v", set.Spec.VolumeClaimTemplates)
	}
	l.mortals(1)
	l.change(shop, func() { shop.Spec.Storage.WAL.Size = resource.MustParse("2Gi") })
	l.eventually("all WAL volumes have grown, and those of the data have not", func() bool {
		for ordinal := range 3 {
			data, wal := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolumeClaim{}
			names := component.NamesOf(shop)
			if !l.there(data, names.Volume(ordinal)) || !l.there(wal, names.WALVolume(ordinal)) {
				return false
			}
			has, had := wal.Status.Capacity[corev1.ResourceStorage], data.Status.Capacity[corev1.ResourceStorage]
			if has.Cmp(resource.MustParse("2Gi")) != 0 || had.Cmp(resource.MustParse("1Gi")) != 0 {
				return false
			}
		}
		renewed := &appsv1.StatefulSet{}
		if !l.there(renewed, "shop") || renewed.UID == set.UID || len(renewed.Spec.VolumeClaimTemplates) != 2 {
			return false
		}
		asked := renewed.Spec.VolumeClaimTemplates[1].Spec.Resources.Requests[corev1.ResourceStorage]
		return asked.Cmp(resource.MustParse("2Gi")) == 0
	})
	l.awaitReplicated(shop)
	for name, uid := range l.podsByName() {
		if pods[name] != uid {
			t.Errorf("pod %s was replaced", name)
		}
	}
	l.eventually("the state of a WAL volume is shown", func() bool {
		l.get(shop)
		storage := shop.Status.Instances[2].Storage
		return storage != nil && storage.WAL != nil && storage.WAL.Name == "wal-shop-2" && storage.WAL.Capacity != nil && storage.WAL.Capacity.String() == "2Gi"
	})
}

func TestAClusterWithWALVolumesGivesBothBackWhenAnInstanceIsRemoved(t *testing.T) {
	l := newLab(t)
	shop := l.shop(func(c *v1alpha1.PostgresCluster) { withWAL(c); c.Spec.DeletionPolicy.Volumes = v1alpha1.VolumesDelete })
	l.awaitReplicated(shop)
	l.scale(shop, 2)
	l.eventually("both claims are deleted", func() bool {
		for _, name := range []string{"data-shop-2", "wal-shop-2"} {
			claim := &corev1.PersistentVolumeClaim{}
			if l.there(claim, name) && claim.DeletionTimestamp.IsZero() {
				return false
			}
		}
		return true
	})
	for _, name := range []string{"data-shop-1", "wal-shop-1"} {
		claim := &corev1.PersistentVolumeClaim{}
		if !l.there(claim, name) || !claim.DeletionTimestamp.IsZero() {
			t.Errorf("%s is deleted as well", name)
		}
	}
	l.beginDeletion(shop)
	l.awaitGone(shop)
	for name := range l.claims() {
		claim := &corev1.PersistentVolumeClaim{}
		if l.there(claim, name) && claim.DeletionTimestamp.IsZero() {
			t.Errorf("%s outlives its cluster", name)
		}
	}
}

func TestAPodThatAloneKeepsAWALVolumeIsNotReplaced(t *testing.T) {
	l := newLab(t)
	shop := l.shop(withWAL)
	l.awaitReplicated(shop)
	claim, pod := &corev1.PersistentVolumeClaim{}, &corev1.Pod{}
	if !l.there(claim, "wal-shop-2") || !l.there(pod, "shop-2") {
		t.Fatal("there is no third instance with a WAL volume")
	}
	if err := l.Delete(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	message := l.awaitCondition(shop, v1alpha1.ConditionStorageHealthy, metav1.ConditionFalse, v1alpha1.ReasonClaimDeleted)
	if !strings.Contains(message, "PersistentVolumeClaim wal-shop-2 is marked for deletion") {
		t.Errorf("message: %s", message)
	}
	was := pod.UID
	l.change(shop, func() { shop.Spec.Hibernate = true })
	l.awaitCondition(shop, v1alpha1.ConditionUpToDate, metav1.ConditionFalse, v1alpha1.ReasonClaimDeleted)
	l.settle()
	if l.get(pod); pod.UID != was || !pod.DeletionTimestamp.IsZero() {
		t.Error("the pod was ended, and the volume with it")
	}
}

func TestAClusterWithWALVolumesBeginsWithThoseOfADeletedOne(t *testing.T) {
	l := newLab(t)
	first, claims := l.retainedAs(withWAL)
	if len(claims) != 6 {
		t.Fatalf("%v", claims)
	}
	again := l.shop(func(c *v1alpha1.PostgresCluster) { withVolumes(c); withWAL(c) })
	l.awaitReplicated(again)
	for name, uid := range l.claims() {
		if claims[name] != uid {
			t.Errorf("%s is another one", name)
		}
	}
	if again.Status.DataGeneration != first.Status.DataGeneration {
		t.Errorf("it runs on %s instead of %s", again.Status.DataGeneration, first.Status.DataGeneration)
	}
}
