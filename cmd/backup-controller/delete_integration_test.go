//go:build integration

package main

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/fault"
)

func TestDeletingABackupDeletesItsDataUnlessItShallStay(t *testing.T) {
	for name, test := range map[string]struct {
		policy v1alpha1.BackupDeletionPolicy
		stays  bool
	}{
		"Delete": {v1alpha1.BackupDelete, false},
		"Retain": {v1alpha1.BackupRetain, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.archived("shop")
			backup, job := b.underWay("first", "shop")
			key := b.commitBackup(backup.Status.Plan)
			b.end(job, success())
			b.awaitReason(backup, metav1.ConditionTrue, v1alpha1.ReasonCompleted)
			b.change(backup, func() { backup.Spec.DeletionPolicy = test.policy })
			b.remove(backup)
			b.eventuallyGone(backup)
			_, err := b.store.Stat(t.Context(), key)
			if stays := err == nil; stays != test.stays {
				t.Errorf("the manifest is there: %t", stays)
			}
		})
	}
}

func TestAHeldBackupOutlivesItsDeletionUntilItIsLetGo(t *testing.T) {
	b := newBed(t)
	b.archived("shop")
	backup, job := b.underWay("first", "shop")
	key := b.commitBackup(backup.Status.Plan)
	b.change(backup, func() { backup.Spec.Hold = true })
	b.remove(backup)
	b.end(job, success())
	condition := b.awaitReason(backup, metav1.ConditionTrue, v1alpha1.ReasonHeld)
	if !strings.Contains(condition.Message, "set spec.hold: false") {
		t.Errorf("message %s", condition.Message)
	}
	if _, err := b.store.Stat(t.Context(), key); err != nil {
		t.Errorf("the data of a held backup: %v", err)
	}
	b.change(backup, func() { backup.Spec.Hold = false })
	b.eventuallyGone(backup)
	if _, err := b.store.Stat(t.Context(), key); err == nil {
		t.Error("the data of a backup that was let go is there")
	}
}

func TestADeletionWaitsForAStoreThatIsAwayUntilThePersonLetsTheDataStay(t *testing.T) {
	b := newBed(t)
	b.archived("shop")
	backup := b.backup("first", "shop")
	b.end(b.job("first-backup"), success())
	b.awaitReason(backup, metav1.ConditionTrue, v1alpha1.ReasonCompleted)
	buckets.set(b.bucket, nil)
	b.remove(backup)
	condition := b.awaitReason(backup, metav1.ConditionFalse, v1alpha1.ReasonDeletionBlocked)
	if !strings.Contains(condition.Message, "it is away") || !strings.Contains(condition.Message, "deletionPolicy: Retain") {
		t.Errorf("message %s", condition.Message)
	}
	b.change(backup, func() { backup.Spec.DeletionPolicy = v1alpha1.BackupRetain })
	b.eventuallyGone(backup)
}

// TestLockedDataIsRetainedUntilTheBucketLetsItGo where the store refuses to delete it.
func TestLockedDataIsRetainedUntilTheBucketLetsItGo(t *testing.T) {
	b := newBed(t)
	b.archived("shop")
	backup, job := b.underWay("first", "shop")
	key := b.commitBackup(backup.Status.Plan)
	b.end(job, success())
	b.awaitReason(backup, metav1.ConditionTrue, v1alpha1.ReasonCompleted)
	buckets.set(b.bucket, fault.New(b.store, fault.Plan{Before: func(call fault.Call) error {
		if call.Op == "delete" {
			return &objstore.Error{Op: call.Op, Key: call.Key, Bucket: "vault", Code: "ObjectLocked", Kind: objstore.ErrLocked}
		}
		return nil
	}}))
	b.remove(backup)
	condition := b.awaitReason(backup, metav1.ConditionFalse, v1alpha1.ReasonRetained)
	if !strings.Contains(condition.Message, "an object lock or a retention policy keeps it") || !strings.Contains(condition.Message, "deletionPolicy: Retain") {
		t.Errorf("message %s", condition.Message)
	}
	if _, err := b.store.Stat(t.Context(), key); err != nil {
		t.Errorf("the data: %v", err)
	}
	b.change(backup, func() { backup.Spec.DeletionPolicy = v1alpha1.BackupRetain })
	b.eventuallyGone(backup)
}

// TestADeletedNamespaceTakesNoDataAlong, nor is it kept by a Backup: the Secret may go before it, and the repository.
func TestADeletedNamespaceTakesNoDataAlong(t *testing.T) {
	b := newBed(t)
	repo := b.repository("minio")
	b.make(repo)
	b.cluster("shop")
	backup, job := b.underWay("first", "shop")
	key := b.commitBackup(backup.Status.Plan)
	b.change(backup, func() { backup.Spec.Hold = true })
	b.end(job, success())
	b.awaitReason(backup, metav1.ConditionTrue, v1alpha1.ReasonCompleted)
	b.must(b.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}}))
	b.remove(repo)
	b.remove(backup)
	b.eventuallyGone(backup)
	if _, err := b.store.Stat(t.Context(), key); err != nil {
		t.Errorf("the data: %v", err)
	}
}
