//go:build integration

package cluster

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/workload"
	"howdah.dev/howdah/test/testkit/subset"
)

// upgrade makes an Upgrade that asks for the volumes, as its controller would.
func (l *lab) upgrade(name string, shop *v1alpha1.PostgresCluster) *v1alpha1.Upgrade {
	l.Helper()
	return l.upgradeWithin(nil, name, shop)
}

// upgradeWithin requests the volumes with a deadline in the same write, as it counts from when the cluster begins to stop.
func (l *lab) upgradeWithin(downtime *metav1.Duration, name string, shop *v1alpha1.PostgresCluster) *v1alpha1.Upgrade {
	l.Helper()
	upgrade := &v1alpha1.Upgrade{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: name},
		Spec:       v1alpha1.UpgradeSpec{Cluster: v1alpha1.LocalReference{Name: shop.Name}, Version: 18},
	}
	l.create(upgrade)
	l.say(upgrade, func() {
		upgrade.Status.VolumeLockRequest = &v1alpha1.VolumeLockRequest{
			Cluster: shop.Name, ClusterUID: shop.UID, Token: protocol.Token(upgrade.UID, 0), Mode: v1alpha1.VolumeLockStopped,
			MaxDowntime: downtime,
		}
	})
	return upgrade
}

func (l *lab) answer(shop *v1alpha1.PostgresCluster, upgrade *v1alpha1.Upgrade) *v1alpha1.VolumeLock {
	l.Helper()
	l.get(shop)
	return protocol.LockFor(shop, upgrade.UID, upgrade.Status.VolumeLockRequest)
}

func (l *lab) awaitAnswer(shop *v1alpha1.PostgresCluster, upgrade *v1alpha1.Upgrade, state v1alpha1.VolumeLockState) *v1alpha1.VolumeLock {
	l.Helper()
	var answer *v1alpha1.VolumeLock
	l.eventually("the hold of "+upgrade.Name+" is "+string(state), func() bool {
		answer = l.answer(shop, upgrade)
		return answer != nil && answer.State == state
	})
	return answer
}

func handover(shop *v1alpha1.PostgresCluster, upgrade *v1alpha1.Upgrade) *v1alpha1.Handover {
	return &v1alpha1.Handover{
		Token: upgrade.Status.VolumeLockRequest.Token, DataGeneration: protocol.DataGeneration(upgrade.UID, 0), SystemIdentifier: "7000000000000000001",
		MajorVersion: 18, Image: "postgres:18",
	}
}

func TestAHoldStopsTheClusterAndAHandoverStartsItOnTheNewData(t *testing.T) {
	l := newLab(t)
	shop := l.shop(nil)
	l.awaitRunning(shop)
	old := shop.Status.DataGeneration
	upgrade := l.upgrade("to-18", shop)
	answer := l.awaitAnswer(shop, upgrade, v1alpha1.VolumeLockGranted)
	if len(answer.Volumes) != 1 || answer.Volumes[0].ClaimName != "data-shop-0" || l.there(&corev1.Pod{}, "shop-0") {
		t.Errorf("granted %+v, pod there: %v", answer.Volumes, l.there(&corev1.Pod{}, "shop-0"))
	}
	l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonVolumesLocked)

	l.say(upgrade, func() { upgrade.Status.Handover = handover(shop, upgrade) })
	l.awaitAnswer(shop, upgrade, v1alpha1.VolumeLockAdopted)
	l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRunning)
	l.get(shop)
	if s := shop.Status; s.MajorVersion != 18 || s.Image != "postgres:18" || s.PreviousDataGeneration != old || !protocol.Adopted(shop, upgrade.UID, upgrade.Status.VolumeLockRequest, upgrade.Status.Handover) {
		t.Errorf("status: %+v", s)
	}
	pod := &corev1.Pod{}
	l.there(pod, "shop-0")
	if pod.Spec.Containers[0].Image != "postgres:18" {
		t.Errorf("the pod runs %s", pod.Spec.Containers[0].Image)
	}
	l.awaitCondition(shop, v1alpha1.ConditionUpToDate, metav1.ConditionFalse, v1alpha1.ReasonVersionBehind)

	l.say(upgrade, func() { upgrade.Status.VolumeLockRequest, upgrade.Status.Handover = nil, nil })
	l.eventually("the hold is over", func() bool { l.get(shop); return len(shop.Status.VolumeLocks) == 0 })
	l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRunning)
}

