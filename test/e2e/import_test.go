//go:build e2e

package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/place"
)

const checksum = "SELECT count(*) || ' ' || md5(string_agg(t::text, ',' ORDER BY id)) FROM orders t"

// TestDatabasesOfAServerThatRunsAreImportedWithTheirRoles has a cluster of an older version play the foreign server.
func TestDatabasesOfAServerThatRunsAreImportedWithTheirRoles(t *testing.T) {
	onlyInFull(t, "the agent imports from real servers in its own tests")
	t.Parallel()
	b := newBed(t, "minio")
	legacy := b.Cluster("legacy", 15)
	b.SQL("legacy", "CREATE ROLE import_reader LOGIN PASSWORD 'of the reader' IN ROLE pg_read_all_data", "CREATE ROLE reporting LOGIN PASSWORD 'kept as it was'",
		"CREATE TABLE orders (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, note text)", "INSERT INTO orders (note) SELECT repeat(md5(g::text), 10) FROM generate_series(1, 50000) g",
		"ALTER TABLE orders OWNER TO app", "GRANT SELECT ON orders TO reporting")
	want := b.SQL("legacy", checksum)
	b.Must(b.Create(t.Context(), &corev1.Secret{ObjectMeta: b.Meta("legacy-source"), StringData: map[string]string{"password": "of the reader"}}))

	shop := b.NewCluster("shop", 17)
	shop.Spec.Bootstrap = &v1alpha1.Bootstrap{Import: &v1alpha1.BootstrapImport{
		Source: v1alpha1.ImportSource{
			Host: legacy.Status.Connection.Host, User: "import_reader", PasswordSecret: &v1alpha1.ImportSecretKey{Name: "legacy-source"},
			CASecret: &v1alpha1.ImportSecretKey{Name: legacy.Status.Connection.AppSecret},
		},
		Database: "app", Owner: "app", Connections: 2,
	}}
	b.Must(b.Create(t.Context(), shop))
	b.Await(shop, "the import to show", func() bool {
		c := place.Condition(shop, v1alpha1.ConditionReady)
		return c != nil && (c.Reason == v1alpha1.ReasonImporting || c.Reason == v1alpha1.ReasonRunning)
	})
	b.AwaitTrue(shop, v1alpha1.ConditionReady)
	if got := b.SQL("shop", checksum); got != want {
		t.Errorf("imported %q, want %q", got, want)
	}
	if out, err := b.login("reporting", "kept as it was", "app"); err != nil || strings.TrimSpace(out) != "reporting" {
		t.Errorf("a role can't log in with the password that it had: %q, %v", out, err)
	}
	app := &corev1.Secret{ObjectMeta: b.Meta(shop.Status.Connection.AppSecret)}
	b.Must(b.Get(t.Context(), client.ObjectKeyFromObject(app), app))
	b.awaitLogin(shop, "app", string(app.Data["password"]), "app")
	i := shop.Status.Import
	if i == nil || i.CompletedAt == nil || !strings.HasPrefix(i.SourceVersion, "15.") || len(i.RolesWithoutPassword) > 0 || len(i.Databases) != 1 {
		t.Errorf("status.import: %+v", i)
	}
	if left := b.SQL("legacy", "SELECT count(*) FROM pg_stat_activity WHERE usename = 'import_reader'"); strings.TrimSpace(left) != "0" {
		t.Errorf("%s sessions are left on the source", left)
	}
}
