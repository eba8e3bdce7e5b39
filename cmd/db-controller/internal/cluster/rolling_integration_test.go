//go:build integration

package cluster

import (
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/subset"
)

// pendingUntilRestarted has every agent wait for a restart for a parameter, until it was asked for one.
func (l *lab) pendingUntilRestarted(parameter string) {
	l.kube.set(func(s *standIn) {
		s.restarts = nil
		s.answer = func(status *agentapi.Status) {
			if !slices.Contains(s.restarts, status.Pod) {
				status.PendingRestart = []string{parameter}
			}
		}
	})
}

func (l *lab) restarted() []string {
	var restarts []string
	l.kube.set(func(s *standIn) { restarts = slices.Clone(s.restarts) })
	return restarts
}

func TestANewImageReachesReplicasFirstThenAnotherIsPrimaryThenTheOneThatWas(t *testing.T) {
	l := newLab(t)
	shop := l.shop(three)
	l.awaitReplicated(shop)
	l.kube.set(func(s *standIn) { s.made = nil })
	l.change(shop, func() { shop.Spec.Image = "postgres:17.6" })
	l.awaitReplicated(shop)
	l.kube.set(func(s *standIn) {
		if !slices.Equal(s.made, []string{"shop-2", "shop-1", "shop-0"}) {
			t.Errorf("replaced in the order %v", s.made)
		}
		if len(s.switchovers) != 1 || s.switchovers[0].To != "shop-1" {
			t.Errorf("switched over: %+v", s.switchovers)
		}
	})
	if shop.Status.Primary != "shop-1" || shop.Status.Image != "postgres:17.6" {
		t.Errorf("status: %+v", shop.Status)
	}
}

func TestAnImageThatCanNotRunTheClusterReachesNoInstance(t *testing.T) {
	l := newLab(t)
	shop := l.shop(three)
	l.awaitReplicated(shop)
	l.kube.set(func(s *standIn) {
		s.made = nil
		s.initError = &agentapi.JobError{Reason: "BadImage", Message: "PostgreSQL 17 is not installed", Final: true}
	})
	l.change(shop, func() { shop.Spec.Image = "postgres:15" })
	message := l.awaitCondition(shop, v1alpha1.ConditionUpToDate, metav1.ConditionFalse, v1alpha1.ReasonImageRefused)
	if !strings.Contains(message, "postgres:15 can't run this cluster") || !strings.Contains(message, "PostgreSQL 17 is not installed") {
		t.Error(message)
	}
	l.settle()
	l.kube.set(func(s *standIn) {
		if len(s.made) > 0 || shop.Status.Image == "postgres:15" {
			t.Errorf("replaced %v; the image is %s", s.made, shop.Status.Image)
		}
		s.initError = nil
	})
	l.change(shop, func() { shop.Spec.Image = "postgres:17.6" })
	l.awaitReplicated(shop)
	l.eventually("the Job that tried it is cleared away", func() bool { return !l.there(&batchv1.Job{}, "shop-image") })
	if shop.Status.Image != "postgres:17.6" || shop.Status.RefusedImage != nil {
		t.Errorf("status: %+v", shop.Status)
	}
}

func TestAnImageInWhichTheFirstReplicaDoesNotComeUpIsTakenBack(t *testing.T) {
	l := newLab(t)
	shop := l.shop(three)
	l.awaitReplicated(shop)
	before := shop.Status.Image
	l.kube.set(func(s *standIn) {
		s.made = nil
		s.broken = "postgres:17.6"
	})
	l.change(shop, func() { shop.Spec.Image = "postgres:17.6" })
	l.eventually("the first is in trouble", func() bool {
		pod := &corev1.Pod{}
		return l.there(pod, "shop-2") && len(pod.Status.ContainerStatuses) > 0
	})
	l.clock.forward(2 * time.Minute)
	l.awaitCondition(shop, v1alpha1.ConditionUpToDate, metav1.ConditionFalse, v1alpha1.ReasonImageRefused)
	l.eventually("all run in the image before", func() bool { l.get(shop); return shop.Status.ReadyInstances == 3 })
	l.kube.set(func(s *standIn) {
		if slices.Contains(s.made, "shop-0") || slices.Contains(s.made, "shop-1") || shop.Status.Image != before {
			t.Errorf("replaced %v; the image is %s", s.made, shop.Status.Image)
		}
	})
}

func TestTheNextIsTakenDownOnlyWhenTheOneBeforeFollowsAgain(t *testing.T) {
	subset.OneIn(t, 2)
	l := newLab(t)
	shop := l.shop(three)
	l.awaitReplicated(shop)
	l.kube.set(func(s *standIn) {
		s.made = nil
		s.answer = func(status *agentapi.Status) {
			if status.Pod == "shop-2" && slices.Contains(s.made, "shop-2") {
				status.Replication = &agentapi.ReplicationStatus{LagBytes: 64 << 20}
			}
		}
	})
	l.change(shop, func() { shop.Spec.Image = "postgres:17.6" })
	l.eventually("it is said what is waited for", func() bool {
		message := l.awaitCondition(shop, v1alpha1.ConditionUpToDate, metav1.ConditionFalse, v1alpha1.ReasonApplying)
		return strings.Contains(message, "shop-1 is next, and waits: shop-2 doesn't receive WAL from the primary yet.")
	})
	l.awaitCondition(shop, v1alpha1.ConditionReplicated, metav1.ConditionFalse, v1alpha1.ReasonReplicaDown)
	l.settle()
	l.kube.set(func(s *standIn) {
		if !slices.Equal(s.made, []string{"shop-2"}) {
			t.Errorf("replaced %v", s.made)
		}
		s.answer = nil
	})
	l.awaitReplicated(shop)
}

func TestAParameterThatIsRaisedReachesReplicasFirst(t *testing.T) {
	l := newLab(t)
	shop := l.shop(three)
	l.awaitReplicated(shop)
	l.pendingUntilRestarted("max_connections")
	l.change(shop, func() { shop.Spec.PostgreSQL.Parameters = map[string]v1alpha1.ParameterValue{"max_connections": "300"} })
	l.eventually("all were restarted", func() bool { return len(l.restarted()) >= 3 })
	l.awaitReplicated(shop)
	if got := l.restarted(); !slices.Equal(got, []string{"shop-2", "shop-1", "shop-0"}) || shop.Status.Primary == "shop-0" {
		t.Errorf("restarted in the order %v; primary is %s", got, shop.Status.Primary)
	}
	if got := shop.Status.StandbyLimits["max_connections"]; got != "300" {
		t.Errorf("recorded: %q", got)
	}

	l.pendingUntilRestarted("max_connections")
	primary := shop.Status.Primary
	l.change(shop, func() { shop.Spec.PostgreSQL.Parameters["max_connections"] = "200" })
	l.eventually("all were restarted again", func() bool { return len(l.restarted()) >= 3 })
	l.awaitReplicated(shop)
	if got := l.restarted(); got[0] != primary || shop.Status.Primary != primary {
		t.Errorf("lowered in the order %v; primary is %s, and was %s", got, shop.Status.Primary, primary)
	}
}
