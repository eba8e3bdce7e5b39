package pace

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
)

func TestNewsOfHowSomethingGoesOnWait(t *testing.T) {
	before := &v1alpha1.PostgresClusterStatus{
		Primary: "shop-0", SystemIdentifier: "7", ReadyInstances: 1, DataInstance: "shop-0",
		Instances:  []v1alpha1.InstanceStatus{{Name: "shop-0", Ready: true}, {Name: "shop-1"}},
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonStarting, Message: "a"}, {Type: v1alpha1.ConditionStorageHealthy, Status: metav1.ConditionUnknown}},
	}
	for name, c := range map[string]struct {
		change func(*v1alpha1.PostgresClusterStatus)
		waits  time.Duration
	}{
		"nothing":                       {func(*v1alpha1.PostgresClusterStatus) {}, 0},
		"a message":                     {func(s *v1alpha1.PostgresClusterStatus) { s.Conditions[0].Message = "b" }, Patience},
		"a node":                        {func(s *v1alpha1.PostgresClusterStatus) { s.Instances[1].Node = "w1" }, Patience},
		"how a clone continues":         {func(s *v1alpha1.PostgresClusterStatus) { s.Instances[1].Rejoin = &v1alpha1.RejoinStatus{Percent: 7} }, Patience},
		"a replica that is ready":       {func(s *v1alpha1.PostgresClusterStatus) { s.Instances[1].Ready, s.ReadyInstances = true, 2 }, Patience},
		"a reason":                      {func(s *v1alpha1.PostgresClusterStatus) { s.Conditions[0].Reason = v1alpha1.ReasonElecting }, Patience},
		"a condition that is true now":  {func(s *v1alpha1.PostgresClusterStatus) { s.Conditions[0].Status = metav1.ConditionTrue }, 0},
		"a condition that is known now": {func(s *v1alpha1.PostgresClusterStatus) { s.Conditions[1].Status = metav1.ConditionTrue }, Patience},
		"a condition that is bad, which was not known": {func(s *v1alpha1.PostgresClusterStatus) { s.Conditions[1].Status = metav1.ConditionFalse }, 0},
		"another primary": {func(s *v1alpha1.PostgresClusterStatus) { s.Primary = "shop-1" }, 0},
		"who begins":      {func(s *v1alpha1.PostgresClusterStatus) { s.DataInstance = "shop-1" }, 0},
		"an instance more": {func(s *v1alpha1.PostgresClusterStatus) {
			s.Instances = append(s.Instances, v1alpha1.InstanceStatus{Name: "shop-2"})
		}, 0},
		"a parameter that needs a restart": {func(s *v1alpha1.PostgresClusterStatus) { s.Instances[1].PendingRestart = []string{"wal_level"} }, 0},
		"an answer to who asks for volumes": {func(s *v1alpha1.PostgresClusterStatus) {
			s.VolumeLocks = []v1alpha1.VolumeLock{{Token: "t", State: v1alpha1.VolumeLockGranted}}
		}, 0},
		"a spec that was seen": {func(s *v1alpha1.PostgresClusterStatus) { s.ObservedGeneration++; s.Instances[1].Node = "w1" }, 0},
	} {
		now := before.DeepCopy()
		c.change(now)
		if got := patienceWith(before, now); got != c.waits {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestWhatTheFirstAgentSaysWaitsForTheClusterToBeReady(t *testing.T) {
	before := &v1alpha1.PostgresClusterStatus{DataInstance: "shop-0", Version: "17", Archive: &v1alpha1.ArchiveStatus{Repository: "minio"}}
	now := before.DeepCopy()
	now.SystemIdentifier, now.Primary, now.Timeline, now.Version, now.Archive.Lineage = "7", "shop-0", 1, "17.5", "7-g"
	if got := patienceWith(before, now); got != firstPatience {
		t.Errorf("got %v", got)
	}
	now.DataInstance = "shop-1"
	if got := patienceWith(before, now); got != 0 {
		t.Errorf("with a decision: got %v", got)
	}
}

func TestThatAllIsAsItShallBeWaitsForTheReplicas(t *testing.T) {
	status := func(upToDate, replicated metav1.ConditionStatus) *v1alpha1.PostgresClusterStatus {
		return &v1alpha1.PostgresClusterStatus{SystemIdentifier: "7", Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionUpToDate, Status: upToDate}, {Type: v1alpha1.ConditionReplicated, Status: replicated},
		}}
	}
	before := status(metav1.ConditionFalse, metav1.ConditionFalse)
	for _, c := range []struct {
		before, now *v1alpha1.PostgresClusterStatus
		waits       time.Duration
	}{
		{before, status(metav1.ConditionTrue, metav1.ConditionFalse), Patience},
		{before, status(metav1.ConditionTrue, metav1.ConditionTrue), 0},
		{status(metav1.ConditionTrue, metav1.ConditionFalse), before, 0},
		{before, &v1alpha1.PostgresClusterStatus{SystemIdentifier: "7", Conditions: []metav1.Condition{{Type: v1alpha1.ConditionUpToDate, Status: metav1.ConditionTrue}}}, 0},
	} {
		if got := patienceWith(c.before, c.now); got != c.waits {
			t.Errorf("from %v to %v: got %v", c.before.Conditions, c.now.Conditions, got)
		}
	}
}

func TestNewsAreAsOldAsTheFirstOfThem(t *testing.T) {
	p, now := &Pacer{}, time.Unix(1000, 0)
	shop := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "shop", UID: "a"}}
	shop.Status.SystemIdentifier = "7"
	becomes := shop.DeepCopy()
	becomes.Status.Instances = []v1alpha1.InstanceStatus{{Name: "shop-0", Message: "a"}}
	shop.Status.Instances = []v1alpha1.InstanceStatus{{Name: "shop-0"}}
	wait := func(after, want time.Duration) {
		t.Helper()
		if got := p.Wait(shop, becomes, now.Add(after)); got != want {
			t.Errorf("after %s they wait for %s, want %s", after, got, want)
		}
	}
	wait(0, Patience)
	wait(time.Second, Patience-time.Second)
	wait(Patience+time.Second, 0)
	p.Written(shop)
	wait(5*time.Second, Patience)
	if got := p.Wait(shop, shop, now.Add(6*time.Second)); got != 0 {
		t.Errorf("no news wait for %s", got)
	}
	wait(7*time.Second, Patience)
	becomes.UID = "b"
	wait(8*time.Second, Patience)
}
