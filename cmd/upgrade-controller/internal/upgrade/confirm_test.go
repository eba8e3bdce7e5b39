package upgrade

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
)

// up is of a cluster that has run on the new version for a while, with the Upgrade ended and the volumes given back.
func up(o *observed) {
	adopted(o)
	status := &o.upgrade.Status
	status.UpAt, status.CompletedAt, status.PreviousBytes = &metav1.Time{Time: noon}, &metav1.Time{Time: noon}, 3<<30
	status.VolumeLockRequest, status.Handover = nil, nil
	o.cluster.Status.VolumeLocks = nil
	o.cluster.Status.Instances = []v1alpha1.InstanceStatus{{Name: "shop-0"}}
	o.cluster.Spec.Archive = &v1alpha1.ArchiveSpec{Repository: v1alpha1.LocalReference{Name: "repo"}}
	o.now = noon.Add(time.Hour)
}

// overdue is up, and nobody has decided in time.
func overdue(o *observed) { up(o); o.now = noon.Add(25 * time.Hour) }

func undecided(s v1alpha1.UpgradeStatus) bool { return s.Decided == nil && s.Release == nil }

func decidedOn(decision v1alpha1.UpgradeDecision) func(*observed) {
	return func(o *observed) {
		up(o)
		o.upgrade.Status.Decided = &v1alpha1.DecidedUpgrade{Decision: decision, Why: "spec.decision"}
	}
}

