//go:build integration

package cluster

import (
	"slices"
	"strings"
	"testing"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
)

func (l *lab) awaitReinit(shop *v1alpha1.PostgresCluster, token string, state v1alpha1.ReinitState) *v1alpha1.ReinitStatus {
	l.Helper()
	l.eventually("the clone "+token+" is "+string(state), func() bool {
		l.get(shop)
		s := shop.Status.Reinit
		return s != nil && s.Token == token && s.State == state
	})
	return shop.Status.Reinit
}

func TestAReplicaIsClonedAgainOnceForEachTokenAndOneAfterTheOther(t *testing.T) {
	l := newLab(t)
	shop := l.shop(three)
	l.awaitReplicated(shop)
	l.kube.set(func(s *standIn) { s.reinitEnds = agentapi.ReinitRunning })
	l.change(shop, func() { shop.Spec.Reinit = &v1alpha1.Reinit{Instance: "shop-1", Token: "a"} })
	l.eventually("the agent says how it goes", func() bool {
		l.get(shop)
		return shop.Status.Reinit != nil && strings.Contains(shop.Status.Reinit.Message, "The new copy is g1.c2.")
	})
	l.change(shop, func() { shop.Spec.Reinit = &v1alpha1.Reinit{Instance: "shop-2", Token: "b"} })
	l.settle()
	l.awaitReinit(shop, "a", v1alpha1.ReinitRunning)
	l.stop()
	l.startController()
	l.kube.set(func(s *standIn) { s.reinitEnds = agentapi.ReinitDone })
	if answer := l.awaitReinit(shop, "b", v1alpha1.ReinitDone); answer.Instance != "shop-2" || answer.CompletedAt == nil {
		t.Errorf("answer: %+v", answer)
	}
	l.awaitReplicated(shop)
	l.settle()
	l.kube.set(func(s *standIn) {
		if len(slices.Compact(s.reinits["shop-1"])) != 1 || len(slices.Compact(s.reinits["shop-2"])) != 1 || len(s.reinits) != 2 {
			t.Errorf("asked for %v", s.reinits)
		}
	})
}

func TestACloneThatCantBeIsRefusedWithASentence(t *testing.T) {
	l := newLab(t)
	shop := l.shop(three)
	l.awaitReplicated(shop)
	l.change(shop, func() { shop.Spec.Reinit = &v1alpha1.Reinit{Instance: "shop-0", Token: "a"} })
	if answer := l.awaitReinit(shop, "a", v1alpha1.ReinitRefused); !strings.HasPrefix(answer.Message, "shop-0 is the primary") || answer.CompletedAt == nil {
		t.Errorf("answer: %+v", answer)
	}
	l.change(shop, func() { shop.Spec.Hibernate, shop.Spec.Reinit = true, &v1alpha1.Reinit{Instance: "shop-1", Token: "b"} })
	if answer := l.awaitReinit(shop, "b", v1alpha1.ReinitRefused); answer.Message != "The cluster is hibernated. Set spec.hibernate: false first." {
		t.Errorf("answer: %+v", answer)
	}
	l.kube.set(func(s *standIn) {
		if len(s.reinits) > 0 {
			t.Errorf("asked for %v", s.reinits)
		}
	})
}
