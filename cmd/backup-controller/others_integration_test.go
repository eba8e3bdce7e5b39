//go:build integration

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/repository"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/pkg/protocol"
)

// change updates an object's spec, again when it changed meanwhile.
func (b *bed) change(object client.Object, change func()) {
	b.Helper()
	for range 20 {
		if err := b.Get(b.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			b.Fatal(err)
		}
		change()
		if err := b.Update(b.Context(), object); err == nil {
			return
		}
	}
	b.Fatal("the object changes all the time")
}

func (b *bed) remove(object client.Object) {
	b.Helper()
	if err := b.Delete(b.Context(), object); err != nil {
		b.Fatal(err)
	}
}

// commitBackup writes a small backup under the plan's id, as the worker would, and returns the key of its manifest.
func (b *bed) commitBackup(plan *v1alpha1.BackupPlan) string {
	b.Helper()
	dir := b.TempDir()
	for name, content := range map[string]string{"PG_VERSION": "17\n", "global/pg_control": strings.Repeat("c", 8192)} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	const segment = 1 << 20
	begin := postgres.LSN(2*segment + 40)
	name := postgres.SegmentOf(1, begin, segment).Name()
	if err := wal.New(b.store).Put(b.Context(), plan.Lineage, name, make([]byte, segment), wal.Info{Writer: "test"}); err != nil {
		b.Fatal(err)
	}
	source := backup.Source{
		DataDir: dir, Lineage: plan.Lineage, SystemIdentifier: "7", PGVersion: "17.5", PGMajor: 17, WALSegmentSize: segment,
		Start: func(context.Context) (backup.Started, error) {
			return backup.Started{LSN: begin, Timeline: 1, Time: time.Now()}, nil
		},
		Stop: func(context.Context) (backup.Stopped, error) {
			return backup.Stopped{LSN: begin + 100, Time: time.Now(), BackupLabel: "x"}, nil
		},
	}
	if _, err := backup.Write(b.Context(), b.store, source, backup.Options{ID: plan.ID}); err != nil {
		b.Fatal(err)
	}
	return repository.ManifestKey(plan.Lineage, plan.ID)
}

func ready(conditions []metav1.Condition, status metav1.ConditionStatus, reason string) bool {
	condition := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	return condition != nil && condition.Status == status && condition.Reason == reason
}

func TestARepositoryNamesTheSecretThatIsMissingAndNoticesWhenItIsMade(t *testing.T) {
	b := newBed(t)
	repo := b.repository("minio")
	repo.Spec.S3.Credentials = &v1alpha1.S3Credentials{SecretName: "keys"}
	b.make(repo)
	b.eventually(repo, "SecretNotFound", func() bool {
		return ready(repo.Status.Conditions, metav1.ConditionFalse, v1alpha1.ReasonSecretNotFound)
	})
	if message := repo.Status.Conditions[0].Message; !strings.Contains(message, "there is no Secret keys") {
		t.Errorf("message %s", message)
	}
	secret := &corev1.Secret{StringData: map[string]string{"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}}
	secret.Name = "keys"
	b.make(secret)
	b.change(repo, func() { repo.Labels = map[string]string{"look": "again"} })
	b.eventually(repo, "Available", func() bool { return ready(repo.Status.Conditions, metav1.ConditionTrue, v1alpha1.ReasonAvailable) })
}

func TestARepositoryStaysWhileItIsNeededAndSaysByWhom(t *testing.T) {
	b := newBed(t)
	repo := b.repository("minio")
	b.make(repo)
	cluster := b.cluster("shop")
	b.eventually(repo, "Available", func() bool { return ready(repo.Status.Conditions, metav1.ConditionTrue, v1alpha1.ReasonAvailable) })
	b.remove(repo)
	b.eventually(repo, "InUse", func() bool { return ready(repo.Status.Conditions, metav1.ConditionTrue, v1alpha1.ReasonInUse) })
	if message := repo.Status.Conditions[0].Message; !strings.Contains(message, "PostgresCluster shop") {
		t.Errorf("message %s", message)
	}
	b.remove(cluster)
	b.eventuallyGone(repo)
}

func TestALookThatFindsNothingNewWritesNothing(t *testing.T) {
	b := newBed(t)
	repo := b.repository("minio")
	b.make(repo)
	b.eventually(repo, "Available", func() bool { return ready(repo.Status.Conditions, metav1.ConditionTrue, v1alpha1.ReasonAvailable) })
	b.change(repo, func() { repo.Labels = map[string]string{"look": "again"} })
	version := repo.ResourceVersion
	time.Sleep(time.Second) // there is nothing to wait for: nothing must happen
	if err := b.Get(t.Context(), client.ObjectKeyFromObject(repo), repo); err != nil || repo.ResourceVersion != version {
		t.Errorf("version %s became %s: %v", version, repo.ResourceVersion, err)
	}
}

func TestAnAskForABackupIsAnsweredOnceAndAgainWhenTheBackupWasDeleted(t *testing.T) {
	b := newBed(t)
	b.make(b.repository("minio"))
	cluster := b.cluster("shop")
	request := v1alpha1.BackupRequest{Cluster: "shop", ClusterUID: cluster.UID, Token: protocol.Token(cluster.UID, 1), Purpose: v1alpha1.PurposeFinal}
	b.say(cluster, func(status *v1alpha1.PostgresClusterStatus) { status.BackupWanted = &request })
	wanted := &v1alpha1.Backup{}
	wanted.Name, wanted.Namespace = protocol.BackupName(request), b.namespace
	b.eventually(wanted, "the Backup", func() bool { return wanted.Spec.RequestedBy != nil })
	if by := wanted.Spec.RequestedBy; by.Token != request.Token || by.Kind != v1alpha1.KindPostgresCluster || by.UID != cluster.UID {
		t.Errorf("requested by %+v", by)
	}
	first := wanted.UID
	b.remove(wanted)
	b.eventually(wanted, "another Backup", func() bool { return wanted.UID != first })
}

func TestABackupOfTheNeededNameThatAnswersSomebodyElseIsLeftAlone(t *testing.T) {
	b := newBed(t)
	cluster := b.cluster("shop")
	request := v1alpha1.BackupRequest{Cluster: "shop", ClusterUID: cluster.UID, Token: protocol.Token(cluster.UID, 1), Purpose: v1alpha1.PurposeFinal}
	foreign := b.backup(protocol.BackupName(request), "shop")
	b.say(cluster, func(status *v1alpha1.PostgresClusterStatus) { status.BackupWanted = &request })
	b.eventuallyEvent(cluster.Name, "NameTaken")
	if err := b.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign); err != nil || foreign.Spec.RequestedBy != nil {
		t.Errorf("the foreign Backup: %v, %+v", err, foreign.Spec)
	}
}

// eventuallyEvent waits for an event about an object.
func (b *bed) eventuallyEvent(name, reason string) {
	b.Helper()
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		list := &corev1.EventList{}
		if err := b.List(b.Context(), list, client.InNamespace(b.namespace)); err != nil {
			b.Fatal(err)
		}
		for _, event := range list.Items {
			if event.InvolvedObject.Name == name && event.Reason == reason {
				return
			}
		}
	}
	b.Fatalf("no event %s about %s", reason, name)
}

