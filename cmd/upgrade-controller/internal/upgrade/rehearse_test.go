package upgrade

import (
	"context"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/workload"
	"howdah.dev/howdah/test/testkit/fakeapi"
)

// rehearsing is a rehearsal whose copy is there and is being upgraded, at an hour after it began.
func rehearsing() *observed {
	began := metav1.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	u := &v1alpha1.Upgrade{}
	u.Spec = v1alpha1.UpgradeSpec{Cluster: v1alpha1.LocalReference{Name: "shop"}, Version: 18, Rehearsal: &v1alpha1.Rehearsal{TimeoutSeconds: 86400}}
	u.Status.StartedAt = &began
	u.Status.Plan = &v1alpha1.UpgradePlan{FromVersion: 17, FromSystemIdentifier: "7", FromGeneration: "g0"}
	u.Status.Rehearsal = &v1alpha1.RehearsalStatus{Name: "shop-rehearsal-0123abcd", RestoreUID: "r", UpgradeUID: "u", RestoreSeconds: 90, Message: "it does this"}
	o := &observed{upgrade: u, now: began.Add(time.Hour)}
	o.rehearsal.copy.Restore = &v1alpha1.Restore{Status: v1alpha1.RestoreStatus{Plan: &v1alpha1.RestorePlan{MajorVersion: 17, Lineage: "7-g0", BackupID: "b1"}}}
	o.rehearsal.copy.Cluster = &v1alpha1.PostgresCluster{}
	o.rehearsal.upgrade = &v1alpha1.Upgrade{}
	return o
}

func says(conditions *[]metav1.Condition, reason, message string) {
	meta.SetStatusCondition(conditions, metav1.Condition{Type: v1alpha1.ConditionSucceeded, Status: metav1.ConditionFalse, Reason: reason, Message: message})
}

func TestARehearsalEndsWhereNothingLeadsOn(t *testing.T) {
	if failure := rehearsing().rehearsalEnding(); failure != nil {
		t.Fatalf("one that continues: %+v", failure)
	}
	for name, test := range map[string]struct {
		change       func(*observed)
		reason, part string
	}{
		"it is cancelled": {func(o *observed) { o.upgrade.Spec.Cancel = true }, v1alpha1.ReasonCancelled, "spec.cancel"},
		"its time is over": {func(o *observed) { o.now = o.now.Add(23 * time.Hour) }, v1alpha1.ReasonRehearsalTimedOut,
			"longer than spec.rehearsal.timeoutSeconds (24h0m0s), and was stopped. Its last message was: it does this"},
		"its Restore is another's": {func(o *observed) { o.rehearsal.copy.Foreign = true }, v1alpha1.ReasonNameConflict, "is not touched"},
		"its Upgrade is another's": {func(o *observed) { o.rehearsal.foreign = true }, v1alpha1.ReasonNameConflict, "is not touched"},
		"its Job is another's":     {func(o *observed) { o.rehearsal.look = workload.State{Foreign: true, Message: "It exists."} }, v1alpha1.ReasonNameConflict, "It exists."},
		"its Restore was deleted":  {func(o *observed) { o.rehearsal.copy.Restore = nil }, v1alpha1.ReasonRestoreFailed, "Restore shop-rehearsal-0123abcd was deleted"},
		"its Restore is being deleted": {func(o *observed) { o.rehearsal.copy.Restore.DeletionTimestamp = &metav1.Time{Time: o.now} },
			v1alpha1.ReasonRestoreFailed, "was deleted before the rehearsal was done"},
		"its copy was deleted":    {func(o *observed) { o.rehearsal.copy.Cluster = nil }, v1alpha1.ReasonRestoreFailed, "PostgresCluster shop-rehearsal-0123abcd was deleted"},
		"its Upgrade was deleted": {func(o *observed) { o.rehearsal.upgrade = nil }, v1alpha1.ReasonRehearsalFailed, "Upgrade shop-rehearsal-0123abcd was deleted"},
		"its Restore failed": {func(o *observed) { says(&o.rehearsal.copy.Restore.Status.Conditions, "NoSpace", "too small") },
			v1alpha1.ReasonRestoreFailed, "(NoSpace): too small"},
		"the backup is of an older version": {func(o *observed) { o.rehearsal.copy.Restore.Status.Plan.MajorVersion = 16 },
			v1alpha1.ReasonBackupNotFound, "of PostgreSQL 16 in lineage 7-g0, and not 17"},
		"the backup is of earlier data": {func(o *observed) { o.rehearsal.copy.Restore.Status.Plan.Lineage = "7-gold" },
			v1alpha1.ReasonBackupNotFound, "in lineage 7-gold"},
		"the check finds an obstacle": {func(o *observed) {
			says(&o.rehearsal.upgrade.Status.Conditions, v1alpha1.ReasonCheckFailed, "It can't.")
		},
			v1alpha1.ReasonCheckFailed, "The copy could not be upgraded. It can't."},
		"pg_upgrade fails": {func(o *observed) {
			says(&o.rehearsal.upgrade.Status.Conditions, v1alpha1.ReasonRolledBack, "It failed.")
		},
			v1alpha1.ReasonRehearsalFailed, "(RolledBack). It failed."},
		"the copy can't be checked": {func(o *observed) { o.rehearsal.look = workload.State{Exists: true, Failed: true} }, v1alpha1.ReasonJobFailed, "The upgraded copy could not be checked"},
		"the check is tried again":  {func(o *observed) { o.rehearsal.look = workload.State{Exists: true, LivePods: 1} }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := rehearsing()
			test.change(o)
			failure := o.rehearsalEnding()
			switch {
			case test.reason == "":
				if failure != nil {
					t.Errorf("%+v", failure)
				}
			case failure == nil || failure.Reason != test.reason || !strings.Contains(failure.Message, test.part):
				t.Errorf("%+v", failure)
			}
		})
	}
}

