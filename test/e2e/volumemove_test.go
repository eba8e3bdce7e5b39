//go:build e2e

package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/place"
)

// TestInstancesMoveToSmallerVolumesOfAnotherClass while a client writes: shown first, one after the other, with one switchover.
func TestInstancesMoveToSmallerVolumesOfAnotherClass(t *testing.T) {
	onlyInFull(t, "the db-controller's own tests move instances, and a replica that lost its volume is cloned in another one")
	t.Parallel()
	place.NeedKube(t)
	b := newBed(t, "minio")
	shop := b.NewCluster("shop", 17)
	shop.Spec.Instances = 3
	shop.Spec.Synchronous = &v1alpha1.Synchronous{Number: 1, Durability: v1alpha1.DurabilityRequired}
	b.LimitVolumes(shop, 3)
	b.Must(b.Create(t.Context(), shop))
	b.awaitInstances(shop, 3)
	w := b.startWriter("shop")
	primary, class := b.Primary("shop"), b.LimitedClass("400Mi", 3)

	b.Merge(shop, fmt.Sprintf(`{"spec":{"storage":{"size":"256Mi","storageClassName":%q,"move":{}}}}`, class))
	b.AwaitReason(shop, v1alpha1.ConditionUpToDate, v1alpha1.ReasonStorageMovePlanned, "Nothing happens until you approve it")
	b.Merge(shop, `{"spec":{"storage":{"size":"400Mi"}}}`)
	b.Await(shop, "a plan for the other size", func() bool {
		move := shop.Status.StorageMove
		return move != nil && move.To.Size.Cmp(resource.MustParse("400Mi")) == 0
	})
	t.Log(shop.Status.StorageMove.Message)
	b.Merge(shop, fmt.Sprintf(`{"spec":{"storage":{"move":{"plan":%q}}}}`, shop.Status.StorageMove.Plan))
	b.Await(shop, "all instances to have moved", func() bool { return shop.Status.StorageMove.State == v1alpha1.StorageMoveCompleted })
	b.awaitInstances(shop, 3)
	b.AwaitTrue(shop, v1alpha1.ConditionUpToDate)
	t.Logf("moved in %s; no new connection for %s", shop.Status.StorageMove.CompletedAt.Sub(shop.Status.StorageMove.StartedAt.Time), w.judge())
	for ordinal := range 3 {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: b.Meta(fmt.Sprintf("data-shop-%d", ordinal))}
		b.Must(b.Get(t.Context(), client.ObjectKeyFromObject(claim), claim))
		if has := claim.Status.Capacity[corev1.ResourceStorage]; *claim.Spec.StorageClassName != class || has.Cmp(resource.MustParse("400Mi")) != 0 {
			t.Errorf("%s has %s of class %s", claim.Name, has.String(), *claim.Spec.StorageClassName)
		}
	}
	if b.Primary("shop") == primary || shop.Status.Timeline != 2 {
		t.Errorf("%s was primary and %s is, on timeline %d", primary, b.Primary("shop"), shop.Status.Timeline)
	}
}