func TestThePreviousDataOfAnUpgradeStaysUntilItIsDecided(t *testing.T) {
	confirm, rollBack := decidedOn(v1alpha1.UpgradeConfirm), decidedOn(v1alpha1.UpgradeRollBack)
	for name, c := range map[string]struct {
		arrange func(*observed)
		reason  string
		message string
		after   func(v1alpha1.UpgradeStatus) bool
	}{
		"nobody has decided": {up, v1alpha1.ReasonAwaitingConfirmation, "takes 3Gi on each volume, until 2026-03-02T12:00:00Z",
			func(s v1alpha1.UpgradeStatus) bool { return s.Decided == nil && s.ConfirmBy != nil && s.Release == nil }},
		"confirmed": {func(o *observed) { up(o); o.upgrade.Spec.Decision = v1alpha1.UpgradeConfirm }, v1alpha1.ReasonConfirming, "",
			func(s v1alpha1.UpgradeStatus) bool {
				return s.Decided.Decision == v1alpha1.UpgradeConfirm && s.Release == nil
			}},
		"nobody decided in time": {func(o *observed) { overdue(o); o.restorable = true }, v1alpha1.ReasonConfirming, "",
			func(s v1alpha1.UpgradeStatus) bool { return strings.Contains(s.Decided.Why, "spec.confirmWithin") }},
		"nor in a cluster without a repository": {func(o *observed) { overdue(o); o.cluster.Spec.Archive = nil }, v1alpha1.ReasonConfirming, "",
			func(s v1alpha1.UpgradeStatus) bool { return strings.Contains(s.Decided.Why, "spec.confirmWithin") }},
		"nor in time, and there is no backup of the new version": {overdue, v1alpha1.ReasonAwaitingConfirmation,
			"until 2026-03-02T12:00:00Z, and beyond that as long as no backup of PostgreSQL 17 has succeeded. Set spec.decision", undecided},
		"nor in time, and the new version is down": {func(o *observed) {
			overdue(o)
			o.cluster.Spec.Archive, o.cluster.Status.Conditions[0].Status = nil, metav1.ConditionFalse
		}, v1alpha1.ReasonAwaitingConfirmation, "beyond that as long as PostgresCluster shop is not Ready", undecided},
		"nor in time, and the upgrade has not ended": {func(o *observed) {
			overdue(o)
			o.cluster.Spec.Archive, o.upgrade.Status.CompletedAt = nil, nil
			o.cluster.Status.Maintenance = []string{"Statistics"}
		}, v1alpha1.ReasonFinishing, "", undecided},
		"rolled back after its time, when the new version is down": {func(o *observed) {
			overdue(o)
			o.cluster.Status.Conditions[0].Status, o.upgrade.Spec.Decision = metav1.ConditionFalse, v1alpha1.UpgradeRollBack
		}, v1alpha1.ReasonRollingBack, "", func(s v1alpha1.UpgradeStatus) bool { return s.Decided.Decision == v1alpha1.UpgradeRollBack }},
		"rolled back": {func(o *observed) { up(o); o.upgrade.Spec.Decision = v1alpha1.UpgradeRollBack }, v1alpha1.ReasonRollingBack, "",
			func(s v1alpha1.UpgradeStatus) bool { return s.VolumeLockRequest == nil }},
		"deleted": {func(o *observed) { up(o); o.upgrade.DeletionTimestamp = &metav1.Time{Time: noon} }, v1alpha1.ReasonConfirming, "",
			func(s v1alpha1.UpgradeStatus) bool { return strings.Contains(s.Decided.Why, "deleted") }},
		"rolled back, and deleted at once": {func(o *observed) {
			up(o)
			o.upgrade.Spec.Decision, o.upgrade.DeletionTimestamp = v1alpha1.UpgradeRollBack, &metav1.Time{Time: noon}
		}, v1alpha1.ReasonRollingBack, "", func(s v1alpha1.UpgradeStatus) bool { return s.Decided.Decision == v1alpha1.UpgradeRollBack }},
		"nothing is deleted without a backup of the new version": {confirm, v1alpha1.ReasonAwaitingBackup, "until a backup of PostgreSQL 17 has succeeded",
			func(s v1alpha1.UpgradeStatus) bool { return s.Release == nil }},
		"with one, it is": {func(o *observed) { confirm(o); o.restorable = true }, v1alpha1.ReasonConfirming, "g1 is to be removed",
			func(s v1alpha1.UpgradeStatus) bool { return s.Release.DataGeneration == "g1" }},
		"and in a cluster without a repository": {func(o *observed) { confirm(o); o.cluster.Spec.Archive = nil }, v1alpha1.ReasonConfirming, "",
			func(s v1alpha1.UpgradeStatus) bool { return s.Release.DataGeneration == "g1" }},
		"then it is settled": {func(o *observed) {
			confirm(o)
			o.restorable, o.cluster.Status.ReleasedDataGenerations = true, []string{"g1"}
		}, v1alpha1.ReasonConfirmed, "", func(s v1alpha1.UpgradeStatus) bool { return s.SettledAt != nil }},
		"the cluster is stopped for the way back": {rollBack, v1alpha1.ReasonRollingBack, "",
			func(s v1alpha1.UpgradeStatus) bool { return strings.HasSuffix(s.VolumeLockRequest.Token, ".1") }},
		"but not before a safety backup": {func(o *observed) { rollBack(o); o.upgrade.Spec.SafetyBackup = true }, v1alpha1.ReasonAwaitingBackup, "",
			func(s v1alpha1.UpgradeStatus) bool { return s.VolumeLockRequest == nil && s.BackupRequest.Hold }},
		"nor where none is possible": {func(o *observed) {
			rollBack(o)
			o.upgrade.Spec.SafetyBackup, o.cluster.Spec.Archive = true, nil
		}, v1alpha1.ReasonSafetyBackupFailed, "spec.safetyBackup of the Upgrade to false", func(s v1alpha1.UpgradeStatus) bool { return s.VolumeLockRequest == nil }},
		"what was deleted does not come back": {func(o *observed) {
			rollBack(o)
			o.cluster.Status.ReleasedDataGenerations = []string{"g1"}
		}, v1alpha1.ReasonUndoImpossible, "The previous data was deleted", func(s v1alpha1.UpgradeStatus) bool { return s.VolumeLockRequest == nil && s.SettledAt != nil }},
		"nor keeps that the Upgrade from going": {func(o *observed) {
			rollBack(o)
			o.cluster.Status.ReleasedDataGenerations, o.upgrade.DeletionTimestamp = []string{"g1"}, &metav1.Time{Time: noon}
		}, v1alpha1.ReasonUndoImpossible, "", func(s v1alpha1.UpgradeStatus) bool { return s.SettledAt != nil }},
		"nor in another cluster of that name": {func(o *observed) { rollBack(o); o.cluster = nil }, v1alpha1.ReasonUndoImpossible, "was deleted",
			func(s v1alpha1.UpgradeStatus) bool { return s.VolumeLockRequest == nil }},
		"the new data goes once the old version runs": {func(o *observed) {
			rollBack(o)
			o.upgrade.Status.UndoneAt = &metav1.Time{Time: noon}
			o.cluster.Status.DataGeneration, o.cluster.Status.MajorVersion = "g1", 15
		}, v1alpha1.ReasonConfirming, "", func(s v1alpha1.UpgradeStatus) bool { return s.Release.DataGeneration == "g2" }},
	} {
		t.Run(name, func(t *testing.T) {
			o := ready()
			c.arrange(o)
			r, ended := reconciler(), o.ended()
			outcome := flow.Run(t.Context(), o, withoutWrites(r.plan(o))...)
			o.endedBefore = ended
			report(o, outcome)
			if outcome.Reason != c.reason || !strings.Contains(outcome.Message, c.message) {
				t.Errorf("got %q: %q", outcome.Reason, outcome.Message)
			}
			if !c.after(o.upgrade.Status) {
				t.Errorf("status is %+v", o.upgrade.Status)
			}
		})
	}
}

