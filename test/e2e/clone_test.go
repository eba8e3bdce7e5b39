//go:build e2e

package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

// TestARunningClusterIsClonedUnderAnotherNameAndIsNotDisturbed clones one that archives, into one that archives to the same repository.
func TestARunningClusterIsClonedUnderAnotherNameAndIsNotDisturbed(t *testing.T) {
	onlyInFull(t, "the agent's own tests clone clusters")
	t.Parallel()
	b := newBed(t, "minio")
	orders := b.Cluster("orders", 17)
	b.SQL("orders", "CREATE ROLE reporting LOGIN PASSWORD 'kept as it was'", "CREATE TABLE orders (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, note text)",
		"INSERT INTO orders (note) SELECT repeat(md5(g::text), 10) FROM generate_series(1, 50000) g", "ALTER TABLE orders OWNER TO app")
	want := b.SQL("orders", checksum)

	shop := b.NewCluster("shop", 17)
	shop.Spec.Bootstrap = &v1alpha1.Bootstrap{Clone: &v1alpha1.BootstrapClone{Cluster: v1alpha1.LocalReference{Name: "orders"}}}
	b.Must(b.Create(t.Context(), shop))
	b.AwaitTrue(shop, v1alpha1.ConditionReady)
	if got := b.SQL("shop", checksum); got != want {
		t.Errorf("cloned %q, want %q", got, want)
	}
	if out, err := b.login("reporting", "kept as it was", "app"); err != nil || strings.TrimSpace(out) != "reporting" {
		t.Errorf("a role can't log in with the password that it had: %q, %v", out, err)
	}
	app := &corev1.Secret{ObjectMeta: b.Meta(shop.Status.Connection.AppSecret)}
	b.Must(b.Get(t.Context(), client.ObjectKeyFromObject(app), app))
	b.awaitLogin(shop, "app", string(app.Data["password"]), "app")
	b.Must(b.Get(t.Context(), client.ObjectKeyFromObject(orders), orders))
	c := shop.Status.Clone
	if c == nil || c.CompletedAt == nil || c.ClusterUID != orders.UID || shop.Status.DataGeneration == orders.Status.DataGeneration {
		t.Errorf("status.clone: %+v; data generations %s and %s", c, shop.Status.DataGeneration, orders.Status.DataGeneration)
	}
	if left := b.SQL("orders", "SELECT (SELECT count(*) FROM pg_stat_replication) + (SELECT count(*) FROM pg_replication_slots)"); strings.TrimSpace(left) != "0" {
		t.Errorf("%s walsenders and slots are left on the source", left)
	}
}
