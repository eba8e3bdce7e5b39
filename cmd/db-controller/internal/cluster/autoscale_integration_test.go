//go:build integration

package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/subset"
)

// TestTheNumberOfInstancesFollowsTheLoad with each write the last of its process.
func TestTheNumberOfInstancesFollowsTheLoad(t *testing.T) {
	subset.OneIn(t, 3)
	l := newLab(t)
	l.patience *= 4
	shop := l.shop(func(c *v1alpha1.PostgresCluster) {
		three(c)
		c.Spec.Resources = v1alpha1.Resources{Requests: resources("100m", "1Gi").Requests}
		c.Spec.Autoscale = &v1alpha1.Autoscale{Replicas: &v1alpha1.AutoscaleReplicas{Mode: v1alpha1.AutoscaleApply, Min: 2, Max: 3, CPUPercent: ptr.To[int32](60)}}
	})
	l.awaitReplicated(shop)
	l.mortals(1)
	// uses has the agents say that their instances use so much, and time pass until as many instances are to be there.
	uses := func(millis int64, instances int32) {
		t.Helper()
		l.kube.set(func(s *standIn) {
			s.answer = func(status *agentapi.Status) {
				status.Usage = &agentapi.Usage{RecentSeconds: 300, RecentCPUMillis: millis}
			}
		})
		last := l.clock.now()
		l.eventually(fmt.Sprintf("there are to be %d instances", instances), func() bool {
			if l.get(shop); shop.DesiredInstances() == instances {
				return true
			}
			if l.clock.now().Sub(last) > 5*time.Second { // the pass after the last nudge may have seen what agents said before
				l.clock.forward(time.Hour)
				l.nudge(shop)
				last = l.clock.now()
			}
			return false
		})
	}
	are := func(instances int32) {
		t.Helper()
		l.eventually(fmt.Sprintf("there are %d instances", instances), func() bool {
			l.get(shop)
			return shop.Status.ReadyInstances == instances && len(shop.Status.Instances) == int(instances) && shop.DesiredInstances() == instances
		})
	}
	uses(90, 4)
	are(4)
	if applied := shop.Status.AppliedReplicas(); !strings.Contains(applied.Reason, "The replicas use 90 % of their CPU (target 60 %)") || shop.Spec.Instances != 3 {
		t.Errorf("%+v, and spec has %d", applied, shop.Spec.Instances)
	}
	uses(1, 3)
	are(3)
	l.settle()
	if are(3); l.told().Instances != 3 {
		t.Errorf("the agents were told of %d", l.told().Instances)
	}
	l.scale(shop, 2) // by another client than kubectl
	are(2)
	l.eventually("it is said why nothing is applied", func() bool {
		l.get(shop)
		scale := shop.Status.Autoscale
		return scale != nil && scale.Replicas != nil && scale.Replicas.Applied == nil && strings.Contains(scale.Replicas.Waiting, "through the scale subresource")
	})
}
