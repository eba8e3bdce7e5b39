//go:build e2e

package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/place"
)

// app reads the Secret of the application.
func (b *bed) app(cluster string) map[string][]byte {
	b.Helper()
	secret := &corev1.Secret{}
	b.Must(b.Get(b.Context(), client.ObjectKey{Namespace: b.Namespace, Name: cluster + "-app"}, secret))
	return secret.Data
}

// lose deletes a cluster after its last backup, and then everything in its namespace, Secrets and all.
func (b *bed) lose(cluster *v1alpha1.PostgresCluster) {
	b.Helper()
	b.Must(b.Delete(b.Context(), cluster))
	b.AwaitGone(cluster)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.Namespace}}
	b.Must(b.Delete(b.Context(), namespace))
	b.AwaitGone(namespace)
}

// TestFromABareBucketTheClusterIsBackWithItsRowsAndPasswords loses everything but the bucket and the key.
func TestFromABareBucketTheClusterIsBackWithItsRowsAndPasswords(t *testing.T) {
	t.Parallel()
	old := newBed(t, "minio")
	shop := old.inVault(17)
	old.Must(old.Create(t.Context(), &corev1.Secret{ObjectMeta: old.Meta("reporting"), StringData: map[string]string{"password": "of-then"}}))
	old.Merge(shop, `{"spec":{"roles":[{"name":"reporting","passwordSecret":{"name":"reporting"}}]}}`)
	old.AwaitTrue(shop, v1alpha1.ConditionRolesAndDatabasesReady)
	old.SQL("shop", "CREATE TABLE t AS SELECT n, md5(n::text) FROM generate_series(1, 20000) AS n")
	old.Backup("base", "shop")
	old.SQL("shop", "INSERT INTO t SELECT n, 'after the backup' FROM generate_series(1, 1000) AS n")
	want, app := old.SQL("shop", sum), old.app("shop")
	old.Must(old.Get(t.Context(), keyOf(shop), shop))
	lineage := shop.Status.Archive.Lineage
	old.lose(shop)

	b := newBed(t, "minio")
	b.Must(b.Create(t.Context(), &corev1.Secret{ObjectMeta: b.Meta("keys"), StringData: map[string]string{"2026-01": strings.Repeat("0123456789abcdef", 4)}}))
	b.MakeRepository("vault", b.Store["AWS_SECRET_ACCESS_KEY"], func(spec *v1alpha1.BackupRepositorySpec) {
		spec.S3.Prefix = old.Namespace + "/vault"
		spec.Encryption = &v1alpha1.EncryptionSpec{SecretName: "keys"}
	})
	restore := &v1alpha1.Restore{ObjectMeta: b.Meta("back"), Spec: v1alpha1.RestoreSpec{
		Source:      v1alpha1.RestoreSource{Repository: &v1alpha1.RepositorySource{Name: "vault"}},
		Destination: v1alpha1.RestoreDestination{NewCluster: &v1alpha1.NewCluster{Name: "shop"}},
	}}
	b.Must(b.Create(t.Context(), restore))
	b.AwaitTrue(restore, v1alpha1.ConditionSucceeded)
	t.Log(place.Condition(restore, v1alpha1.ConditionSucceeded).Message)
	if got := b.SQL("shop", sum); got != want {
		t.Errorf("the table has %s, not %s", got, want)
	}

	back := &v1alpha1.PostgresCluster{ObjectMeta: b.Meta("shop")}
	b.AwaitTrue(back, v1alpha1.ConditionRolesAndDatabasesReady)
	if got := b.app("shop"); string(got["password"]) != string(app["password"]) {
		t.Error("the application's password is another one")
	}
	b.awaitLogin(back, string(app["username"]), string(app["password"]), string(app["dbname"]))
	b.awaitLogin(back, "reporting", "of-then", string(app["dbname"]))
	b.AwaitTrue(back, v1alpha1.ConditionArchiving)
	b.Await(back, "a lineage of its own", func() bool {
		return back.Status.Archive != nil && back.Status.Archive.Lineage != "" && back.Status.Archive.Lineage != lineage
	})
}
