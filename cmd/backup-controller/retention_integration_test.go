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

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/postgres"
)

const segmentSize = 1 << 20

// past writes a backup of some days ago and its WAL, as was done by a worker: segment 1000 is today's, ten a day.
func (b *bed) past(lineage, cluster string, uid string, daysAgo int) string {
	b.Helper()
	at := time.Now().Add(-time.Duration(daysAgo) * 24 * time.Hour)
	begin := postgres.LSN(1000-10*daysAgo) * segmentSize
	_, err := layout.Ensure(b.Context(), b.store, at)
	b.must(err)
	_, err = layout.Claim(b.Context(), b.store, layout.Lineage{
		Lineage: lineage, Writer: layout.Writer{UID: uid, Namespace: b.namespace, Name: cluster}, SegmentSize: segmentSize, Created: at,
	})
	b.must(err)
	for i := range postgres.LSN(10) {
		name := postgres.SegmentOf(1, begin+i*segmentSize, segmentSize).Name()
		b.must(wal.New(b.store).Put(b.Context(), lineage, name, []byte(name), wal.Info{Writer: "test"}))
	}
	dir := b.TempDir()
	b.must(os.MkdirAll(filepath.Join(dir, "global"), 0o700))
	b.must(os.WriteFile(filepath.Join(dir, "PG_VERSION"), []byte("17\n"), 0o600))
	b.must(os.WriteFile(filepath.Join(dir, "global/pg_control"), []byte(strings.Repeat("c", 8192)), 0o600))
	source := backup.Source{
		DataDir: dir, Lineage: lineage, SystemIdentifier: "7", PGVersion: "17.5", PGMajor: 17, WALSegmentSize: segmentSize,
		Cluster: backup.Cluster{Namespace: b.namespace, Name: cluster, UID: uid},
		Start: func(context.Context) (backup.Started, error) {
			return backup.Started{LSN: begin + 40, Timeline: 1, Time: at}, nil
		},
		Stop: func(context.Context) (backup.Stopped, error) {
			return backup.Stopped{LSN: begin + 100, Time: at, BackupLabel: "x"}, nil
		},
	}
	id := fmt.Sprintf("ago%d", daysAgo)
	_, err = backup.Write(b.Context(), b.store, source, backup.Options{ID: id})
	b.must(err)
	return id
}

func (b *bed) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// ids are the backups of a lineage that are in the bucket, in order.
func (b *bed) ids(lineage string) string {
	b.Helper()
	entries, err := backup.List(b.Context(), b.store, lineage)
	b.must(err)
	var ids []string
	for _, e := range entries {
		ids = append(ids, e.ID)
	}
	return strings.Join(ids, " ")
}

func (b *bed) segments(lineage string) (n int) {
	for range b.store.List(b.Context(), layout.TimelinePrefix(lineage, 1), "") {
		n++
	}
	return n
}

// found makes a Backup by hand of what lies in the bucket, and waits until its status says what it is.
func (b *bed) found(name, lineage, id string, change func(*v1alpha1.BackupSpec)) *v1alpha1.Backup {
	b.Helper()
	object := &v1alpha1.Backup{}
	object.Name = name
	object.Spec = v1alpha1.BackupSpec{
		Cluster: v1alpha1.LocalReference{Name: "shop"}, Found: &v1alpha1.FoundBackup{Repository: "minio", Lineage: lineage, ID: id},
	}
	if change != nil {
		change(&object.Spec)
	}
	b.make(object)
	b.awaitReason(object, metav1.ConditionTrue, v1alpha1.ReasonFound)
	return object
}

// atOnce removes without showing first what would go.
var atOnce = &metav1.Duration{}

