//go:build integration

package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
)

// succeeded makes a Backup and has it succeed.
func (b *bed) succeeded(name string, change ...func(*v1alpha1.BackupSpec)) *v1alpha1.Backup {
	b.Helper()
	backup := &v1alpha1.Backup{}
	backup.Name, backup.Spec.Cluster.Name = name, "shop"
	for _, c := range change {
		c(&backup.Spec)
	}
	b.make(backup)
	b.end(b.job(name+"-backup"), success())
	b.eventually(backup, "success", func() bool {
		return meta.IsStatusConditionTrue(backup.Status.Conditions, v1alpha1.ConditionSucceeded)
	})
	return backup
}

func verified(spec *v1alpha1.BackupSpec) { spec.Verify = &v1alpha1.BackupVerify{} }

// verification waits for the Job that verifies a backup, another one than before.
func (b *bed) verification(backup *v1alpha1.Backup, before ...string) *batchv1.Job {
	b.Helper()
	var found *batchv1.Job
	b.eventually(backup, "a Job that verifies", func() bool {
		jobs := &batchv1.JobList{}
		if err := b.List(b.Context(), jobs, client.InNamespace(b.namespace)); err != nil {
			b.Fatal(err)
		}
		for i := range jobs.Items {
			job := &jobs.Items[i]
			known := len(before) > 0 && job.Name == before[0]
			if strings.HasPrefix(job.Name, backup.Name+"-verify-") && job.DeletionTimestamp.IsZero() && !known {
				found = job
				return true
			}
		}
		return false
	})
	return found
}

func result(wrong ...agentapi.WrongObject) *agentapi.Outcome {
	raw, _ := json.Marshal(agentapi.VerifyResult{Objects: 9, CheckedBytes: 10 << 20, WrongObjects: int64(len(wrong)), Wrong: wrong})
	return &agentapi.Outcome{Result: raw}
}

func (b *bed) awaitVerified(object client.Object, status metav1.ConditionStatus, reason string) *metav1.Condition {
	b.Helper()
	var condition *metav1.Condition
	b.eventually(object, "Verified "+string(status)+" "+reason, func() bool {
		conditions := []metav1.Condition(nil)
		switch o := object.(type) {
		case *v1alpha1.Backup:
			conditions = o.Status.Conditions
		case *v1alpha1.BackupRepository:
			conditions = o.Status.Conditions
		}
		condition = meta.FindStatusCondition(conditions, v1alpha1.ConditionVerified)
		return condition != nil && condition.Status == status && condition.Reason == reason
	})
	return condition
}

func TestABackupIsVerifiedOnceAfterItHasSucceededByAJobThatMayOnlyReport(t *testing.T) {
	b := newBed(t)
	repo := b.repository("minio")
	b.make(repo)
	b.cluster("shop")
	backup := b.succeeded("first", verified, func(spec *v1alpha1.BackupSpec) {
		rate := resource.MustParse("1Mi")
		spec.Verify.MaxBytesPerSecond = &rate
	})
	job := b.verification(backup)
	b.awaitVerified(backup, metav1.ConditionUnknown, v1alpha1.ReasonVerifying)

	config, role := &corev1.ConfigMap{}, &rbacv1.Role{}
	for _, object := range []client.Object{config, role} {
		if err := b.Get(t.Context(), client.ObjectKeyFromObject(job), object); err != nil {
			t.Fatal(err)
		}
	}
	task := agentapi.VerifyJob{}
	if err := json.Unmarshal([]byte(config.Data["job.json"]), &task); err != nil {
		t.Fatal(err)
	}
	if task.BackupID != backup.Status.Plan.ID || task.Lineage != "7-g1" || task.MaxBytesPerSecond != 1<<20 || task.Repository.Bucket != b.bucket {
		t.Errorf("job.json %+v", task)
	}
	rule := role.Rules[0]
	if len(role.Rules) != 1 || rule.Resources[0] != "backups/status" || rule.ResourceNames[0] != "first" || len(rule.Verbs) != 1 || rule.Verbs[0] != "patch" {
		t.Errorf("the role of the Job is %+v", role.Rules)
	}
	for _, volume := range job.Spec.Template.Spec.Volumes {
		if volume.PersistentVolumeClaim != nil || volume.Secret != nil {
			t.Errorf("the Job mounts %+v", volume)
		}
	}

	b.end(job, result())
	condition := b.awaitVerified(backup, metav1.ConditionTrue, v1alpha1.ReasonVerified)
	if !strings.HasPrefix(condition.Message, "All 9 objects were read in ") || backup.Status.VerifiedAt == nil || backup.Status.Verification.CheckedBytes != 10<<20 {
		t.Errorf("%s; status %+v", condition.Message, backup.Status)
	}
	for _, object := range []client.Object{&batchv1.Job{}, &corev1.ConfigMap{}, &corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}} {
		object.SetName(job.Name)
		object.SetNamespace(b.namespace)
		b.eventuallyGone(object)
	}
	b.awaitVerified(repo, metav1.ConditionTrue, v1alpha1.ReasonVerified)

	b.change(backup, func() { backup.Spec.Verify.Token = "again" })
	b.end(b.verification(backup, job.Name), result())
	b.eventually(backup, "the answer to another token", func() bool {
		return backup.Status.Verification.CompletedAt != nil && *backup.Status.Verification.Token == "again"
	})
}

