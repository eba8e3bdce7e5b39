//go:build integration

package cluster

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
	"howdah.dev/howdah/cmd/db-controller/internal/storage"
	"howdah.dev/howdah/pkg/agentapi"
)

// The agent of an instance that is removed is gone by the time its volume is dealt with.
func TestAVolumeWithDataThatACloneHasReplacedOutlivesItsInstanceUntilNobodyKeepsIt(t *testing.T) {
	l := newLab(t)
	shop := l.shop(func(c *v1alpha1.PostgresCluster) {
		three(c)
		c.Spec.DeletionPolicy.Volumes = v1alpha1.VolumesDelete
		c.Spec.Repair = &v1alpha1.Repair{KeepReplacedCopies: true}
	})
	l.awaitReplicated(shop)
	has := func(ids ...string) {
		l.kube.set(func(s *standIn) {
			s.answer = func(status *agentapi.Status) {
				if status.Pod != "shop-2" {
					return
				}
				status.Copies = nil
				for _, id := range ids {
					status.Copies = append(status.Copies, agentapi.Copy{ID: id, Of: "g1"})
				}
			}
		})
	}
	claim := &corev1.PersistentVolumeClaim{}
	noted := func() string { l.there(claim, "data-shop-2"); return claim.Annotations["howdah.dev/replaced-copies"] }
	kept := func() bool {
		return l.there(claim, "data-shop-2") && claim.Labels[component.LabelRetainedReason] == storage.ReplacedCopies
	}
	has("g1", "g1.c1")
	l.eventually("the copies are in the status and on the claim", func() bool {
		l.get(shop)
		return len(shop.Status.Instances) == 3 && slices.Equal(shop.Status.Instances[2].Copies, []string{"g1", "g1.c1"}) && noted() == "g1,g1.c1"
	})
	l.scale(shop, 2)
	l.eventually("the volume is left behind", kept)
	uid := claim.UID
	has() // it has just started
	l.scale(shop, 3)
	l.awaitReplicated(shop)
	l.scale(shop, 2)
	l.eventually("the volume is left behind again", kept)
	if claim.UID != uid || noted() != "g1,g1.c1" {
		t.Errorf("it is another one: %+v", claim.ObjectMeta)
	}
	has("g1.c1")
	l.scale(shop, 3)
	l.awaitReplicated(shop)
	l.eventually("the agent's word counts", func() bool { return noted() == "" })
	l.scale(shop, 2)
	l.eventually("the volume goes", func() bool { return !l.there(claim, "data-shop-2") || !claim.DeletionTimestamp.IsZero() })
}

func TestAVolumeWhoseRepairIsHeldBackOutlivesItsInstance(t *testing.T) {
	l := newLab(t)
	shop := l.shop(func(c *v1alpha1.PostgresCluster) {
		three(c)
		c.Spec.DeletionPolicy.Volumes = v1alpha1.VolumesDelete
	})
	l.awaitReplicated(shop)
	l.kube.set(func(s *standIn) {
		s.answer = func(status *agentapi.Status) {
			if status.Pod == "shop-2" {
				status.HeldBack = "The data is not rewound."
			}
		}
	})
	claim := &corev1.PersistentVolumeClaim{}
	l.eventually("the claim says what is held back", func() bool {
		return l.there(claim, "data-shop-2") && claim.Annotations["howdah.dev/held-back-repair"] == "The data is not rewound."
	})
	l.scale(shop, 2)
	l.eventually("the volume is left behind", func() bool {
		return l.there(claim, "data-shop-2") && claim.Labels[component.LabelRetainedReason] == storage.RepairHeldBack
	})
}
