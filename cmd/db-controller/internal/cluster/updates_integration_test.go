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
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/test/testkit/subset"
)

// newSuite is another one, whose image of PostgreSQL 17 has this name.
func (l *lab) newSuite(image string) {
	l.Helper()
	l.stop()
	l.images = manager.Images{15: "postgres:15", 17: image, 18: "postgres:18"}
	l.startController()
}

// updated is a cluster of three that takes updates by itself.
func updated(cluster *v1alpha1.PostgresCluster) {
	three(cluster)
	cluster.Spec.Updates = &v1alpha1.Updates{Minor: v1alpha1.UpdateAutomatic}
}

func (l *lab) made() []string {
	var made []string
	l.kube.set(func(s *standIn) { made = slices.Clone(s.made) })
	return made
}

func (l *lab) forgetMade() { l.kube.set(func(s *standIn) { s.made = nil }) }

func (l *lab) awaitUpdated(cluster *v1alpha1.PostgresCluster, image string) {
	l.Helper()
	l.eventually("it runs in "+image, func() bool { l.get(cluster); return cluster.Status.Image == image })
	l.awaitCondition(cluster, v1alpha1.ConditionUpdated, metav1.ConditionTrue, v1alpha1.ReasonCurrent)
	l.awaitReplicated(cluster)
	if cluster.Status.Image != image || cluster.Status.PendingUpdate != nil || cluster.Status.ImageChange != nil {
		l.Errorf("status: %+v", cluster.Status)
	}
}

func TestANewImageOfTheSuiteIsShownAndReachesNobodyByItself(t *testing.T) {
	l := newLab(t)
	shop := l.shop(three)
	l.awaitReplicated(shop)
	l.awaitCondition(shop, v1alpha1.ConditionUpdated, metav1.ConditionTrue, v1alpha1.ReasonCurrent)
	l.forgetMade()
	l.newSuite("postgres:17.6")
	message := l.awaitCondition(shop, v1alpha1.ConditionUpdated, metav1.ConditionFalse, v1alpha1.ReasonUpdatePending)
	if !strings.Contains(message, "set spec.updates.minor: Automatic, or spec.image: postgres:17.6") {
		t.Error(message)
	}
	l.settle()
	l.awaitCondition(shop, v1alpha1.ConditionUpToDate, metav1.ConditionTrue, v1alpha1.ReasonCurrent)
	if pending := shop.Status.PendingUpdate; pending == nil || pending.Image != "postgres:17.6" || pending.NotBefore != nil {
		t.Errorf("pending: %+v", pending)
	}
	if made := l.made(); len(made) > 0 || shop.Status.Image != "postgres:17" || l.there(&batchv1.Job{}, "shop-image") {
		t.Errorf("replaced %v; the image is %s", made, shop.Status.Image)
	}
}

func TestAnAutomaticUpdateWaitsForItsTimeAndThenReachesReplicasFirst(t *testing.T) {
	subset.OneIn(t, 2)
	l := newLab(t)
	shop := l.shop(updated)
	l.awaitReplicated(shop)
	l.forgetMade()
	tomorrow := metav1.NewTime(l.clock.now().Add(24 * time.Hour).Truncate(time.Second))
	l.change(shop, func() { shop.Spec.Updates.NotBefore = &tomorrow })
	l.newSuite("postgres:17.6")
	l.awaitCondition(shop, v1alpha1.ConditionUpdated, metav1.ConditionFalse, v1alpha1.ReasonUpdatePending)
	l.settle()
	if l.get(shop); shop.Status.PendingUpdate == nil || !shop.Status.PendingUpdate.NotBefore.Equal(&tomorrow) || len(l.made()) > 0 {
		t.Errorf("replaced %v: %+v", l.made(), shop.Status.PendingUpdate)
	}
	l.clock.forward(25 * time.Hour)
	l.awaitUpdated(shop, "postgres:17.6")
	if made := l.made(); !slices.Equal(made, []string{"shop-2", "shop-1", "shop-0"}) || shop.Status.Primary != "shop-1" {
		t.Errorf("replaced in the order %v; primary is %s", made, shop.Status.Primary)
	}
}

