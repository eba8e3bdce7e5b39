//go:build integration

package main

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/test/testkit/subset"
)

const day = 24 * time.Hour

// lost fills the bucket as a cluster of another Kubernetes did, which was lost some days ago.
func (b *bed) lost(daysAgo int) {
	b.Helper()
	written := atomic.Bool{}
	b.store = mem.NewAt(func() time.Time {
		if written.Load() {
			return time.Now()
		}
		return time.Now().Add(-time.Duration(daysAgo) * day)
	})
	for _, ago := range []int{daysAgo, daysAgo + 2, daysAgo + 10, daysAgo + 20} {
		b.past("7-old", "shop", "lost-with-its-kubernetes", ago)
	}
	written.Store(true)
}

// knownSince applies the repository's manifest, with a status that says how long its lineages have been known.
func (b *bed) knownSince(ago time.Duration) *v1alpha1.BackupRepository {
	b.Helper()
	buckets.set(b.bucket, nil)
	repo := b.repository("minio")
	repo.Spec.Retention = &v1alpha1.RetentionSpec{RecoveryWindow: "7d", NoticePeriod: atOnce}
	b.make(repo)
	b.eventually(repo, "Unreachable", func() bool { return ready(repo.Status.Conditions, metav1.ConditionFalse, v1alpha1.ReasonUnreachable) })
	if ago > 0 {
		seen := metav1.NewTime(time.Now().Add(-ago).Truncate(time.Second))
		repo.Status.Lineages = []v1alpha1.LineageStatus{{Name: "7-old", FirstSeen: &seen}}
		b.must(b.Status().Update(b.Context(), repo))
	}
	buckets.set(b.bucket, b.store)
	b.change(repo, func() { repo.Spec.Retention.DryRun = false; repo.Labels = map[string]string{"look": "again"} })
	return repo
}

// TestTheManifestsOfALostKubernetesAreAppliedToAnother eight days later, with a window of seven: whatever the bucket has can be
// restored, and what could be restored last can be restored for good.
func TestTheManifestsOfALostKubernetesAreAppliedToAnother(t *testing.T) {
	subset.OneIn(t, 3)
	for _, test := range []struct {
		name      string
		knownFor  time.Duration
		stay      string
		segments  int
		firstSeen string
		would     string // be removed, once the lineage has been known for a day
	}{
		{"just now", 0, "ago10 ago18 ago28 ago8", 40, "Nothing is removed from lineage 7-old before", "7-old/ago28"},
		{"three days ago", 3 * day, "ago10 ago18 ago8", 30, "", ""},
		{"weeks ago", 21 * day, "ago8", 10, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBed(t)
			b.lost(8)
			b.cluster("shop") // the same manifest, and other data
			repo := b.knownSince(test.knownFor)
			b.eventuallyWithin(2*time.Minute, repo, fmt.Sprintf("only %s stay", test.stay), func() bool {
				return repo.Status.Retention != nil && repo.Status.Retention.LastRun != nil && b.ids("7-old") == test.stay && b.segments("7-old") == test.segments
			})
			l := repo.Status.Lineages[0]
			if l.FirstSeen == nil || l.FirstSeen.Time.After(time.Now().Add(-test.knownFor)) || l.Living || l.RecoverableTo == nil {
				t.Errorf("the lineage is shown as %+v", l)
			}
			if got := repo.Status.Retention.Message; !strings.HasPrefix(got, test.firstSeen) || (got == "") != (test.firstSeen == "") {
				t.Errorf("the message is %q", got)
			}
			b.eventually(repo, "status lists what would be removed", func() bool { return strings.Join(repo.Status.Retention.WouldRemove, " ") == test.would })
		})
	}
}

