//go:build integration

package cluster

import (
	"slices"
	"testing"
	"time"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/subset"
)

func TestWhatTheAgentOfThePrimaryFindsIsInTheStatusUntilItIsFoundNoMore(t *testing.T) {
	l := newLab(t)
	shop := l.shop(three)
	l.awaitReplicated(shop)
	says := func(found ...agentapi.LoadFinding) {
		l.kube.set(func(s *standIn) {
			s.answer = func(status *agentapi.Status) {
				if status.Role == "primary" {
					status.Findings = &agentapi.Findings{Found: found}
				}
			}
		})
	}
	says(agentapi.LoadFinding{Reason: agentapi.FindingTemporaryFiles, Evidence: "9 files.", Advice: "Set spec.postgresql.parameters.work_mem."})
	l.eventually("it is in the status", func() bool {
		l.get(shop)
		found := shop.Status.Findings
		return len(found) == 1 && found[0].Reason == v1alpha1.ReasonTemporaryFiles && found[0].Evidence == "9 files." && !found[0].Since.IsZero()
	})
	says()
	l.eventually("it is gone", func() bool {
		l.get(shop)
		return len(shop.Status.Findings) == 0
	})
}

// TestADamagedReplicaIsClonedByItselfAndThePrimaryNever once, with each write the last of its process.
func TestADamagedReplicaIsClonedByItselfAndThePrimaryNever(t *testing.T) {
	subset.OneIn(t, 2)
	l := newLab(t)
	l.patience *= 4
	shop := l.shop(three)
	l.awaitReplicated(shop)
	l.mortals(1)
	damaged := "shop-0"
	l.kube.set(func(s *standIn) {
		s.answer = func(status *agentapi.Status) {
			status.Findings, status.Checks = &agentapi.Findings{}, &agentapi.Checks{RoundEnded: time.Now(), RoundWhole: true}
			if status.Pod == damaged && len(s.reinits[damaged]) == 0 {
				status.Checks = &agentapi.Checks{Damaged: true, DamageCertain: true, Found: []agentapi.LoadFinding{{Reason: agentapi.FindingReplicaDamaged, Evidence: "3 pages.", Advice: "Look."}}}
			}
		}
	})
	l.eventually("the damage is in the status", func() bool {
		l.get(shop)
		return len(shop.Status.Findings) == 1
	})
	l.settle()
	l.get(shop)
	if shop.Status.AutomaticReinit != nil {
		t.Fatalf("%+v", shop.Status.AutomaticReinit)
	}
	l.kube.set(func(*standIn) { damaged = "shop-1" })
	l.eventually("it is cloned", func() bool {
		l.get(shop)
		r := shop.Status.AutomaticReinit
		return r != nil && r.Instance == "shop-1" && r.State == v1alpha1.ReinitDone && r.CompletedAt != nil && len(shop.Status.Findings) == 0
	})
	l.kube.set(func(s *standIn) {
		if len(s.reinits) != 1 || len(slices.Compact(slices.Clone(s.reinits["shop-1"]))) != 1 {
			t.Errorf("asked for %v", s.reinits)
		}
	})
	l.awaitReplicated(shop)
}
