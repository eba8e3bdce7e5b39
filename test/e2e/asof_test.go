//go:build e2e

package e2e

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/minio/lockedbucket"
	"howdah.dev/howdah/pkg/objstore/open"
	"howdah.dev/howdah/test/testkit/place"
)

// TestABucketThatWasWipedIsRestoredAsItWas: the cluster is lost, and whoever has its credentials has deleted or overwritten every object of
// its repository. A BackupRepository as of a time before finds the backup, and a Restore brings back every row.
func TestABucketThatWasWipedIsRestoredAsItWas(t *testing.T) {
	onlyInFull(t, "the catalogue, a Restore and the command line have tests of their own")
	t.Parallel()
	b := newBed(t, "minio")
	b.Store["S3_BUCKET"] = "versions-" + b.Namespace
	if _, made := lockedbucket.Make(t, b.ConfigOf("kept")); !made {
		t.Fatal("the server keeps no versions")
	}
	secret := b.Store["AWS_SECRET_ACCESS_KEY"]
	b.MakeRepository("kept", secret)
	shop := b.NewCluster("shop", 17)
	shop.Spec.Archive.Repository.Name = "kept"
	b.Must(b.Create(t.Context(), shop))
	b.AwaitTrue(shop, v1alpha1.ConditionReady)
	b.SQL("shop", "CREATE TABLE t AS SELECT n, md5(n::text) FROM generate_series(1, 20000) AS n")
	b.Backup("base", "shop")
	b.SQL("shop", "INSERT INTO t SELECT n, 'after the backup' FROM generate_series(1, 1000) AS n")
	want := b.SQL("shop", sum)
	awaitArchived(b)
	b.Merge(shop, `{"spec":{"deletionPolicy":{"finalBackup":false,"volumes":"Delete"}}}`)
	b.Must(b.Delete(t.Context(), shop))
	b.AwaitGone(shop)
	asOf := b.wipe("kept")

	b.MakeRepository("before", secret, func(spec *v1alpha1.BackupRepositorySpec) {
		spec.S3.Prefix = b.Namespace + "/kept"
		spec.ReadOnly, spec.AsOf = true, &metav1.Time{Time: asOf}
	})
	found := b.foundIn("before")
	restore := &v1alpha1.Restore{ObjectMeta: b.Meta("back"), Spec: v1alpha1.RestoreSpec{
		Source:      v1alpha1.RestoreSource{Backup: &v1alpha1.LocalReference{Name: found}},
		Destination: v1alpha1.RestoreDestination{NewCluster: &v1alpha1.NewCluster{Name: "back"}},
	}}
	b.Must(b.Create(t.Context(), restore))
	b.AwaitTrue(restore, v1alpha1.ConditionSucceeded)
	t.Log(place.Condition(restore, v1alpha1.ConditionSucceeded).Message)
	if got := b.SQL("back", sum); got != want {
		t.Errorf("the table has %s, not %s", got, want)
	}
}

// wipe deletes and overwrites every object of a repository, and returns a whole second before that and after all that was put.
func (b *bed) wipe(repository string) time.Time {
	b.Helper()
	store, err := open.Plain(b.Context(), b.ConfigOf(repository))
	b.Must(err)
	var keys []string
	last := time.Time{}
	for info, err := range store.List(b.Context(), "", "") {
		b.Must(err)
		keys = append(keys, info.Key)
		if info.Modified.After(last) {
			last = info.Modified
		}
	}
	asOf := last.Truncate(time.Second).Add(time.Second)
	for now := last; !now.After(asOf); { // by the clock of the server
		b.Must(store.Put(b.Context(), "tick", nil, objstore.PutOptions{}))
		info, err := store.Stat(b.Context(), "tick")
		b.Must(err)
		now = info.Modified
	}
	for i, key := range keys {
		if i%2 == 0 {
			b.Must(store.Delete(b.Context(), key))
		} else {
			b.Must(store.Put(b.Context(), key, []byte("pay"), objstore.PutOptions{}))
		}
	}
	return asOf
}

// foundIn is the Backup that the catalogue creates for the one backup of a repository.
func (b *bed) foundIn(repository string) (name string) {
	b.Helper()
	repo := &v1alpha1.BackupRepository{ObjectMeta: b.Meta(repository)}
	b.Await(repo, "a found Backup", func() bool {
		all := &v1alpha1.BackupList{}
		b.Must(b.List(b.Context(), all, client.InNamespace(b.Namespace)))
		for i := range all.Items {
			if found := all.Items[i].Spec.Found; found != nil && found.Repository == repository {
				name = all.Items[i].Name
			}
		}
		return name != ""
	})
	backup := &v1alpha1.Backup{ObjectMeta: b.Meta(name)}
	b.AwaitTrue(backup, v1alpha1.ConditionSucceeded)
	return name
}