func TestRetentionFirstShowsWhatWouldGoAndThenRemovesItWithItsWAL(t *testing.T) {
	b := newBed(t)
	cluster := b.cluster("shop")
	for _, ago := range []int{1, 5, 20, 40, 60} {
		b.past("7-g1", "shop", string(cluster.UID), ago)
	}
	repo := b.repository("minio")
	last := int32(2)
	repo.Spec.Retention = &v1alpha1.RetentionSpec{KeepLast: &last, DryRun: true}
	b.make(repo)
	b.eventually(repo, "what would go", func() bool {
		return repo.Status.Retention != nil && len(repo.Status.Retention.WouldRemove) == 3 && repo.Status.Retention.LastRun != nil
	})
	if got := strings.Join(repo.Status.Retention.WouldRemove, " "); got != "7-g1/ago60 7-g1/ago40 7-g1/ago20" || b.segments("7-g1") != 50 {
		t.Errorf("would remove %s; %d segments are left", got, b.segments("7-g1"))
	}
	if l := repo.Status.Lineages; len(l) != 1 || !l[0].Living || l[0].Backups != 5 || l[0].RecoverableFrom == nil || l[0].MissingWAL == "" || l[0].StoredBytes == 0 {
		t.Errorf("the lineage is shown as %+v", l)
	}
	kept := b.found("kept-by-hand", "7-g1", "ago60", func(spec *v1alpha1.BackupSpec) { spec.Hold = true })
	gone := b.found("gone-with-its-data", "7-g1", "ago40", func(spec *v1alpha1.BackupSpec) { spec.DeletionPolicy = v1alpha1.BackupRetain })
	b.change(repo, func() { repo.Spec.Retention.DryRun = false })
	b.eventually(repo, "it is shown for a day first", func() bool {
		r := repo.Status.Retention
		return strings.HasPrefix(r.Message, "Nothing is removed from lineage 7-g1 before") && r.Policy == "keepLast: 2" && r.PolicySince != nil
	})
	if got := b.ids("7-g1"); got != "ago1 ago20 ago40 ago5 ago60" || b.segments("7-g1") != 50 {
		t.Errorf("there are %s and %d segments", got, b.segments("7-g1"))
	}
	b.change(repo, func() { repo.Spec.Retention.NoticePeriod = atOnce })
	b.eventuallyGone(gone)
	b.eventually(repo, "the data is gone", func() bool { return b.ids("7-g1") == "ago1 ago5 ago60" && b.segments("7-g1") == 21 })
	b.eventually(kept, "the one that is held", func() bool { return kept.DeletionTimestamp.IsZero() })
	b.eventually(repo, "what was done", func() bool { return repo.Status.Retention.LastRemoval != nil })
}

func TestNothingIsRemovedWhileABackupIsBeingWritten(t *testing.T) {
	b := newBed(t)
	cluster := b.cluster("shop")
	repo := b.repository("minio")
	b.make(repo)
	running := b.backup("running", "shop")
	job := b.job("running-backup")
	for _, ago := range []int{1, 5} {
		b.past("7-g1", "shop", string(cluster.UID), ago)
	}
	last := int32(1)
	b.change(repo, func() { repo.Spec.Retention = &v1alpha1.RetentionSpec{KeepLast: &last, NoticePeriod: atOnce} })
	b.eventually(repo, "it waits", func() bool {
		return repo.Status.Retention != nil && strings.Contains(repo.Status.Retention.Message, "while Backup running is being written")
	})
	if got := b.ids("7-g1"); got != "ago1 ago5" {
		t.Errorf("there are %s", got)
	}
	b.end(job, failure("Broken", "it broke", true))
	b.awaitReason(running, metav1.ConditionFalse, "Broken")
	b.eventuallyWithin(time.Minute, repo, "removed in the end", func() bool { return b.ids("7-g1") == "ago1" })
}