func TestAnAutomaticUpdateDoesNothingWhileAnUpgradeOrAPauseLasts(t *testing.T) {
	l := newLab(t)
	shop := l.shop(updated)
	l.awaitReplicated(shop)
	upgrade := &v1alpha1.Upgrade{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "to-18"},
		Spec:       v1alpha1.UpgradeSpec{Cluster: v1alpha1.LocalReference{Name: shop.Name}, Version: 18},
	}
	l.create(upgrade)
	l.forgetMade()
	l.newSuite("postgres:17.6")
	l.eventually("it waits for the Upgrade", func() bool {
		return strings.Contains(l.awaitCondition(shop, v1alpha1.ConditionUpdated, metav1.ConditionFalse, v1alpha1.ReasonUpdatePending), "Upgrade to-18")
	})
	until := metav1.NewTime(l.clock.now().Add(time.Hour))
	l.change(shop, func() { shop.Spec.Failover = &v1alpha1.Failover{PausedUntil: &until} })
	l.say(upgrade, func() {
		upgrade.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionSucceeded, Status: metav1.ConditionFalse, Reason: "Cancelled", LastTransitionTime: metav1.Now()}}
	})
	l.eventually("it waits for the end of the pause", func() bool {
		return strings.Contains(l.awaitCondition(shop, v1alpha1.ConditionUpdated, metav1.ConditionFalse, v1alpha1.ReasonUpdatePending), "failover is no longer paused")
	})
	if made := l.made(); len(made) > 0 || l.there(&batchv1.Job{}, "shop-image") {
		t.Errorf("replaced %v", made)
	}
	l.change(shop, func() { shop.Spec.Failover = nil })
	l.awaitUpdated(shop, "postgres:17.6")
}

func TestAnAutomaticUpdateInWhichAReplicaDoesNotComeUpIsTakenBackAndNotTriedAgain(t *testing.T) {
	subset.OneIn(t, 2)
	l := newLab(t)
	shop := l.shop(updated)
	l.awaitReplicated(shop)
	l.kube.set(func(s *standIn) { s.made, s.broken = nil, "postgres:17.6" })
	l.newSuite("postgres:17.6")
	l.eventually("the first is in trouble", func() bool {
		pod := &corev1.Pod{}
		return l.there(pod, "shop-2") && len(pod.Status.ContainerStatuses) > 0
	})
	l.clock.forward(2 * time.Minute)
	l.awaitCondition(shop, v1alpha1.ConditionUpdated, metav1.ConditionFalse, v1alpha1.ReasonImageRefused)
	l.eventually("all run in the image before", func() bool { l.get(shop); return shop.Status.ReadyInstances == 3 })
	l.awaitReplicated(shop)
	l.newSuite("postgres:17.6") // another process doesn't try it either
	l.settle()
	l.awaitCondition(shop, v1alpha1.ConditionUpdated, metav1.ConditionFalse, v1alpha1.ReasonImageRefused)
	if made := l.made(); slices.Contains(made, "shop-0") || slices.Contains(made, "shop-1") || shop.Status.Image != "postgres:17" || l.there(&batchv1.Job{}, "shop-image") {
		t.Errorf("replaced %v; the image is %s", made, shop.Status.Image)
	}
	l.kube.set(func(s *standIn) { s.broken = "" })
	l.newSuite("postgres:17.7")
	l.awaitUpdated(shop, "postgres:17.7")
}

