//go:build integration

package cluster

import (
	"context"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/subset"
)

// planned is a cluster of some instances on 1Gi, of which a tenth is used, with a plan to move to 512Mi of another class.
func (l *lab) planned(instances int32) *v1alpha1.PostgresCluster {
	l.Helper()
	l.kube.set(func(s *standIn) {
		s.answer = func(status *agentapi.Status) {
			status.Volume = &agentapi.VolumeStatus{Bytes: 1 << 30, UsedBytes: 100 << 20}
		}
	})
	shop := l.stored(instances, true)
	l.awaitReplicated(shop)
	slow := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: l.ns + "-slow"}, Provisioner: "example.org/none"}
	l.create(slow)
	l.Cleanup(func() { _ = l.Delete(context.Background(), slow) })
	l.change(shop, func() {
		shop.Spec.Storage = v1alpha1.StorageSpec{Size: resource.MustParse("512Mi"), StorageClassName: &slow.Name, Move: &v1alpha1.StorageMove{AllowFewerReplicas: true}}
	})
	message := l.awaitCondition(shop, v1alpha1.ConditionUpToDate, metav1.ConditionFalse, v1alpha1.ReasonStorageMovePlanned)
	if !strings.Contains(message, "set spec.storage.move.plan: "+shop.Status.StorageMove.Plan) {
		l.Errorf("message: %s", message)
	}
	return shop
}

func (l *lab) approve(shop *v1alpha1.PostgresCluster) {
	l.Helper()
	l.change(shop, func() { shop.Spec.Storage.Move.Plan = shop.Status.StorageMove.Plan })
}

func TestInstancesMoveToOtherVolumesWhereverTheControllerDies(t *testing.T) {
	subset.OneIn(t, 3)
	l := newLab(t)
	l.patience *= 2
	shop := l.planned(2)
	claim, set := &corev1.PersistentVolumeClaim{}, &appsv1.StatefulSet{}
	l.settle()
	for _, name := range []string{"data-shop-0", "data-shop-1"} {
		if !l.there(claim, name) || !claim.DeletionTimestamp.IsZero() || *claim.Spec.StorageClassName != l.ns {
			t.Fatalf("%s was changed before anybody approved it", name)
		}
	}
	stop := l.mortals(1)
	l.approve(shop)
	l.eventually("all instances have moved", func() bool {
		l.get(shop)
		return shop.Status.StorageMove.State == v1alpha1.StorageMoveCompleted
	})
	stop()
	l.awaitReplicated(shop)
	l.awaitRunning(shop)
	for _, name := range []string{"data-shop-0", "data-shop-1"} {
		size := resource.MustParse("512Mi")
		if !l.there(claim, name) || !claim.DeletionTimestamp.IsZero() || *claim.Spec.StorageClassName != l.ns+"-slow" || claim.Spec.Resources.Requests.Storage().Cmp(size) != 0 {
			t.Errorf("%s: %+v", name, claim.Spec)
		}
	}
	if l.there(set, "shop"); ptr.Deref(set.Spec.VolumeClaimTemplates[0].Spec.StorageClassName, "") != l.ns+"-slow" {
		t.Errorf("new claims would be %+v", set.Spec.VolumeClaimTemplates[0].Spec)
	}
	l.kube.set(func(s *standIn) {
		if len(s.volumes.wrong) > 0 || !slices.Equal(s.volumes.gone, []string{"shop-1", "shop-0"}) || s.terms != 2 {
			t.Errorf("volumes went in the order %v, of instances that were counted on: %v; there were %d primaries", s.volumes.gone, s.volumes.wrong, s.terms)
		}
	})
}

func TestAnInstanceStaysOnItsVolumeWhenThePrimaryIsLostBeforeItHasLeft(t *testing.T) {
	subset.OnlyInFull(t)
	l := newLab(t)
	shop := l.planned(3)
	l.kube.set(func(s *standIn) {
		known := s.answer
		s.answer = func(status *agentapi.Status) {
			known(status)
			if status.Election != nil && status.Role == "primary" { // it counts on all of them, fenced or not
				status.Election.Members = []string{"shop-1", "shop-2"}
			}
		}
	})
	l.approve(shop)
	l.eventually("shop-2 is fenced", func() bool { f := l.told().Failover; return f != nil && slices.Equal(f.Fenced, []string{"shop-2"}) })
	message := l.awaitCondition(shop, v1alpha1.ConditionUpToDate, metav1.ConditionFalse, v1alpha1.ReasonStorageMoving)
	l.kube.set(func(s *standIn) { s.notReady = true })
	l.eventually("shop-2 may run again", func() bool { return l.told().Failover == nil })
	claim := &corev1.PersistentVolumeClaim{}
	if !l.there(claim, "data-shop-2") || !claim.DeletionTimestamp.IsZero() || *claim.Spec.StorageClassName != l.ns {
		t.Errorf("its volume is on its way out; %s", message)
	}
}