func TestAReadOnlyRepositoryShowsWhatIsInItAndIsNotWritten(t *testing.T) {
	b := newBed(t)
	for _, ago := range []int{3, 4} {
		b.past("7-old", "gone", "another-uid", ago)
	}
	before := b.count()
	repo := b.repository("minio")
	repo.Spec.ReadOnly = true
	last := int32(1)
	repo.Spec.Retention = &v1alpha1.RetentionSpec{KeepLast: &last, NoticePeriod: atOnce}
	b.make(repo)
	shown := &v1alpha1.BackupList{}
	b.eventually(repo, "what was found", func() bool {
		b.must(b.List(b.Context(), shown, client.InNamespace(b.namespace)))
		for i := range shown.Items {
			if !meta.IsStatusConditionTrue(shown.Items[i].Status.Conditions, v1alpha1.ConditionSucceeded) {
				return false
			}
		}
		return len(shown.Items) == 2 && repo.Status.Catalogue != ""
	})
	one := shown.Items[0]
	if one.Spec.DeletionPolicy != v1alpha1.BackupRetain || one.Spec.Cluster.Name != "gone" || one.Status.Plan.Lineage != "7-old" ||
		one.Status.Plan.ID != one.Spec.Found.ID || one.Status.StopTime == nil || one.Status.Version != "17.5" {
		t.Errorf("got %+v", one)
	}
	if b.count() != before {
		t.Errorf("%d objects have become %d", before, b.count())
	}
	b.remove(&one)
	b.eventuallyGone(&one)
	if b.ids("7-old") != "ago3 ago4" {
		t.Error("deleting a found Backup has deleted its data")
	}
	b.remove(repo)
	b.eventuallyGone(repo)
}

func (b *bed) count() (n int) {
	for range b.store.List(b.Context(), "", "") {
		n++
	}
	return n
}

func TestAClusterCanNotBeBackedUpToAReadOnlyRepository(t *testing.T) {
	b := newBed(t)
	cluster := b.cluster("shop")
	b.past("7-g1", "shop", string(cluster.UID), 1)
	repo := b.repository("minio")
	repo.Spec.ReadOnly = true
	b.make(repo)
	refused := b.backup("refused", "shop")
	b.awaitReason(refused, metav1.ConditionFalse, v1alpha1.ReasonReadOnly)
	other := b.repository("nothing-there")
	other.Spec.S3.Bucket, other.Spec.ReadOnly = b.bucket+"-2", true
	buckets.set(other.Spec.S3.Bucket, anotherBed(t).store)
	b.make(other)
	b.eventually(other, "nothing there", func() bool {
		ready := meta.FindStatusCondition(other.Status.Conditions, v1alpha1.ConditionReady)
		return ready != nil && ready.Reason == v1alpha1.ReasonNoRepository
	})
}

func TestABackupOfAClusterThatIsHereIsNotFoundUnlessAllAreAskedFor(t *testing.T) {
	b := newBed(t)
	cluster := b.cluster("shop")
	b.past("7-g1", "shop", string(cluster.UID), 1)
	repo := b.repository("minio")
	b.make(repo)
	b.eventually(repo, "looked through", func() bool { return repo.Status.LastInventoryTime != nil && repo.Status.Backups == 1 })
	shown := &v1alpha1.BackupList{}
	b.must(b.List(b.Context(), shown, client.InNamespace(b.namespace)))
	if len(shown.Items) != 0 {
		t.Errorf("found %+v", shown.Items)
	}
	b.change(repo, func() { repo.Spec.Catalogue = v1alpha1.CatalogueAll })
	b.eventually(repo, "all are shown", func() bool {
		b.must(b.List(b.Context(), shown, client.InNamespace(b.namespace)))
		return len(shown.Items) == 1
	})
	b.change(repo, func() { repo.Spec.Catalogue = v1alpha1.CatalogueOff })
	b.eventuallyGone(&shown.Items[0])
}

func TestRetentionThatKeepsNothingIsRefused(t *testing.T) {
	b := newBed(t)
	for name, spec := range map[string]v1alpha1.RetentionSpec{
		"spec.retention keeps nothing": {DryRun: true},
		"a period of spec.retention":   {RecoveryWindow: "7 days"},
	} {
		repo := b.repository("bad")
		repo.Namespace, repo.Spec.Retention = b.namespace, &spec
		if err := b.Create(b.Context(), repo); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