func TestAHoldThatIsWithdrawnLetsTheClusterGoOnAsBefore(t *testing.T) {
	l := newLab(t)
	shop := l.shop(nil)
	l.awaitRunning(shop)
	generation := shop.Status.DataGeneration
	upgrade := l.upgrade("to-18", shop)
	l.awaitAnswer(shop, upgrade, v1alpha1.VolumeLockGranted)
	l.say(upgrade, func() { upgrade.Status.VolumeLockRequest = nil })
	l.awaitRunning(shop)
	if shop.Status.DataGeneration != generation || len(shop.Status.VolumeLocks) != 0 {
		t.Errorf("status: %+v", shop.Status)
	}
}

func TestOnlyOneHoldsAtATime(t *testing.T) {
	l := newLab(t)
	shop := l.shop(nil)
	l.awaitRunning(shop)
	first := l.upgrade("first", shop)
	l.awaitAnswer(shop, first, v1alpha1.VolumeLockGranted)
	second := l.upgrade("second", shop)
	if answer := l.awaitAnswer(shop, second, v1alpha1.VolumeLockQueued); answer.Message != "Waiting until Upgrade first gives the volumes back." {
		t.Errorf("message: %s", answer.Message)
	}
	l.say(first, func() { first.Status.VolumeLockRequest = nil })
	l.awaitAnswer(shop, second, v1alpha1.VolumeLockGranted)
}

func TestPostgresIsNotStartedWhileAWorkerStillWrites(t *testing.T) {
	l := newLab(t)
	shop := l.shop(nil)
	l.awaitRunning(shop)
	upgrade := l.upgrade("to-18", shop)
	l.awaitAnswer(shop, upgrade, v1alpha1.VolumeLockGranted)
	worker := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "worker", Labels: map[string]string{
			v1alpha1.LabelCluster: "shop", v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelComponent: workload.ComponentUpgrade,
		}},
		Spec: corev1.PodSpec{NodeName: "w1", Containers: []corev1.Container{{Name: "worker", Image: "x"}}},
	}
	l.create(worker)
	l.say(upgrade, func() { upgrade.Status.VolumeLockRequest = nil })
	l.eventually("it is said what is waited for", func() bool {
		message := l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonStarting)
		return message == "Pod worker still writes to the volume; PostgreSQL starts when it has ended."
	})
	if l.there(&corev1.Pod{}, "shop-0") {
		t.Error("it was started")
	}
	worker.Status.Phase = corev1.PodSucceeded
	if err := l.Status().Update(t.Context(), worker); err != nil {
		t.Fatal(err)
	}
	l.awaitRunning(shop)
}

func TestAControllerThatRestartsUnderAHoldStartsNothing(t *testing.T) {
	l := newLab(t)
	shop := l.shop(nil)
	l.awaitRunning(shop)
	upgrade := l.upgrade("to-18", shop)
	l.awaitAnswer(shop, upgrade, v1alpha1.VolumeLockGranted)
	l.stop()
	l.startController()
	time.Sleep(time.Second)
	set := &appsv1.StatefulSet{}
	if l.there(set, "shop"); *set.Spec.Replicas != 0 || l.there(&corev1.Pod{}, "shop-0") {
		t.Error("it was started")
	}
	l.say(upgrade, func() { upgrade.Status.Handover = handover(shop, upgrade) })
	l.awaitAnswer(shop, upgrade, v1alpha1.VolumeLockAdopted)
	l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRunning)
}