func TestARehearsalDoesNothingToTheCluster(t *testing.T) {
	for name, change := range map[string]func(*observed){
		"it begins":         func(o *observed) { o.status().Rehearsal = nil },
		"it continues":      func(*observed) {},
		"it has ended":      func(o *observed) { o.status().CompletedAt = &metav1.Time{} },
		"it is over":        func(o *observed) { o.status().Rehearsal.Outcome = v1alpha1.RehearsalSucceeded },
		"it is deleted":     func(o *observed) { o.upgrade.DeletionTimestamp = &metav1.Time{Time: o.now} },
		"it is to fail":     func(o *observed) { o.rehearsal.foreign = true },
		"it is out of time": func(o *observed) { o.now = o.now.Add(48 * time.Hour) },
	} {
		o := rehearsing()
		change(o)
		steps := (&Reconciler{}).plan(o)
		if o.upgraded() || len(steps) == 0 {
			t.Errorf("%s: nothing is planned", name)
		}
		for _, step := range steps {
			for _, never := range []string{"Lock", "runUpgrade", "handOver", "takeBack", "release", "handBack"} {
				if strings.Contains(stepName(step), never) {
					t.Errorf("%s: %s", name, stepName(step))
				}
			}
		}
	}
}

// tells has these events, which are those of any Job.
type tells struct {
	client.WithWatch
	events []corev1.Event
}

func (s tells) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if events, is := list.(*corev1.EventList); is {
		events.Items = s.events
		return nil
	}
	return s.WithWatch.List(ctx, list, opts...)
}

func TestARehearsalWhoseCheckIsRefusedAPodSaysSo(t *testing.T) {
	o := rehearsing()
	o.upgrade.Namespace, o.upgrade.Name, o.upgrade.UID = "demo", "up", "u"
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: lookJob(o.status().Rehearsal), UID: "j"}}
	job.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(o.upgrade, v1alpha1.GroupVersion.WithKind(v1alpha1.KindUpgrade))}
	r := &Reconciler{}
	r.Live = tells{fakeapi.New(job), []corev1.Event{{Reason: "FailedCreate", Message: `Error creating: pods "check-x" is forbidden: exceeded quota: all`}}}
	if err := (rehearser{r}).observe(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	outcome := awaitLook(t.Context(), o)
	if outcome.Reason != v1alpha1.ReasonPodRefused || !strings.Contains(outcome.Message, "exceeded quota: all") || outcome.After == 0 {
		t.Errorf("%+v", outcome)
	}
}
