//go:build integration

package main

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/apiserver"
)

func (b *bed) schedule(change ...func(*v1alpha1.BackupScheduleSpec)) *v1alpha1.BackupSchedule {
	b.Helper()
	schedule := &v1alpha1.BackupSchedule{}
	schedule.Name = "hourly"
	schedule.Spec = v1alpha1.BackupScheduleSpec{Cluster: v1alpha1.LocalReference{Name: "shop"}, Schedule: fmt.Sprintf("%d * * * *", b.due.Minute())}
	for _, c := range change {
		c(&schedule.Spec)
	}
	b.make(schedule)
	b.eventually(schedule, "a planned time", func() bool { return schedule.Status.NextScheduleTime != nil })
	return schedule
}

// plan writes a planned time into the status, whatever else the controller writes there meanwhile.
func (b *bed) plan(schedule *v1alpha1.BackupSchedule, at time.Time) {
	b.Helper()
	before := schedule.DeepCopy()
	schedule.Status.NextScheduleTime = &metav1.Time{Time: at}
	if err := b.Status().Patch(b.Context(), schedule, client.MergeFrom(before)); err != nil {
		b.Fatal(err)
	}
}

// outage lets the schedule find that a time was planned this many hours before the last one.
func (b *bed) outage(schedule *v1alpha1.BackupSchedule, hours int) {
	b.Helper()
	planned := b.due.Add(-time.Duration(hours) * time.Hour)
	b.plan(schedule, planned)
	// The pass that follows the first may find it. If none does, a change wakes the controller that leaves what is due as it is. A change
	// after the pass would have the condition speak of the next time.
	found := func() bool {
		return b.Get(b.Context(), client.ObjectKeyFromObject(schedule), schedule) == nil && !schedule.Status.NextScheduleTime.Equal(&metav1.Time{Time: planned})
	}
	if !apiserver.Eventually(b.namespace, time.Second, found) {
		b.change(schedule, func() { schedule.Spec.TimeZone = "Etc/UTC" })
	}
}

func TestAScheduleMakesOneBackupAfterAnOutageAndCountsTheRest(t *testing.T) {
	b := newBed(t)
	b.cluster("shop")
	schedule := b.schedule(func(spec *v1alpha1.BackupScheduleSpec) { spec.DeletionPolicy = v1alpha1.BackupRetain })
	b.outage(schedule, 3)
	b.eventually(schedule, "a Backup", func() bool { return schedule.Status.LastBackup != "" })
	if schedule.Status.MissedRuns != 3 || !schedule.Status.NextScheduleTime.After(time.Now()) || !ready(schedule.Status.Conditions, metav1.ConditionTrue, v1alpha1.ReasonScheduled) {
		t.Errorf("status %+v", schedule.Status)
	}
	made := &v1alpha1.BackupList{}
	if err := b.List(t.Context(), made, client.InNamespace(b.namespace)); err != nil || len(made.Items) != 1 || made.Items[0].Name != schedule.Status.LastBackup {
		t.Errorf("Backups %v: %v", made.Items, err)
	}
	if made.Items[0].Spec.DeletionPolicy != v1alpha1.BackupRetain || len(made.Items[0].OwnerReferences) != 0 {
		t.Errorf("Backup %+v", made.Items[0])
	}
}

func TestWhatAScheduleDoesWhileABackupIsNotDone(t *testing.T) {
	for name, test := range map[string]struct {
		policy    v1alpha1.ConcurrencyPolicy
		reason    string
		backups   int
		cancelled bool
	}{
		"Forbid skips":     {v1alpha1.ConcurrencyForbid, v1alpha1.ReasonSkipped, 1, false},
		"Allow queues":     {v1alpha1.ConcurrencyAllow, v1alpha1.ReasonScheduled, 2, false},
		"Replace replaces": {v1alpha1.ConcurrencyReplace, v1alpha1.ReasonScheduled, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.cluster("shop")
			before := &v1alpha1.Backup{}
			before.Name, before.Labels = "before", map[string]string{v1alpha1.LabelSchedule: "hourly"}
			before.Spec.Cluster.Name = "shop"
			b.make(before)
			schedule := b.schedule(func(spec *v1alpha1.BackupScheduleSpec) { spec.ConcurrencyPolicy = test.policy })
			b.outage(schedule, 0)
			b.eventually(schedule, "the next time", func() bool {
				return schedule.Status.ObservedGeneration == schedule.Generation && schedule.Status.NextScheduleTime.After(time.Now())
			})
			b.eventuallyEvent(schedule.Name, test.reason) // the condition says it until something else wakes the schedule
			made := &v1alpha1.BackupList{}
			if err := b.List(t.Context(), made, client.InNamespace(b.namespace)); err != nil || len(made.Items) != test.backups {
				t.Errorf("%d Backups: %v", len(made.Items), err)
			}
			if err := b.Get(t.Context(), client.ObjectKeyFromObject(before), before); err != nil || before.Spec.Cancel != test.cancelled {
				t.Errorf("the Backup before: %+v, %v", before.Spec, err)
			}
		})
	}
}