func TestAClusterOfARestoreWaitsForItsData(t *testing.T) {
	l := newLab(t)
	shop := l.shop(func(c *v1alpha1.PostgresCluster) {
		c.Spec.Bootstrap = &v1alpha1.Bootstrap{Restore: &v1alpha1.BootstrapRestore{Name: "back", Database: "orders"}}
	})
	message := l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonAwaitingRestore)
	if message == "" || l.there(&batchv1.Job{}, "shop-init") || l.there(&appsv1.StatefulSet{}, "shop") || l.there(&corev1.Secret{}, "shop-app") {
		t.Errorf("message %q, or something was started, or its logins were made", message)
	}
	l.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "shop-app", OwnerReferences: []metav1.OwnerReference{protocol.LoginOwner(shop, true)}},
		Data:       map[string][]byte{"username": []byte("app"), "password": []byte("as it was")},
	})
	restore := &v1alpha1.Restore{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "back"},
		Spec: v1alpha1.RestoreSpec{
			Source:      v1alpha1.RestoreSource{Backup: &v1alpha1.LocalReference{Name: "b"}},
			Destination: v1alpha1.RestoreDestination{NewCluster: &v1alpha1.NewCluster{Name: "shop"}},
		},
	}
	l.create(restore)
	l.say(restore, func() {
		restore.Status.VolumeLockRequest = &v1alpha1.VolumeLockRequest{Cluster: "shop", ClusterUID: shop.UID, Token: protocol.Token(restore.UID, 0), Mode: v1alpha1.VolumeLockStopped}
	})
	l.eventually("the hold is granted", func() bool {
		l.get(shop)
		answer := protocol.LockFor(shop, restore.UID, restore.Status.VolumeLockRequest)
		return answer != nil && answer.State == v1alpha1.VolumeLockGranted && len(answer.Volumes) == 1
	})
	l.say(restore, func() {
		restore.Status.Handover = &v1alpha1.Handover{
			Token: restore.Status.VolumeLockRequest.Token, DataGeneration: "g123", SystemIdentifier: "7000000000000000001", MajorVersion: 17, Image: "postgres:17",
		}
	})
	l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRunning)
	if shop.Status.DataGeneration != "g123" || shop.Status.PreviousDataGeneration != "" {
		t.Errorf("status: %+v", shop.Status)
	}
	app := &corev1.Secret{}
	if l.there(app, "shop-app"); string(app.Data["dbname"]) != "orders" || string(app.Data["password"]) != "as it was" {
		t.Errorf("dbname %s, password %s", app.Data["dbname"], app.Data["password"])
	}
	l.say(restore, func() { restore.Status.VolumeLockRequest, restore.Status.Handover = nil, nil })
	l.awaitRunning(shop)
}

func TestTheVolumeOfTheLastPrimaryIsTheFirstThatAHolderGets(t *testing.T) {
	subset.OneIn(t, 2)
	l := newLab(t)
	shop := l.shop(three)
	l.awaitReplicated(shop)
	l.lead("shop-2")
	upgrade := l.upgrade("to-18", shop)
	answer := l.awaitAnswer(shop, upgrade, v1alpha1.VolumeLockGranted)
	if len(answer.Volumes) != 3 || answer.Volumes[0].Instance != "shop-2" || answer.Volumes[0].ClaimName != "data-shop-2" || shop.Status.Primary != "shop-2" {
		t.Errorf("granted %+v; the primary was %s", answer.Volumes, shop.Status.Primary)
	}
	for _, name := range []string{"shop-0", "shop-1", "shop-2"} {
		if l.there(&corev1.Pod{}, name) {
			t.Errorf("granted while %s was there", name)
		}
	}
	// Fewer instances are wanted meanwhile, and not the one with the data.
	l.scale(shop, 1)
	l.say(upgrade, func() { upgrade.Status.Handover = handover(shop, upgrade) })
	l.awaitAnswer(shop, upgrade, v1alpha1.VolumeLockAdopted)
	l.kube.set(func(s *standIn) { s.leaders["shop"] = "shop-2" })
	l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRunning)
	l.say(upgrade, func() { upgrade.Status.VolumeLockRequest, upgrade.Status.Handover = nil, nil })
	l.eventually("shop-0 is the only one, by way of a switchover", func() bool {
		l.get(shop)
		return shop.Status.Primary == "shop-0" && len(shop.Status.Instances) == 1
	})
	l.kube.set(func(s *standIn) {
		if len(s.switchovers) != 1 || s.switchovers[0].To != "shop-0" {
			t.Errorf("switched over: %+v", s.switchovers)
		}
	})
}
