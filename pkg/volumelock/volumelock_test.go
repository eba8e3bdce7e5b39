package volumelock_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/volumelock"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// newLock is of an Upgrade that has requested the volumes of the cluster shop, with that response.
func newLock(response v1alpha1.VolumeLock) volumelock.Lock {
	upgrade := &v1alpha1.Upgrade{ObjectMeta: metav1.ObjectMeta{UID: "u"}}
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "c"}}
	cluster.Status = v1alpha1.PostgresClusterStatus{DataGeneration: "g0", SystemIdentifier: "7", MajorVersion: 17, Image: "postgres:17"}
	lock := volumelock.Lock{
		Requester: upgrade, Status: &upgrade.Status.VolumeLockStatus, ClusterName: "shop", ClusterUID: "c", Cluster: cluster, Now: noon,
	}
	lock.Request(0, nil)
	if response.State != "" {
		response.RequesterUID, response.Token = "u", protocol.Token("u", 0)
		cluster.Status.VolumeLocks = []v1alpha1.VolumeLock{response}
	}
	return lock
}

func granted(volumes ...string) v1alpha1.VolumeLock {
	response := v1alpha1.VolumeLock{State: v1alpha1.VolumeLockGranted}
	for _, instance := range volumes {
		response.Volumes = append(response.Volumes, v1alpha1.LockedVolume{Instance: instance, ClaimName: "data-" + instance})
	}
	return response
}

// offered is of a lock under which g1 was handed over.
func offered() volumelock.Lock {
	lock := newLock(granted("shop-1", "shop-0"))
	lock.PinPrevious()
	lock.HandOver(v1alpha1.Handover{DataGeneration: "g1"})
	return lock
}

// serves lets clients be led to what was adopted.
func serves(lock volumelock.Lock) {
	lock.Cluster.Status.VolumeLocks[0].ServedSince = &metav1.Time{Time: noon}
}

// adopts lets the cluster run on a data generation, after a failover to shop-0.
func adopts(lock volumelock.Lock, generation string, ready metav1.ConditionStatus) {
	status := &lock.Cluster.Status
	status.VolumeLocks[0].State, status.VolumeLocks[0].Volumes = v1alpha1.VolumeLockAdopted, nil
	status.VolumeLocks[0].AdoptedGeneration, status.DataGeneration, status.DataInstance = generation, generation, "shop-0"
	status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: ready, Reason: "X"}}
}

func TestOnlyAGrantWithAVolumeIsOne(t *testing.T) {
	for name, c := range map[string]struct {
		response v1alpha1.VolumeLock
		goesOn   bool
		reason   string
	}{
		"no response":    {v1alpha1.VolumeLock{}, false, ""},
		"queued":         {v1alpha1.VolumeLock{State: v1alpha1.VolumeLockQueued, Message: "Restore x is ahead"}, false, ""},
		"refused":        {v1alpha1.VolumeLock{State: v1alpha1.VolumeLockRefused, Message: "it is being deleted"}, false, v1alpha1.ReasonVolumeLockRefused},
		"granted":        {granted("shop-0"), true, ""},
		"granted empty":  {granted(), false, v1alpha1.ReasonVolumeLockRefused},
		"already adopts": {v1alpha1.VolumeLock{State: v1alpha1.VolumeLockAdopted, AdoptedGeneration: "g1"}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			lock := newLock(c.response)
			if got := lock.Await(); got.Finished() != c.goesOn || got.Stopped() {
				t.Errorf("%+v", got)
			}
			failure := lock.Failure(time.Minute)
			if c.reason == "" && failure != nil || c.reason != "" && (failure == nil || failure.Reason != c.reason || !strings.HasSuffix(failure.Message, ".")) {
				t.Errorf("%+v", failure)
			}
		})
	}
}

func TestARequestIsRecordedOnceAndSaysSinceWhenTheClusterIsDown(t *testing.T) {
	lock := newLock(v1alpha1.VolumeLock{})
	first := lock.Status.VolumeLockRequest
	lock.Now = noon.Add(time.Hour)
	if got := lock.Request(0, nil); !got.Finished() || lock.Status.VolumeLockRequest != first || lock.Status.DownAt != nil {
		t.Errorf("%+v, %+v, down at %v", got, lock.Status.VolumeLockRequest, lock.Status.DownAt)
	}
	lock.Cluster.Status.VolumeLocks = []v1alpha1.VolumeLock{{
		RequesterUID: "u", Token: protocol.Token("u", 0), State: v1alpha1.VolumeLockQueued, StoppingSince: &metav1.Time{Time: noon.Add(time.Minute)},
	}}
	if lock.Await(); lock.Status.DownAt == nil || !lock.Status.DownAt.Time.Equal(noon.Add(time.Minute)) {
		t.Errorf("the stop began a minute after noon, and it is down since %v", lock.Status.DownAt)
	}
}