func (b *bed) schedule(change ...func(*v1alpha1.BackupScheduleSpec)) *v1alpha1.BackupSchedule {
	b.Helper()
	schedule := &v1alpha1.BackupSchedule{}
	schedule.Name = "hourly"
	schedule.Spec = v1alpha1.BackupScheduleSpec{Cluster: v1alpha1.LocalReference{Name: "shop"}, Schedule: "0 * * * *"}
	for _, c := range change {
		c(&schedule.Spec)
	}
	b.make(schedule)
	b.eventually(schedule, "a planned time", func() bool { return schedule.Status.NextScheduleTime != nil })
	return schedule
}

// outage lets the schedule find that its planned time has passed hours ago.
func (b *bed) outage(schedule *v1alpha1.BackupSchedule, hours int) {
	b.Helper()
	planned := metav1.NewTime(time.Now().Truncate(time.Hour).Add(-time.Duration(hours) * time.Hour))
	schedule.Status.NextScheduleTime = &planned
	if err := b.Status().Update(b.Context(), schedule); err != nil {
		b.Fatal(err)
	}
	b.change(schedule, func() { schedule.Spec.DeletionPolicy = v1alpha1.BackupRetain })
}

func TestAScheduleMakesOneBackupAfterAnOutageAndCountsTheRest(t *testing.T) {
	b := newBed(t)
	b.cluster("shop")
	schedule := b.schedule()
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
			condition := meta.FindStatusCondition(schedule.Status.Conditions, v1alpha1.ConditionReady)
			made := &v1alpha1.BackupList{}
			if err := b.List(t.Context(), made, client.InNamespace(b.namespace)); err != nil || len(made.Items) != test.backups || condition.Reason != test.reason {
				t.Errorf("%d Backups, %+v: %v", len(made.Items), condition, err)
			}
			if err := b.Get(t.Context(), client.ObjectKeyFromObject(before), before); err != nil || before.Spec.Cancel != test.cancelled {
				t.Errorf("the Backup before: %+v, %v", before.Spec, err)
			}
		})
	}
}

func TestABackupOfTheNeededNameThatSomebodyElseMadeIsLeftAlone(t *testing.T) {
	b := newBed(t)
	b.cluster("shop")
	schedule := b.schedule()
	taken := "hourly-" + time.Now().UTC().Truncate(time.Hour).Format("0601021504")
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
	now := time.Now().UTC().Add(-30 * time.Minute)
	schedule := b.schedule(func(spec *v1alpha1.BackupScheduleSpec) {
		spec.StartingDeadlineSeconds, spec.Schedule = &deadline, fmt.Sprintf("%d * * * *", now.Minute())
	})
	planned := metav1.NewTime(now.Truncate(time.Minute).Add(-time.Hour))
	schedule.Status.NextScheduleTime = &planned
	if err := b.Status().Update(t.Context(), schedule); err != nil {
		t.Fatal(err)
	}
	b.change(schedule, func() { schedule.Spec.DeletionPolicy = v1alpha1.BackupRetain })
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

func TestAScheduleKeepsSoManyFailedBackupsAndRemembersItsLastSuccess(t *testing.T) {
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
