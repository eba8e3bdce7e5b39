package upgrade

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/workload"
)

// passes reconciles until a pass records nothing more, without those steps that write to the API server.
func passes(t *testing.T, o *observed) flow.Outcome {
	t.Helper()
	r := reconciler()
	for range 20 {
		outcome := flow.Run(t.Context(), o, withoutWrites(r.plan(o))...)
		report(&observed{upgrade: o.upgrade, now: noon, endedBefore: o.ended()}, outcome)
		if outcome.Kind != flow.KindSave {
			return outcome
		}
	}
	t.Fatal("it never comes to rest")
	return flow.Next
}

// TestAnOlderStatusBringsNothingBack: after a backup of etcd was restored, an Upgrade may be where it handed the new data over long ago, and its time to start on
// it is over at once. Clients have used that data since.
func TestAnOlderStatusBringsNothingBack(t *testing.T) {
	for name, state := range map[string]v1alpha1.VolumeLockState{
		"its lock is over":     "",
		"it is granted anew":   v1alpha1.VolumeLockGranted,
		"it is in the queue":   v1alpha1.VolumeLockQueued,
		"a person has decided": v1alpha1.VolumeLockRefused,
	} {
		t.Run(name, func(t *testing.T) {
			o := ready()
			handedOver(o)
			o.work = workload.State{}
			o.upgrade.Status.HandedOverAt = &metav1.Time{Time: noon.AddDate(0, 0, -1)}
			o.cluster.Status.DataGeneration, o.cluster.Status.MajorVersion = "g2", 17
			o.cluster.Status.VolumeLocks[0].State = state
			if state == "" {
				o.cluster.Status.VolumeLocks = nil
			}
			passes(t, o)
			status := o.upgrade.Status
			if status.UpAt == nil || !status.UpAt.Time.Equal(noon) || status.Failure != nil || status.Handover != nil || status.VolumeLockRequest != nil || status.Release != nil {
				t.Errorf("up at %v, failure %+v, handed over %+v, requested %+v, released %+v", status.UpAt, status.Failure, status.Handover, status.VolumeLockRequest, status.Release)
			}
		})
	}
}

// TestDataThatAPersonDidNotChooseStaysUntilTheUpgradeIsDeleted: after a backup of etcd was restored, nobody but a person knows whether clients have used it.
func TestDataThatAPersonDidNotChooseStaysUntilTheUpgradeIsDeleted(t *testing.T) {
	o := ready()
	handedOver(o)
	o.work = workload.State{}
	o.cluster.Status.VolumeLocks[0].State, o.cluster.Status.VolumeLocks[0].Message = v1alpha1.VolumeLockRefused, "A person has decided."
	passes(t, o)
	o.cluster.Status.VolumeLocks = nil
	passes(t, o)
	status := &o.upgrade.Status
	if status.Failure == nil || status.Failure.Reason != v1alpha1.ReasonVolumeLockRefused || status.VolumeLockRequest != nil || status.Release != nil || status.CompletedAt == nil {
		t.Errorf("failure %+v, requested %+v, released %+v, completed %v", status.Failure, status.VolumeLockRequest, status.Release, status.CompletedAt)
	}
	o.upgrade.DeletionTimestamp = &metav1.Time{Time: noon}
	passes(t, o)
	if status.Release == nil || status.Release.DataGeneration != "g2" {
		t.Errorf("once it is deleted: %+v", status.Release)
	}
}

func TestAFailureIsToldByItsReasonNotByItsText(t *testing.T) {
	o := ready()
	locked(o)
	o.work = workload.State{Exists: true, Failed: true, Outcome: &agentapi.Outcome{Error: &agentapi.JobError{
		Reason: v1alpha1.ReasonJobFailed, Message: "spec.cancel asked for it"}}}
	passes(t, o)
	o.work = workload.State{}
	passes(t, o)
	o.cluster.Status.VolumeLocks = nil // the db-controller has seen that
	if passes(t, o); o.upgrade.Status.Release == nil || o.upgrade.Status.Release.DataGeneration != "g2" {
		t.Errorf("what the Job wrote stays on the volume: %+v", o.upgrade.Status.Release)
	}
	o.cluster.Status.ReleasedDataGenerations = []string{"g2"}
	if rested := passes(t, o); rested.Reason != v1alpha1.ReasonRolledBack {
		t.Errorf("nobody cancelled it, and it ended with %s: %s", rested.Reason, rested.Message)
	}
}