func TestTheMaximalDowntimeEndsUntilClientsAreLedToTheNewData(t *testing.T) {
	for name, c := range map[string]struct {
		change func(volumelock.Lock)
		late   bool
	}{
		"the Job works":                     {func(volumelock.Lock) {}, true},
		"the db-controller has given it up": {func(l volumelock.Lock) { l.Cluster.Status.VolumeLocks[0].State = v1alpha1.VolumeLockRefused }, true},
		"it doesn't start":                  {func(l volumelock.Lock) { adopts(l, "g1", metav1.ConditionFalse) }, true},
		"it serves":                         {func(l volumelock.Lock) { adopts(l, "g1", metav1.ConditionTrue); serves(l) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			lock := offered()
			lock.Cluster.Status.VolumeLocks[0].Deadline = &metav1.Time{Time: noon.Add(time.Minute)}
			c.change(lock)
			if lock.TimeLeft() != time.Minute {
				t.Errorf("%s are left", lock.TimeLeft())
			}
			lock.Now = noon.Add(2 * time.Minute)
			failure := lock.Failure(0)
			if (failure != nil) != c.late || c.late && failure.Reason != v1alpha1.ReasonMaxDowntimeExceeded {
				t.Errorf("%+v", failure)
			}
		})
	}
}

func TestARefusedRequestIsNotWaitedForToTakeDataBack(t *testing.T) {
	lock := offered()
	lock.Cluster.Status.VolumeLocks[0].State = v1alpha1.VolumeLockRefused
	lock.TakeBack()
	if got := lock.AwaitTakenBack(); !got.Finished() {
		t.Errorf("the cluster never left its data: %+v", got)
	}
}

func TestAClusterThatIsDeletedIsWaitedForNoLonger(t *testing.T) {
	for name, change := range map[string]func(*volumelock.Lock){
		"it no longer exists":     func(l *volumelock.Lock) { l.Cluster = nil },
		"it is another one":       func(l *volumelock.Lock) { l.Cluster.UID = "d" },
		"it is about to be":       func(l *volumelock.Lock) { l.Cluster.DeletionTimestamp = &metav1.Time{Time: noon} },
		"the same, after a grant": func(l *volumelock.Lock) { *l = offered(); l.Cluster.DeletionTimestamp = &metav1.Time{Time: noon} },
	} {
		lock := newLock(v1alpha1.VolumeLock{})
		change(&lock)
		if failure := lock.Failure(0); failure == nil || failure.Reason != v1alpha1.ReasonClusterReplaced {
			t.Errorf("%s: %+v", name, failure)
		}
	}
}