// TestTheConditionsOfAnUpgradeSayHowItEndedAndWhatWasDecided also after it had ended well.
func TestTheConditionsOfAnUpgradeSayHowItEndedAndWhatWasDecided(t *testing.T) {
	o := ready()
	up(o)
	o.endedBefore = true
	flow.SetCondition(&o.upgrade.Status.Conditions, o.upgrade, v1alpha1.ConditionSucceeded, metav1.ConditionTrue, v1alpha1.ReasonCompleted, "")
	is := func(condition string, status metav1.ConditionStatus, reason string) {
		t.Helper()
		if c := meta.FindStatusCondition(o.upgrade.Status.Conditions, condition); c == nil || c.Status != status || c.Reason != reason {
			t.Errorf("%s is %+v, want %s %s", condition, c, status, reason)
		}
	}
	report(o, flow.Poll(time.Hour, v1alpha1.ReasonAwaitingConfirmation, ""))
	is(v1alpha1.ConditionSucceeded, metav1.ConditionTrue, v1alpha1.ReasonCompleted)
	is(v1alpha1.ConditionConfirmed, metav1.ConditionUnknown, v1alpha1.ReasonAwaitingConfirmation)
	o.upgrade.Status.Decided = &v1alpha1.DecidedUpgrade{Decision: v1alpha1.UpgradeRollBack}
	report(o, flow.Wait(v1alpha1.ReasonRollingBack, "soon"))
	is(v1alpha1.ConditionSucceeded, metav1.ConditionTrue, v1alpha1.ReasonCompleted)
	is(v1alpha1.ConditionConfirmed, metav1.ConditionUnknown, v1alpha1.ReasonRollingBack)
	report(o, flow.Stop(v1alpha1.ReasonRolledBack, "It runs."))
	is(v1alpha1.ConditionSucceeded, metav1.ConditionFalse, v1alpha1.ReasonRolledBack)
	is(v1alpha1.ConditionConfirmed, metav1.ConditionFalse, v1alpha1.ReasonRolledBack)
	if o.upgrade.Status.SettledAt == nil {
		t.Error("it is not settled")
	}
}

