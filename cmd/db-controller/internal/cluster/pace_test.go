package cluster

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
)

func TestOnlyNewsThatNobodyActsOnWait(t *testing.T) {
	before := &v1alpha1.PostgresClusterStatus{
		Primary: "shop-0", ReadyInstances: 1, DataInstance: "shop-0",
		Instances:  []v1alpha1.InstanceStatus{{Name: "shop-0", Ready: true}, {Name: "shop-1"}},
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonStarting, Message: "a"}},
	}
	for name, c := range map[string]struct {
		change func(*v1alpha1.PostgresClusterStatus)
		small  bool
	}{
		"nothing":                      {func(*v1alpha1.PostgresClusterStatus) {}, false},
		"a message":                    {func(s *v1alpha1.PostgresClusterStatus) { s.Conditions[0].Message = "b" }, true},
		"a node":                       {func(s *v1alpha1.PostgresClusterStatus) { s.Instances[1].Node = "w1" }, true},
		"how a clone goes on":          {func(s *v1alpha1.PostgresClusterStatus) { s.Instances[1].Rejoin = &v1alpha1.RejoinStatus{Percent: 7} }, true},
		"a replica that is ready":      {func(s *v1alpha1.PostgresClusterStatus) { s.Instances[1].Ready, s.ReadyInstances = true, 2 }, true},
		"a reason":                     {func(s *v1alpha1.PostgresClusterStatus) { s.Conditions[0].Reason = v1alpha1.ReasonRunning }, false},
		"a condition that is true now": {func(s *v1alpha1.PostgresClusterStatus) { s.Conditions[0].Status = metav1.ConditionTrue }, false},
		"another primary":              {func(s *v1alpha1.PostgresClusterStatus) { s.Primary = "shop-1" }, false},
		"who begins":                   {func(s *v1alpha1.PostgresClusterStatus) { s.DataInstance = "shop-1" }, false},
		"an instance more": {func(s *v1alpha1.PostgresClusterStatus) {
			s.Instances = append(s.Instances, v1alpha1.InstanceStatus{Name: "shop-2"})
		}, false},
		"a parameter that needs a restart": {func(s *v1alpha1.PostgresClusterStatus) { s.Instances[1].PendingRestart = []string{"wal_level"} }, false},
		"an answer to who asks for volumes": {func(s *v1alpha1.PostgresClusterStatus) {
			s.Holds = []v1alpha1.HoldAnswer{{Token: "t", State: v1alpha1.HoldGranted}}
		}, false},
		"a spec that was seen": {func(s *v1alpha1.PostgresClusterStatus) { s.ObservedGeneration++; s.Instances[1].Node = "w1" }, false},
	} {
		now := before.DeepCopy()
		c.change(now)
		if got := onlySmallNews(before, now); got != c.small {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