func TestTheTimeToStartEndsUnlessTheClusterRunsOnWhatWasHandedOver(t *testing.T) {
	for name, c := range map[string]struct {
		change func(volumelock.Lock)
		late   bool
	}{
		"it adopts nothing":                {func(volumelock.Lock) {}, true},
		"the db-controller looks at older": {func(l volumelock.Lock) { l.Cluster.Generation = 2 }, true},
		"it doesn't start":                 {func(l volumelock.Lock) { adopts(l, "g1", metav1.ConditionFalse) }, true},
		"it is Ready on the previous data": {func(l volumelock.Lock) { adopts(l, "g0", metav1.ConditionTrue); serves(l) }, true},
		"it runs":                          {func(l volumelock.Lock) { adopts(l, "g1", metav1.ConditionTrue); serves(l) }, false},
		"it has served, and is down again": {func(l volumelock.Lock) { adopts(l, "g1", metav1.ConditionFalse); serves(l) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			lock := offered()
			c.change(lock)
			if failure := lock.Failure(time.Minute); failure != nil {
				t.Errorf("at once: %+v", failure)
			}
			lock.Now = noon.Add(time.Minute + time.Second)
			if failure := lock.Failure(0); failure != nil {
				t.Errorf("without a limit: %+v", failure)
			}
			if failure := lock.Failure(time.Minute); (failure != nil) != c.late || c.late && failure.Reason != v1alpha1.ReasonNotStarted {
				t.Errorf("%+v", failure)
			}
			if got := lock.AwaitRunning(time.Minute); got.Finished() != !c.late || c.late && got.After <= 0 {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestTheMaximalDowntimeAndTheTimeToStartAreLookedAtWhenTheyEnd(t *testing.T) {
	for name, c := range map[string]struct{ deadline, limit, after time.Duration }{
		"the downtime ends first":      {time.Minute, 10 * time.Minute, time.Minute},
		"the time to start ends first": {time.Hour, 10 * time.Minute, 10 * time.Minute},
		"no maximal downtime":          {0, 10 * time.Minute, 10 * time.Minute},
		"no time to start":             {time.Minute, 0, time.Minute},
		"neither":                      {0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			lock := offered()
			if c.deadline > 0 {
				lock.Cluster.Status.VolumeLocks[0].Deadline = &metav1.Time{Time: noon.Add(c.deadline)}
			}
			if got := lock.AwaitRunning(c.limit); got.After != c.after {
				t.Errorf("it looks again after %s, and not after %s", got.After, c.after)
			}
		})
	}
}

func TestDataThatHasServedRunsWhateverTheRequesterHandedOverSince(t *testing.T) {
	lock := offered()
	adopts(lock, "g1", metav1.ConditionFalse)
	lock.TakeBack()
	if lock.RunsNew() {
		t.Error("it has served nobody")
	}
	serves(lock)
	if !lock.RunsNew() {
		t.Error("it has served, and the db-controller does not take it back")
	}
	adopts(lock, "g0", metav1.ConditionTrue)
	if lock.RunsNew() {
		t.Error("the previous data was adopted again")
	}
}

func TestThePreviousDataIsTakenBackWhereEveryCommitOfItIs(t *testing.T) {
	lock := offered()
	adopts(lock, "g1", metav1.ConditionFalse)
	if got := lock.TakeBack(); got.Kind != flow.KindSave || lock.Status.Handover.DataGeneration != "g0" || lock.Status.Handover.Instance != "shop-1" {
		t.Fatalf("%+v, %+v", got, lock.Status.Handover)
	}
	if got := lock.TakeBack(); !got.Finished() {
		t.Errorf("once more: %+v", got)
	}
	if got := lock.AwaitTakenBack(); got.Kind != flow.KindWait {
		t.Errorf("it has not been adopted: %+v", got)
	}
	adopts(lock, "g0", metav1.ConditionFalse)
	if got := lock.AwaitTakenBack(); !got.Finished() {
		t.Errorf("it was adopted: %+v", got)
	}
	if got := lock.Withdraw(); got.Kind != flow.KindSave || lock.Status.VolumeLockRequest != nil || lock.Status.Handover != nil {
		t.Errorf("%+v, %+v", got, lock.Status)
	}
	if got := lock.AwaitReturned(); got.Kind != flow.KindWait {
		t.Errorf("the db-controller has not seen that: %+v", got)
	}
	lock.Cluster.Status.VolumeLocks = nil
	if got := lock.AwaitReturned(); !got.Finished() {
		t.Errorf("it has: %+v", got)
	}
}

func TestNothingIsTakenBackWhereNothingWasOffered(t *testing.T) {
	for name, lock := range map[string]volumelock.Lock{"requested": newLock(v1alpha1.VolumeLock{}), "granted": newLock(granted("shop-0"))} {
		for _, step := range []func() flow.Outcome{lock.TakeBack, lock.AwaitTakenBack} {
			if got := step(); !got.Finished() || lock.Status.Handover != nil {
				t.Errorf("%s: %+v", name, got)
			}
		}
	}
}

func TestTheMessageOfAFailureFitsIntoACondition(t *testing.T) {
	failure := volumelock.Fail("X", "%s", strings.Repeat("ä", 2000))
	if n := len([]rune(failure.Message)); n != 800 || !strings.HasSuffix(failure.Message, "…") {
		t.Errorf("%d characters", n)
	}
}

// TestDataThatWasAdoptedUnderAnEarlierLockRanBefore: a requester whose status is older than that would take back what clients have used.
func TestDataThatWasAdoptedUnderAnEarlierLockRanBefore(t *testing.T) {
	for name, c := range map[string]struct {
		change func(volumelock.Lock)
		ran    bool
	}{
		"it is adopted, and has not started":       {func(l volumelock.Lock) { adopts(l, "g1", metav1.ConditionFalse) }, false},
		"the cluster runs on the previous data":    {func(volumelock.Lock) {}, false},
		"the cluster runs on it, and was not told": {func(l volumelock.Lock) { l.Cluster.Status.DataGeneration = "g1" }, true},
		"the lock is over": {func(l volumelock.Lock) {
			adopts(l, "g1", metav1.ConditionTrue)
			l.Cluster.Status.VolumeLocks = nil
		}, true},
		"somebody else has the volumes": {func(l volumelock.Lock) {
			adopts(l, "g1", metav1.ConditionTrue)
			l.Cluster.Status.VolumeLocks[0].RequesterUID = "x"
		}, true},
		"another cluster of that name": {func(l volumelock.Lock) { l.Cluster.Status.DataGeneration, l.Cluster.UID = "g1", "d" }, false},
	} {
		lock := offered()
		c.change(lock)
		if got := lock.RanBefore("g1"); got != c.ran {
			t.Errorf("%s: %t", name, got)
		}
	}
}