func TestABackupOfTheNeededNameThatSomebodyElseCreatedIsLeftAlone(t *testing.T) {
	b := newBed(t)
	b.cluster("shop")
	schedule := b.schedule()
	taken := "hourly-" + b.due.Format("0601021504")
	b.backup(taken, "shop")
	b.outage(schedule, 0)
	b.eventually(schedule, "a Backup of another name", func() bool { return schedule.Status.LastBackup == taken+"-2" })
	foreign, made := &v1alpha1.Backup{}, &v1alpha1.Backup{}
	for name, backup := range map[string]*v1alpha1.Backup{taken: foreign, taken + "-2": made} {
		if err := b.Get(t.Context(), client.ObjectKey{Namespace: b.namespace, Name: name}, backup); err != nil {
			t.Fatal(err)
		}
	}
	if foreign.Spec.Cancel || foreign.Labels[v1alpha1.LabelSchedule] != "" || made.Labels[v1alpha1.LabelSchedule] != "hourly" {
		t.Errorf("foreign %+v, made %+v", foreign, made)
	}
}

func TestABackupThatIsFoundDueTooLateIsMissed(t *testing.T) {
	b := newBed(t)
	b.cluster("shop")
	deadline := int64(60)
	schedule := b.schedule(func(spec *v1alpha1.BackupScheduleSpec) { spec.StartingDeadlineSeconds = &deadline })
	b.outage(schedule, 1)
	b.eventually(schedule, "DeadlineExceeded", func() bool {
		return ready(schedule.Status.Conditions, metav1.ConditionFalse, v1alpha1.ReasonDeadlineExceeded)
	})
	if schedule.Status.MissedRuns != 2 || schedule.Status.LastBackup != "" || !schedule.Status.NextScheduleTime.After(time.Now()) {
		t.Errorf("status %+v", schedule.Status)
	}
}

// ended makes a Backup of the schedule hourly that has ended some minutes ago.
func (b *bed) ended(name string, minutes int, status metav1.ConditionStatus, hold bool) *v1alpha1.Backup {
	b.Helper()
	backup := &v1alpha1.Backup{}
	backup.Name, backup.Labels = name, map[string]string{v1alpha1.LabelSchedule: "hourly"}
	backup.Spec.Cluster.Name, backup.Spec.Hold = "shop", hold
	b.make(backup)
	if status == metav1.ConditionFalse {
		b.change(backup, func() { backup.Spec.Cancel = true })
		b.awaitReason(backup, status, v1alpha1.ReasonCancelled)
		return backup
	}
	b.eventually(backup, "a success", func() bool {
		at := metav1.NewTime(time.Now().Add(-time.Duration(minutes) * time.Minute))
		backup.Status.CompletedAt = &at
		meta.SetStatusCondition(&backup.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionSucceeded, Status: status, Reason: v1alpha1.ReasonCompleted})
		return b.Status().Update(b.Context(), backup) == nil
	})
	return backup
}

func TestAScheduleKeepsALimitOfFailedBackupsAndRemembersItsLastSuccess(t *testing.T) {
	b := newBed(t)
	b.cluster("shop")
	first := b.ended("first", 0, metav1.ConditionFalse, false)
	held := b.ended("held", 0, metav1.ConditionFalse, true)
	good := b.ended("good", 5, metav1.ConditionTrue, false)
	older := b.ended("older", 10, metav1.ConditionTrue, false)
	limit := int32(0)
	schedule := b.schedule(func(spec *v1alpha1.BackupScheduleSpec) { spec.FailedBackupsHistoryLimit = &limit })
	b.eventuallyGone(first)
	b.eventually(schedule, "the last success", func() bool { return schedule.Status.LastSuccessfulBackup == good.Name })
	for _, backup := range []*v1alpha1.Backup{held, good, older} {
		if err := b.Get(t.Context(), client.ObjectKeyFromObject(backup), backup); err != nil || !backup.DeletionTimestamp.IsZero() {
			t.Errorf("Backup %s: %v", backup.Name, err)
		}
	}
	last := b.ended("last", 0, metav1.ConditionTrue, false)
	b.eventually(schedule, "a later success", func() bool { return schedule.Status.LastSuccessfulBackup == last.Name })
}

func TestASuspendedScheduleMakesNothingUpForWhenItResumes(t *testing.T) {
	b := newBed(t)
	b.cluster("shop")
	schedule := b.schedule()
	b.change(schedule, func() { schedule.Spec.Suspend = true })
	b.eventually(schedule, "Suspended", func() bool {
		return ready(schedule.Status.Conditions, metav1.ConditionFalse, v1alpha1.ReasonSuspended) && schedule.Status.NextScheduleTime == nil
	})
	b.change(schedule, func() { schedule.Spec.Suspend = false })
	b.eventually(schedule, "Scheduled", func() bool {
		return ready(schedule.Status.Conditions, metav1.ConditionTrue, v1alpha1.ReasonScheduled) && schedule.Status.NextScheduleTime.After(time.Now())
	})
	if schedule.Status.MissedRuns != 0 || schedule.Status.LastBackup != "" {
		t.Errorf("status %+v", schedule.Status)
	}
}

func TestAScheduleWithATimeZoneThatDoesNotExistSaysSo(t *testing.T) {
	b := newBed(t)
	schedule := &v1alpha1.BackupSchedule{}
	schedule.Name = "odd"
	schedule.Spec = v1alpha1.BackupScheduleSpec{Cluster: v1alpha1.LocalReference{Name: "shop"}, Schedule: "0 3 * * *", TimeZone: "Europe/Atlantis"}
	b.make(schedule)
	b.eventually(schedule, "InvalidSchedule", func() bool {
		return ready(schedule.Status.Conditions, metav1.ConditionFalse, v1alpha1.ReasonInvalidSchedule)
	})
}
