//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"

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

// TestAnImportThatFollowsItsSourceLosesNothing writes numbered rows to the source until it is closed, and to the cluster from then on.
func TestAnImportThatFollowsItsSourceLosesNothing(t *testing.T) {
	onlyInFull(t, "the agent imports from real servers in its own tests")
	t.Parallel()
	b := newBed(t, "minio")
	legacy := b.NewCluster("legacy", 15)
	legacy.Spec.PostgreSQL.Parameters = map[string]v1alpha1.ParameterValue{"wal_level": "logical"}
	b.Must(b.Create(t.Context(), legacy))
	b.AwaitTrue(legacy, v1alpha1.ConditionReady)
	b.SQL("legacy", "CREATE ROLE import_reader LOGIN REPLICATION PASSWORD 'of the reader' IN ROLE pg_read_all_data, app", "GRANT CONNECT, CREATE ON DATABASE app TO import_reader")
	b.Must(b.Create(t.Context(), &corev1.Secret{ObjectMeta: b.Meta("legacy-source"), StringData: map[string]string{"password": "of the reader"}}))
	w := b.startWriter("legacy")

	shop := b.follows("shop", legacy)
	w.awaitAcks(20)
	b.SQL("legacy", "REVOKE CONNECT ON DATABASE app FROM PUBLIC, app")
	b.Merge(shop, `{"spec":{"bootstrap":{"import":{"online":{"cutover":true}}}}}`)
	b.AwaitTrue(shop, v1alpha1.ConditionReady)
	b.SQL("shop", "INSERT INTO numbers VALUES (-1)")
	served := time.Now()
	acks := w.acks()
	t.Logf("%d rows were acknowledged by the source; the cluster acknowledged the next one %s after the last of them", len(acks), served.Sub(acks[len(acks)-1].At).Round(time.Second/10))

	present := map[string]bool{}
	for _, number := range strings.Fields(b.SQL("shop", "SELECT n FROM numbers")) {
		present[number] = true
	}
	if before, lost := w.missing(acks, present, time.Now()); lost > 0 || before == 0 {
		t.Errorf("%d of %d acknowledged rows are lost", lost, before)
	}
	if i := shop.Status.Import; i == nil || i.Online == nil || i.Online.State != v1alpha1.OnlineImportCutOver || i.Online.ComparedRows < int64(len(acks)) {
		t.Errorf("status.import: %+v", i)
	}
	b.nothingOnSource()

	other := b.follows("other", legacy)
	b.Must(b.Delete(t.Context(), other))
	b.AwaitGone(other)
	b.nothingOnSource()
}

// follows creates a cluster that follows the source until a cutover is requested.
func (b *bed) follows(name string, source *v1alpha1.PostgresCluster) *v1alpha1.PostgresCluster {
	b.Helper()
	cluster := b.NewCluster(name, 17)
	cluster.Spec.Bootstrap = &v1alpha1.Bootstrap{Import: &v1alpha1.BootstrapImport{
		Source: v1alpha1.ImportSource{
			Host: source.Status.Connection.Host, User: "import_reader", PasswordSecret: &v1alpha1.ImportSecretKey{Name: source.Name + "-source"},
			CASecret: &v1alpha1.ImportSecretKey{Name: source.Status.Connection.AppSecret},
		},
		Database: "app", Owner: "app", Databases: []v1alpha1.ImportDatabase{{Name: "app"}}, Online: &v1alpha1.OnlineImport{},
	}}
	b.Must(b.Create(b.Context(), cluster))
	b.Await(cluster, "the import to follow its source", func() bool {
		c := place.Condition(cluster, v1alpha1.ConditionReady)
		return c != nil && c.Reason == v1alpha1.ReasonFollowingSource
	})
	return cluster
}

// nothingOnSource expects no publication, slot or session of an import on cluster legacy.
func (b *bed) nothingOnSource() {
	b.Helper()
	left := b.SQL("legacy", `SELECT (SELECT count(*) FROM pg_replication_slots WHERE slot_name LIKE 'howdah_import_%') ||
		' slots, ' || (SELECT count(*) FROM pg_publication WHERE pubname LIKE 'howdah_import_%') ||
		' publications, ' || (SELECT count(*) FROM pg_stat_activity WHERE usename = 'import_reader') || ' sessions'`)
	if strings.TrimSpace(left) != "0 slots, 0 publications, 0 sessions" {
		b.Errorf("on the source are left: %s", left)
	}
}
