//go:build integration

package main

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/test/testkit/buckettest"
)

// foundIn are the Backups of the namespace that the catalogue has created for a repository.
func (b *bed) foundIn(repository string) (all []v1alpha1.Backup) {
	b.Helper()
	list := &v1alpha1.BackupList{}
	b.must(b.List(b.Context(), list, client.InNamespace(b.namespace)))
	return slices.DeleteFunc(list.Items, func(o v1alpha1.Backup) bool { return o.Spec.Found == nil || o.Spec.Found.Repository != repository })
}

// TestTheCatalogueOfABucketAsOfATimeHasWhatWasDeletedSince, and nothing of it can be deleted again.
func TestTheCatalogueOfABucketAsOfATimeHasWhatWasDeletedSince(t *testing.T) {
	b := newBed(t)
	filled := time.Date(2026, 3, 4, 5, 0, 0, 0, time.UTC)
	now := filled
	bucket := mem.NewVersioned(func() time.Time { return now })
	_, err := layout.Ensure(t.Context(), bucket, filled)
	b.must(err)
	buckettest.Fill(t, bucket, 4, 5, 6)
	now = filled.Add(time.Hour)
	for info, err := range bucket.List(t.Context(), "", "") {
		b.must(err)
		b.must(bucket.Delete(t.Context(), info.Key))
	}
	buckets.set(b.bucket, bucket)

	past := b.repository("past")
	past.Spec.ReadOnly, past.Spec.AsOf = true, &metav1.Time{Time: filled.Add(time.Minute)}
	present := b.repository("present")
	present.Spec.ReadOnly = true
	b.make(past)
	b.make(present)
	b.eventually(past, "an inventory of the past", func() bool {
		return past.Status.Backups == 1 && len(past.Status.Lineages) == 1 && past.Status.Lineages[0].RecoverableTo != nil
	})
	if l := past.Status.Lineages[0]; l.Name != buckettest.Lineage || !l.RecoverableTo.Time.Equal(buckettest.Minute(6)) {
		t.Errorf("the past has %+v", l)
	}
	b.eventually(present, "nothing at present", func() bool {
		return ready(present.Status.Conditions, metav1.ConditionFalse, v1alpha1.ReasonNoRepository)
	})
	b.eventually(past, "the catalogue", func() bool {
		all := b.foundIn("past")
		return len(all) == 1 && meta.IsStatusConditionTrue(all[0].Status.Conditions, v1alpha1.ConditionSucceeded)
	})
	if all := b.foundIn("present"); present.Status.Backups != 0 || len(all) > 0 {
		t.Errorf("the present has %d backups, and objects %+v", present.Status.Backups, all)
	}

	one := b.foundIn("past")[0]
	b.change(&one, func() { one.Spec.DeletionPolicy = v1alpha1.BackupDelete })
	b.must(b.Delete(t.Context(), &one))
	versions := 0
	for range bucket.Versions(t.Context(), "", "") {
		versions++
	}
	b.awaitReason(&one, metav1.ConditionFalse, v1alpha1.ReasonDeletionBlocked)
	for range bucket.Versions(t.Context(), "", "") {
		versions--
	}
	if versions != 0 {
		t.Errorf("%d versions were written", -versions)
	}
	b.change(&one, func() { one.Spec.DeletionPolicy = v1alpha1.BackupRetain })
	b.eventuallyGone(&one)
}