func TestToolsThatKnowNoKindsSeeThatAnUpgradeHasSucceeded(t *testing.T) {
	o := ready()
	up(o)
	o.upgrade.Status.CompletedAt = nil
	report(o, flow.Wait(v1alpha1.ReasonFinishing, "soon"))
	if !meta.IsStatusConditionTrue(o.upgrade.Status.Conditions, "Reconciling") {
		t.Errorf("it continues: %+v", o.upgrade.Status.Conditions)
	}
	o.upgrade.Status.CompletedAt = &metav1.Time{Time: noon}
	report(o, flow.Save(v1alpha1.ReasonCompleted, ""))
	if meta.FindStatusCondition(o.upgrade.Status.Conditions, "Reconciling") != nil {
		t.Errorf("it has succeeded: %+v", o.upgrade.Status.Conditions)
	}
	o.endedBefore, o.upgrade.Status.Decided = true, &v1alpha1.DecidedUpgrade{Decision: v1alpha1.UpgradeRollBack}
	report(o, flow.Stop(v1alpha1.ReasonRolledBack, "It runs."))
	if !meta.IsStatusConditionTrue(o.upgrade.Status.Conditions, "Stalled") {
		t.Errorf("it was rolled back: %+v", o.upgrade.Status.Conditions)
	}
}

func TestAnUpgradeExpiresOnlyAfterItIsSettled(t *testing.T) {
	names := func(o *observed) (names []string) {
		for _, s := range reconciler().plan(o) {
			names = append(names, stepName(s))
		}
		return names
	}
	o := ready()
	up(o)
	if got := names(o); slices.Contains(got, "expire") {
		t.Errorf("before: %v", got)
	}
	o.upgrade.Status.SettledAt = &metav1.Time{Time: noon}
	if got := names(o); !slices.Contains(got, "expire") {
		t.Errorf("after: %v", got)
	}
	o.upgrade.Status.Decided = &v1alpha1.DecidedUpgrade{Decision: v1alpha1.UpgradeRollBack}
	if got := names(o); slices.Contains(got, "expire") {
		t.Errorf("the data that a person wants back is left: %v", got)
	}
	o.cluster.Status.ReleasedDataGenerations = []string{o.upgrade.Status.Previous.DataGeneration}
	if got := names(o); !slices.Contains(got, "expire") {
		t.Errorf("nothing is left: %v", got)
	}
}

// TestWhatARollBackCostsIsSaidBeforeItIsDecided, and afterwards.
func TestWhatARollBackCostsIsSaidBeforeItIsDecided(t *testing.T) {
	const cost = "about 12Mi of WAL, up to LSN 0/4C00000 at 2026-03-01T12:30:00Z"
	o := ready()
	up(o)
	o.cluster.Status.Written = &v1alpha1.WrittenData{
		DataGeneration: o.upgrade.Status.Plan.ToGeneration, FromLSN: "0/4000000", LSN: "0/4C00000", WALBytes: 12 << 20, Time: metav1.Time{Time: noon.Add(30 * time.Minute)},
	}
	noteWritten(t.Context(), o)
	if said := awaitingConfirmation(o); !strings.Contains(said, cost) {
		t.Error(said)
	}
	if said := record(o, v1alpha1.UpgradeRollBack, "spec.decision").Message; !strings.Contains(said, cost) {
		t.Error(said)
	}
	o.cluster.Status.Written = &v1alpha1.WrittenData{DataGeneration: "g1"} // of the previous data, by now
	noteWritten(t.Context(), o)
	if said := concludeRolledBack(t.Context(), o).Message; !strings.Contains(said, "is deleted: "+cost) {
		t.Error(said)
	}
}

func TestBytesAreRoundedForAPerson(t *testing.T) {
	for bytes, want := range map[int64]string{0: "less than 1Ki", 1023: "less than 1Ki", 2049: "about 2Ki", 12 << 20: "about 12Mi"} {
		if got := roughly(bytes); got != want {
			t.Errorf("%d bytes are %s, want %s", bytes, got, want)
		}
	}
}