func TestAWrongObjectIsNamedOnTheBackupOnItsRepositoryAndInAnEvent(t *testing.T) {
	b := newBed(t)
	repo := b.repository("minio")
	b.make(repo)
	b.cluster("shop")
	backup := b.succeeded("first", verified)
	b.end(b.verification(backup), result(agentapi.WrongObject{Object: "lineages/7-g1/packs/x/1", File: "base/5/16384", Detail: "it is missing"}))
	const want = "lineages/7-g1/packs/x/1 (needed for file base/5/16384): it is missing"
	if condition := b.awaitVerified(backup, metav1.ConditionFalse, v1alpha1.ReasonDataCorrupt); !strings.Contains(condition.Message, want) {
		t.Errorf("message %s", condition.Message)
	}
	if condition := b.awaitVerified(repo, metav1.ConditionFalse, v1alpha1.ReasonDataCorrupt); !strings.Contains(condition.Message, "Backup first is damaged: "+want) {
		t.Errorf("message %s", condition.Message)
	}
	if got := repo.Status.Verification; len(got.WrongBackups) != 1 || got.WrongBackups[0] != "first" || got.VerifiedBackups != 0 {
		t.Errorf("verification %+v", got)
	}
	b.eventuallyEvent("first", v1alpha1.ReasonDataCorrupt)
	if !meta.IsStatusConditionTrue(backup.Status.Conditions, v1alpha1.ConditionSucceeded) {
		t.Error("a verification has changed how the backup ended")
	}
	b.remove(backup)
	b.eventually(repo, "a repository without the wrong backup", func() bool {
		return repo.Status.Verification == nil && meta.FindStatusCondition(repo.Status.Conditions, v1alpha1.ConditionVerified) == nil
	})
}

func TestAVerificationThatCannotReadIsTriedAgainAndSaysNothingOfTheBackup(t *testing.T) {
	b := newBed(t)
	b.archived("shop")
	backup := b.succeeded("first", verified)
	name := ""
	for range 5 {
		job := b.verification(backup, name)
		b.end(job, failure("Unreachable", "The store is away.", false))
		name = job.Name
	}
	condition := b.awaitVerified(backup, metav1.ConditionUnknown, "Unreachable")
	if !strings.Contains(condition.Message, "Verification stopped after 5 attempts") || backup.Status.VerifiedAt != nil || backup.Status.Verification.CompletedAt == nil {
		t.Errorf("%s; status %+v", condition.Message, backup.Status.Verification)
	}
}

func TestTheBackupsOfARepositoryAreVerifiedOneAfterTheOtherWhenItsTimeHasCome(t *testing.T) {
	b := newBed(t)
	repo := b.repository("minio")
	repo.Spec.Verify = &v1alpha1.RepositoryVerify{Schedule: "@yearly"}
	b.make(repo)
	b.cluster("shop")
	backups := []*v1alpha1.Backup{b.succeeded("first"), b.succeeded("second")}
	b.eventually(repo, "a planned time", func() bool {
		return repo.Status.Verification != nil && repo.Status.Verification.NextScheduleTime != nil && repo.Status.Verification.Backups == 2
	})
	if repo.Status.Verification.LastScheduleTime != nil {
		t.Errorf("a time that came before: %+v", repo.Status.Verification)
	}
	b.awaitVerified(repo, metav1.ConditionUnknown, v1alpha1.ReasonNotVerifiedYet)

	var come metav1.Time
	b.eventually(repo, "a time that has come", func() bool {
		come = metav1.NewTime(time.Now().Truncate(time.Second))
		repo.Status.Verification.NextScheduleTime = &come
		return backups[1].Status.CompletedAt.Before(&come) && b.Status().Update(t.Context(), repo) == nil
	})
	for range backups {
		var job *batchv1.Job
		b.eventually(repo, "a Job that verifies", func() bool { job = b.onlyVerification(); return job != nil })
		b.end(job, result())
		ended := &batchv1.Job{}
		ended.Name, ended.Namespace = job.Name, job.Namespace
		b.eventuallyGone(ended)
	}
	b.awaitVerified(repo, metav1.ConditionTrue, v1alpha1.ReasonVerified)
	if got := repo.Status.Verification; got.VerifiedBackups != 2 || got.OldestVerifiedAt == nil || !got.LastScheduleTime.Equal(&come) || !got.NextScheduleTime.After(come.Time) {
		t.Errorf("verification %+v", got)
	}
}

// onlyVerification is the one Job that verifies now. Two at once are an error.
func (b *bed) onlyVerification() (only *batchv1.Job) {
	b.Helper()
	jobs := &batchv1.JobList{}
	if err := b.List(b.Context(), jobs, client.InNamespace(b.namespace)); err != nil {
		b.Fatal(err)
	}
	for i := range jobs.Items {
		if job := &jobs.Items[i]; strings.Contains(job.Name, "-verify-") && job.DeletionTimestamp.IsZero() && len(job.Status.Conditions) == 0 {
			if only != nil {
				b.Error(errors.New("two verifications at once"), only.Name, job.Name)
			}
			only = job
		}
	}
	return only
}

func TestDeletingABackupEndsItsVerification(t *testing.T) {
	b := newBed(t)
	b.archived("shop")
	backup := b.succeeded("first", verified)
	job := b.verification(backup)
	b.remove(backup)
	b.eventuallyGone(job)
	b.eventuallyGone(backup)
}
