//go:build integration

package cluster

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/protocol"
)

// inPlace makes a Restore of the cluster in place that asks for its volumes.
func (l *lab) inPlace(shop *v1alpha1.PostgresCluster) *v1alpha1.Restore {
	l.Helper()
	restore := &v1alpha1.Restore{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "back"},
		Spec: v1alpha1.RestoreSpec{
			Source:      v1alpha1.RestoreSource{Backup: &v1alpha1.LocalReference{Name: "b"}},
			Destination: v1alpha1.RestoreDestination{InPlace: &v1alpha1.InPlace{Name: shop.Name}},
		},
	}
	l.create(restore)
	l.holds(shop, restore, 0)
	return restore
}

// holds asks for the volumes, and waits until they are granted.
func (l *lab) holds(shop *v1alpha1.PostgresCluster, restore *v1alpha1.Restore, attempt int) {
	l.Helper()
	l.say(restore, func() {
		restore.Status.VolumeLockRequest = &v1alpha1.VolumeLockRequest{Cluster: shop.Name, ClusterUID: shop.UID, Token: protocol.Token(restore.UID, attempt), Mode: v1alpha1.VolumeLockStopped}
	})
	l.eventually("the hold is granted", func() bool {
		l.get(shop)
		answer := protocol.LockFor(shop, restore.UID, restore.Status.VolumeLockRequest)
		return answer != nil && answer.State == v1alpha1.VolumeLockGranted
	})
}

// handsOver lets the cluster run on a data generation, and gives it free.
func (l *lab) handsOver(shop *v1alpha1.PostgresCluster, restore *v1alpha1.Restore, generation, instance string) {
	l.Helper()
	l.say(restore, func() {
		restore.Status.Handover = &v1alpha1.Handover{
			Token: restore.Status.VolumeLockRequest.Token, DataGeneration: generation, SystemIdentifier: "7000000000000000001",
			MajorVersion: 17, Image: "postgres:17", Instance: instance,
		}
	})
	l.eventually("it is adopted", func() bool {
		l.get(shop)
		return protocol.Adopted(shop, restore.UID, restore.Status.VolumeLockRequest, restore.Status.Handover)
	})
	l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRunning)
	l.say(restore, func() { restore.Status.VolumeLockRequest, restore.Status.Handover = nil, nil })
	l.eventually("the hold is over", func() bool { l.get(shop); return len(shop.Status.VolumeLocks) == 0 })
}

func TestARestoreInPlaceIsUndoneUnderALaterHoldAndItsDataIsLetGo(t *testing.T) {
	l := newLab(t)
	shop := l.shop(nil)
	l.awaitRunning(shop)
	old := shop.Status.DataGeneration
	restore := l.inPlace(shop)
	l.handsOver(shop, restore, "g1", "shop-0")
	if shop.Status.DataGeneration != "g1" || shop.Status.PreviousDataGeneration != old || shop.Status.DataInstance != "shop-0" {
		t.Errorf("status: %+v", shop.Status)
	}
	// What it runs on is never let go, whoever asks.
	l.say(restore, func() {
		restore.Status.Release = &v1alpha1.ReleaseRequest{Cluster: "shop", ClusterUID: shop.UID, DataGeneration: "g1"}
	})
	l.holds(shop, restore, 1)
	if released := shop.Status.ReleasedDataGenerations; len(released) != 0 {
		t.Errorf("released %v while it runs on g1", released)
	}
	l.say(restore, func() { restore.Status.Release = nil })
	l.handsOver(shop, restore, old, "shop-0")
	l.say(restore, func() {
		restore.Status.Release = &v1alpha1.ReleaseRequest{Cluster: "shop", ClusterUID: shop.UID, DataGeneration: "g1"}
	})
	l.eventually("g1 is let go", func() bool { l.get(shop); return protocol.Released(shop, restore.Status.Release) })
	config := &corev1.ConfigMap{}
	l.eventually("the agents are told", func() bool {
		return l.there(config, "shop-config") && strings.Contains(config.Data["agent.json"], `"released": [`)
	})
	l.say(restore, func() { restore.Status.Release = nil })
	l.awaitRunning(shop)
	if shop.Status.DataGeneration != old || shop.Status.PreviousDataGeneration != "" {
		t.Errorf("status: %+v", shop.Status)
	}
}