func TestAnUpgradeWhoseClusterIsGoneEnds(t *testing.T) {
	o := ready()
	checked(o)
	o.cluster = nil
	if got := passes(t, o); got.Reason != v1alpha1.ReasonClusterReplaced || o.upgrade.Status.CompletedAt == nil {
		t.Errorf("%s: %s; completed at %v", got.Reason, got.Message, o.upgrade.Status.CompletedAt)
	}
}

func TestAnUpgradeThatIsRefusedHasEnded(t *testing.T) {
	o := ready()
	o.upgrade.Spec.Version = 15
	passes(t, o)
	o.cluster.Status.MajorVersion = 14 // restored from elsewhere, months later
	if got := passes(t, o); o.upgrade.Status.Plan != nil {
		t.Errorf("it said False, and works all the same: %s: %s", got.Reason, got.Message)
	}
}

func TestAJobOfSomebodyElseEndsIt(t *testing.T) {
	o := ready()
	planned(o)
	o.check = workload.State{Foreign: true, Message: "x"}
	if got := passes(t, o); got.Reason != v1alpha1.ReasonNameConflict || o.upgrade.Status.CompletedAt == nil {
		t.Errorf("%s: %s; completed at %v", got.Reason, got.Message, o.upgrade.Status.CompletedAt)
	}
}

func TestOnlyTheInstanceThatHadEveryCommitTakesTheOldDataBack(t *testing.T) {
	o := ready()
	stuck(o)
	o.cluster.Status.DataInstance = "shop-1" // after a failover on the new version
	o.upgrade.Status.HandedOverAt = &metav1.Time{Time: noon.Add(-startLimit - time.Second)}
	o.work.Exists = false
	passes(t, o)
	if back := o.upgrade.Status.Handover; back == nil || back.DataGeneration != "g1" || back.Instance != "shop-0" {
		t.Errorf("%+v", back)
	}
}

func TestAVersionThatHasServedClientsIsKeptThoughItsControllerWasAway(t *testing.T) {
	for name, arrange := range map[string]func(*observed){
		"it looks again after the time to start": func(*observed) {},
		"it had begun to take it back": func(o *observed) {
			fail(o)
			o.upgrade.Status.Handover.DataGeneration = "g1"
		},
		"and the Upgrade is deleted": func(o *observed) { o.upgrade.DeletionTimestamp = &metav1.Time{Time: noon} },
	} {
		t.Run(name, func(t *testing.T) {
			o := ready()
			stuck(o)
			o.cluster.Status.VolumeLocks[0].ServedSince = &metav1.Time{Time: noon}
			o.upgrade.Status.HandedOverAt = &metav1.Time{Time: noon.Add(-startLimit - time.Second)}
			arrange(o)
			passes(t, o)
			status := o.upgrade.Status
			if status.Failure != nil && status.UpAt != nil || status.Handover != nil && status.Handover.DataGeneration == "g1" {
				t.Errorf("up at %v, failure %+v, handed over %+v", status.UpAt, status.Failure, status.Handover)
			}
		})
	}
}

func TestTheTimeToStartCountsWhateverTheDBControllerHasSeen(t *testing.T) {
	o := ready()
	handedOver(o)
	o.cluster.Generation = 2 // it has not looked at the newest spec
	o.upgrade.Status.HandedOverAt = &metav1.Time{Time: noon.Add(-startLimit - time.Second)}
	passes(t, o)
	if f := o.upgrade.Status.Failure; f == nil || f.Reason != v1alpha1.ReasonNotStarted {
		t.Errorf("%+v", f)
	}
}

func TestAnEmptyGrantIsNoGrant(t *testing.T) {
	for name, exists := range map[string]bool{"before the Job": false, "while the Job runs": true} {
		t.Run(name, func(t *testing.T) {
			o := ready()
			locked(o)
			o.cluster.Status.VolumeLocks[0].Volumes, o.work.Exists = nil, exists
			passes(t, o)
			if f := o.upgrade.Status.Failure; f == nil || f.Reason != v1alpha1.ReasonVolumeLockRefused {
				t.Errorf("%+v", f)
			}
		})
	}
}

func TestAnUpgradeThatIsDeletedWhileClientsWriteToTheNewVersionKeepsIt(t *testing.T) {
	o := ready()
	adopted(o)
	o.upgrade.DeletionTimestamp = &metav1.Time{Time: noon}
	passes(t, o)
	if offered := o.upgrade.Status.Handover; offered != nil && offered.DataGeneration == "g1" {
		t.Errorf("what clients wrote is taken back: %+v", offered)
	}
}