// TestACountAloneRemovesNothingThatOthersWrote: how many the other Kubernetes had promised to keep isn't known here.
func TestACountAloneRemovesNothingThatOthersWrote(t *testing.T) {
	b := newBed(t)
	b.lost(8)
	cluster := b.cluster("shop")
	for _, ago := range []int{1, 5} {
		b.past("7-g1", "shop", string(cluster.UID), ago)
	}
	repo := b.knownSince(21 * day)
	last := int32(1)
	b.change(repo, func() { repo.Spec.Retention = &v1alpha1.RetentionSpec{KeepLast: &last, NoticePeriod: atOnce} })
	b.eventuallyWithin(2*time.Minute, repo, "its own backups are counted", func() bool { return b.ids("7-g1") == "ago1" })
	if got := b.ids("7-old"); got != "ago10 ago18 ago28 ago8" {
		t.Errorf("only %s stay", got)
	}
}

// TestALostClustersLastCopyIsDeletedByTheSentenceInStatus, and not while it is held.
func TestALostClustersLastCopyIsDeletedByTheSentenceInStatus(t *testing.T) {
	subset.OneIn(t, 3)
	b := newBed(t)
	b.lost(8)
	repo := b.knownSince(21 * day)
	b.eventuallyWithin(2*time.Minute, repo, "only the last copy stays, and status says how to give it up", func() bool {
		return b.ids("7-old") == "ago8" && len(repo.Status.Lineages) == 1 && repo.Status.Lineages[0].GiveUp != ""
	})
	found := &v1alpha1.BackupList{}
	b.eventuallyWithin(time.Minute, repo, "only its object stays", func() bool { // each goes a moment after its data
		b.must(b.List(b.Context(), found, client.InNamespace(b.namespace)))
		return len(found.Items) == 1
	})
	last := &found.Items[0]
	b.change(last, func() { last.Spec.Hold = true })
	b.change(repo, func() { repo.Spec.Retention.GiveUp = []string{repo.Status.Lineages[0].GiveUp} })
	b.eventuallyWithin(2*time.Minute, repo, "only what is held stays", func() bool { return b.segments("7-old") == 1 })
	if left := b.ids("7-old"); left != "ago8" {
		t.Errorf("%q stay", left)
	}
	b.change(last, func() { last.Spec.Hold = false })
	b.eventuallyWithin(2*time.Minute, repo, "nothing stays", func() bool { return b.ids("7-old") == "" && b.segments("7-old") == 0 })
}

// TestAFoundBackupOfSomebodyElseIsNotDeleted, though a person asks for it, until the writer has been silent for a day.
func TestAFoundBackupOfSomebodyElseIsNotDeleted(t *testing.T) {
	for _, test := range []struct {
		name      string
		writtenAt int
		deleted   bool
	}{{"written today", 0, false}, {"lost two days ago", 2, true}} {
		t.Run(test.name, func(t *testing.T) {
			b := newBed(t)
			b.lost(test.writtenAt)
			buckets.set(b.bucket, b.store)
			repo := b.repository("minio")
			b.make(repo)
			b.eventually(repo, "the inventory", func() bool { return len(repo.Status.Lineages) == 1 })
			all := b.ids("7-old")
			id := fmt.Sprintf("ago%d", test.writtenAt)
			object := b.found("by-hand", "7-old", id, func(spec *v1alpha1.BackupSpec) { spec.DeletionPolicy = v1alpha1.BackupDelete })
			b.remove(object)
			if test.deleted {
				b.eventuallyGone(object)
				if slices.Contains(strings.Fields(b.ids("7-old")), id) {
					t.Error("its data is still there")
				}
				return
			}
			condition := b.awaitReason(object, metav1.ConditionFalse, v1alpha1.ReasonDeletionBlocked)
			if !strings.Contains(condition.Message, "may belong to somebody else") || !strings.Contains(condition.Message, "deletionPolicy: Retain") || b.ids("7-old") != all {
				t.Errorf("%s; there are %s", condition.Message, b.ids("7-old"))
			}
			b.change(object, func() { object.Spec.DeletionPolicy = v1alpha1.BackupRetain })
			b.eventuallyGone(object)
		})
	}
}
