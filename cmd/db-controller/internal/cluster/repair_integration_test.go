//go:build integration

package cluster

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/subset"
)

func TestAPauseOfRepairsIsShownWithWhatItHoldsBackAndEndsByItself(t *testing.T) {
	subset.OnlyInFull(t)
	l := newLab(t)
	shop := l.shop(three)
	l.awaitReplicated(shop)
	l.kube.set(func(s *standIn) {
		s.answer = func(status *agentapi.Status) {
			if status.Pod == "shop-2" {
				status.HeldBack = "The data is not cloned."
			}
		}
	})
	from := metav1.NewTime(l.clock.now().Truncate(time.Second))
	until := metav1.NewTime(from.Add(time.Hour))
	l.change(shop, func() { shop.Spec.Repair = &v1alpha1.Repair{PausedFrom: &from, PausedUntil: &until} })
	l.eventually("the condition says what is held back", func() bool {
		l.get(shop)
		found := meta.FindStatusCondition(shop.Status.Conditions, v1alpha1.ConditionAutomaticRepair)
		return found != nil && found.Status == metav1.ConditionFalse && found.Reason == v1alpha1.ReasonPaused &&
			strings.Contains(found.Message, "until "+until.UTC().Format(time.RFC3339)) && strings.Contains(found.Message, "Held back on shop-2: The data is not cloned.")
	})
	if told := l.told().Repair; !told.Paused(from.Time) || told.Paused(until.Time) {
		t.Errorf("the agents are told %+v", told)
	}
	l.change(shop, func() { shop.Spec.Reinit = &v1alpha1.Reinit{Instance: "shop-1", Token: "a"} })
	if answer := l.awaitReinit(shop, "a", v1alpha1.ReinitRefused); !strings.Contains(answer.Message, "spec.repair pauses that") {
		t.Errorf("answer: %+v", answer)
	}
	l.clock.forward(2 * time.Hour)
	l.awaitCondition(shop, v1alpha1.ConditionAutomaticRepair, metav1.ConditionTrue, v1alpha1.ReasonEnabled)
	l.change(shop, func() { shop.Spec.Repair = nil })
	l.eventually("the condition is gone", func() bool {
		l.get(shop)
		return meta.FindStatusCondition(shop.Status.Conditions, v1alpha1.ConditionAutomaticRepair) == nil
	})
}
