//go:build integration

package cluster

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/subset"
)

func TestAPauseIsShownWithItsEndAndEndsByItself(t *testing.T) {
	subset.OneIn(t, 2)
	l := newLab(t)
	shop := l.shop(three)
	l.awaitReplicated(shop)
	if meta.FindStatusCondition(shop.Status.Conditions, v1alpha1.ConditionAutomaticFailover) != nil {
		t.Error("it has a condition about what its spec doesn't mention")
	}
	until := metav1.NewTime(l.clock.now().Add(time.Hour).Truncate(time.Second))
	l.change(shop, func() { shop.Spec.Failover = &v1alpha1.Failover{PausedUntil: &until} })
	message := l.awaitCondition(shop, v1alpha1.ConditionAutomaticFailover, metav1.ConditionFalse, v1alpha1.ReasonPaused)
	if !strings.Contains(message, "until "+until.UTC().Format(time.RFC3339)) {
		t.Error(message)
	}
	l.awaitReplicated(shop)
	if told := l.told().Failover; told == nil || !told.PausedUntil.Equal(until.Time) {
		t.Errorf("the agents are told %+v", told)
	}
	l.clock.forward(2 * time.Hour)
	l.awaitCondition(shop, v1alpha1.ConditionAutomaticFailover, metav1.ConditionTrue, v1alpha1.ReasonEnabled)
	l.change(shop, func() { shop.Spec.Failover = nil })
	l.eventually("the condition is gone", func() bool {
		l.get(shop)
		return meta.FindStatusCondition(shop.Status.Conditions, v1alpha1.ConditionAutomaticFailover) == nil
	})
}

func TestAFencedInstanceIsShown(t *testing.T) {
	l := newLab(t)
	shop := l.shop(three)
	l.awaitReplicated(shop)
	l.kube.set(func(s *standIn) {
		s.answer = func(status *agentapi.Status) {
			if told := status.Pod == "shop-2" && shop.Spec.Failover != nil; told {
				status.State, status.Role, status.Replication = agentapi.StateStopped, "", nil
			}
		}
	})
	l.change(shop, func() { shop.Spec.Failover = &v1alpha1.Failover{Fenced: []v1alpha1.InstanceName{"shop-2"}} })
	message := l.awaitCondition(shop, v1alpha1.ConditionReplicated, metav1.ConditionFalse, v1alpha1.ReasonFenced)
	if !strings.HasPrefix(message, "shop-2 is fenced") || !shop.Status.Instances[2].Fenced || shop.Status.Instances[1].Fenced {
		t.Errorf("%s\n%+v", message, shop.Status.Instances)
	}
	if told := l.told().Failover; told == nil || !slices.Equal(told.Fenced, []string{"shop-2"}) {
		t.Errorf("the agents are told %+v", told)
	}
}

func TestAnInstanceThatNeverBecomesPrimaryIsPassedOverByARollingChange(t *testing.T) {
	l := newLab(t)
	shop := l.shop(func(c *v1alpha1.PostgresCluster) {
		three(c)
		c.Spec.Failover = &v1alpha1.Failover{Instances: []v1alpha1.FailoverInstance{{Name: "shop-1", Never: true}, {Name: "shop-2", Priority: ptr.To[int32](1)}}}
	})
	l.awaitReplicated(shop)
	l.change(shop, func() { shop.Spec.Image = "postgres:17.6" })
	l.eventually("another becomes primary for the change", func() bool {
		l.get(shop)
		return shop.Status.Primary != "shop-0"
	})
	if shop.Status.Primary != "shop-2" {
		t.Errorf("%s becomes primary", shop.Status.Primary)
	}
}
