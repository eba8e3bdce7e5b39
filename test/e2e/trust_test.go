//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/place"
)

// inVault makes an encrypted repository, and a cluster that archives there.
func (b *bed) inVault(version int32) *v1alpha1.PostgresCluster {
	b.Helper()
	b.Must(b.Create(b.Context(), &corev1.Secret{ObjectMeta: b.Meta("keys"), StringData: map[string]string{"2026-01": strings.Repeat("0123456789abcdef", 4)}}))
	b.MakeRepository("vault", b.Store["AWS_SECRET_ACCESS_KEY"], func(spec *v1alpha1.BackupRepositorySpec) {
		spec.Encryption = &v1alpha1.EncryptionSpec{SecretName: "keys"}
	})
	cluster := b.NewCluster("shop", version)
	cluster.Spec.Archive.Repository.Name = "vault"
	b.Must(b.Create(b.Context(), cluster))
	b.AwaitTrue(cluster, v1alpha1.ConditionReady)
	return cluster
}

// verified makes a backup of a type, and waits until every object of it was read.
func (b *bed) verified(name string, kind v1alpha1.BackupType) *v1alpha1.Backup {
	b.Helper()
	backup := &v1alpha1.Backup{ObjectMeta: b.Meta(name), Spec: v1alpha1.BackupSpec{
		Cluster: v1alpha1.LocalReference{Name: "shop"}, Type: kind, Verify: &v1alpha1.BackupVerify{},
	}}
	b.Must(b.Create(b.Context(), backup))
	b.AwaitTrue(backup, v1alpha1.ConditionSucceeded)
	b.AwaitTrue(backup, v1alpha1.ConditionVerified)
	b.Logf("%s: %s %s", name, place.Condition(backup, v1alpha1.ConditionSucceeded).Message, place.Condition(backup, v1alpha1.ConditionVerified).Message)
	if backup.Status.Type != kind {
		b.Errorf("%s is of type %s", name, backup.Status.Type)
	}
	return backup
}

// TestIncrementalBackupsInAnEncryptedBucketAreVerifiedRestoredAndRetained goes through the life of backups: on 15 what changed
// is known from the LSNs of pages, on 17 from WAL summaries.
func TestIncrementalBackupsInAnEncryptedBucketAreVerifiedRestoredAndRetained(t *testing.T) {
	t.Parallel()
	for _, version := range []int32{15, 17} {
		t.Run(fmt.Sprint("PostgreSQL ", version), func(t *testing.T) {
			if version == 15 {
				onlyInFull(t, "the agent's tests run on 15, too")
			}
			t.Parallel()
			b := newBed(t, "minio")
			b.inVault(version)
			b.SQL("shop", "CREATE TABLE t AS SELECT n, md5(n::text) FROM generate_series(1, 300000) AS n")
			b.SQL("shop", "VACUUM FREEZE t") // else that would change every page later on
			base := b.verified("base", v1alpha1.BackupFull)
			b.SQL("shop", "UPDATE t SET md5 = 'changed' WHERE n % 100000 = 0")
			next := b.verified("next", v1alpha1.BackupIncremental)
			if next.Status.StoredBytes*3 > base.Status.StoredBytes {
				t.Errorf("the incremental has %d bytes, the full one %d", next.Status.StoredBytes, base.Status.StoredBytes)
			}
			want := b.SQL("shop", sum)
			b.everythingIsSealed()

			b.Must(b.Delete(t.Context(), base)) // the other one points into its packs
			b.AwaitGone(base)
			restore := b.restoreOf("copy", nil)
			restore.Spec.Source = v1alpha1.RestoreSource{Backup: &v1alpha1.LocalReference{Name: "next"}}
			b.Must(b.Create(t.Context(), restore))
			b.AwaitTrue(restore, v1alpha1.ConditionSucceeded)
			if got := b.SQL("copy", sum); got != want {
				t.Errorf("the copy has %s instead of %s", got, want)
			}

			last := b.verified("last", v1alpha1.BackupFull)
			vault := &v1alpha1.BackupRepository{ObjectMeta: b.Meta("vault")}
			b.Merge(vault, `{"spec":{"retention":{"keepLast":1,"noticePeriod":"0s"}}}`)
			b.AwaitGone(next)
			b.Must(b.Get(t.Context(), client.ObjectKeyFromObject(last), last))
			b.AwaitTrue(vault, v1alpha1.ConditionReady)
		})
	}
}

// everythingIsSealed looks at the objects of lineages as they lie in the bucket.
func (b *bed) everythingIsSealed() {
	b.Helper()
	store, seen := b.BucketOf("vault"), 0
	for object, err := range store.List(b.Context(), "lineages/", "") {
		b.Must(err)
		header := make([]byte, 16)
		_, err := store.ReadAt(b.Context(), object.Key, header, 0)
		b.Must(err)
		if string(header[8:15]) != "HOWDAHS" {
			b.Errorf("%s lies there open: %q", object.Key, header)
		}
		seen++
	}
	if seen == 0 {
		b.Error("nothing lies in the bucket")
	}
}