func TestAnAutomaticUpdateWhoseTrialFailsReachesNobodyUntilAPersonNamesTheImage(t *testing.T) {
	subset.OnlyInFull(t)
	l := newLab(t)
	shop := l.shop(updated)
	l.awaitReplicated(shop)
	l.kube.set(func(s *standIn) {
		s.made = nil
		s.initError = &agentapi.JobError{Reason: "BadImage", Message: "it has PostgreSQL 17.4, and 17.5 runs, which is newer", Final: true}
	})
	l.newSuite("postgres:17.4")
	message := l.awaitCondition(shop, v1alpha1.ConditionUpdated, metav1.ConditionFalse, v1alpha1.ReasonImageRefused)
	if !strings.Contains(message, "17.5 runs, which is newer. It isn't tried again. To try it, set spec.image: postgres:17.4.") {
		t.Error(message)
	}
	l.eventually("the Job is removed", func() bool { return !l.there(&batchv1.Job{}, "shop-image") })
	l.settle()
	if made := l.made(); len(made) > 0 || l.there(&batchv1.Job{}, "shop-image") {
		t.Errorf("replaced %v", made)
	}
	l.awaitCondition(shop, v1alpha1.ConditionUpToDate, metav1.ConditionTrue, v1alpha1.ReasonCurrent)
	l.kube.set(func(s *standIn) { s.initError = nil })
	l.change(shop, func() { shop.Spec.Image = "postgres:17.4" })
	l.eventually("a person's word counts", func() bool { l.get(shop); return shop.Status.Image == "postgres:17.4" })
	l.awaitReplicated(shop)
}

func TestAnAutomaticUpdateCanBeStoppedOnItsWay(t *testing.T) {
	subset.OnlyInFull(t)
	l := newLab(t)
	shop := l.shop(updated)
	l.awaitReplicated(shop)
	l.kube.set(func(s *standIn) {
		s.made = nil
		s.answer = func(status *agentapi.Status) { // so that the others wait
			if status.Pod == "shop-2" && slices.Contains(s.made, "shop-2") {
				status.Replication = &agentapi.ReplicationStatus{LagBytes: 64 << 20}
			}
		}
	})
	l.newSuite("postgres:17.6")
	l.eventually("the first has it", func() bool { return slices.Contains(l.made(), "shop-2") })
	l.change(shop, func() { shop.Spec.Updates.Minor = v1alpha1.UpdateManual })
	l.kube.set(func(s *standIn) { s.answer = nil })
	l.awaitCondition(shop, v1alpha1.ConditionUpToDate, metav1.ConditionFalse, v1alpha1.ReasonRestartPending)
	l.settle()
	message := l.awaitCondition(shop, v1alpha1.ConditionUpdated, metav1.ConditionFalse, v1alpha1.ReasonUpdatePending)
	if made := l.made(); !slices.Equal(made, []string{"shop-2"}) || !strings.Contains(message, "1 of 3 instances run in the new image postgres:17.6") {
		t.Errorf("replaced %v: %s", made, message)
	}
	l.change(shop, func() { shop.Spec.Image = "postgres:17" })
	l.eventually("it is as before", func() bool { l.get(shop); return shop.Status.Image == "postgres:17" })
	l.awaitReplicated(shop)
	if made := l.made(); slices.Contains(made, "shop-0") || slices.Contains(made, "shop-1") {
		t.Errorf("replaced %v", made)
	}
}

func TestEachWriteMayBeTheLastOfAProcessThatUpdatesACluster(t *testing.T) {
	subset.OneIn(t, 2)
	l := newLab(t)
	l.patience *= 6
	shop := l.shop(updated)
	l.awaitReplicated(shop)
	l.forgetMade()
	l.images = manager.Images{17: "postgres:17.6"}
	stop := l.mortals(1)
	l.awaitUpdated(shop, "postgres:17.6")
	if made := l.made(); !slices.Equal(made, []string{"shop-2", "shop-1", "shop-0"}) {
		t.Errorf("replaced in the order %v", made)
	}
	l.images = manager.Images{17: "postgres:17.7"}
	stop()
	l.kube.set(func(s *standIn) { s.made, s.broken = nil, "postgres:17.7" })
	stop = l.mortals(1)
	l.eventually("the first is in trouble", func() bool {
		pod := &corev1.Pod{}
		return l.there(pod, "shop-2") && len(pod.Status.ContainerStatuses) > 0
	})
	l.clock.forward(2 * time.Minute)
	l.awaitCondition(shop, v1alpha1.ConditionUpdated, metav1.ConditionFalse, v1alpha1.ReasonImageRefused)
	l.eventually("all run in the image before", func() bool { l.get(shop); return shop.Status.ReadyInstances == 3 })
	stop()
}
