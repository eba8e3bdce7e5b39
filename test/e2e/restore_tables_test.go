//go:build e2e

package e2e

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/place"
)

// restoreInto creates a Restore into the cluster shop, as of the restore point, and waits until it has ended.
func (b *bed) restoreInto(name string, change func(*v1alpha1.IntoCluster)) *v1alpha1.Restore {
	b.Helper()
	into := &v1alpha1.IntoCluster{Name: "shop", Tables: []v1alpha1.QualifiedName{"public.orders"}}
	change(into)
	restore := &v1alpha1.Restore{ObjectMeta: b.Meta(name), Spec: v1alpha1.RestoreSpec{
		Source:      v1alpha1.RestoreSource{Cluster: &v1alpha1.ClusterSource{Name: "shop"}},
		Target:      &v1alpha1.RestoreTarget{RestorePoint: "before"},
		Destination: v1alpha1.RestoreDestination{IntoCluster: into},
	}}
	b.Must(b.Create(b.Context(), restore))
	b.Await(restore, "the end of Restore "+name, func() bool { return restore.Status.CompletedAt != nil })
	b.Logf("%s: %+v", name, place.Condition(restore, v1alpha1.ConditionSucceeded))
	return restore
}

// nothingOfCopies expects that nothing is left of any temporary copy but the ConfigMaps of Jobs, which the Restores own.
func (b *bed) nothingOfCopies() {
	b.Helper()
	for _, list := range []client.ObjectList{
		&v1alpha1.PostgresClusterList{}, &v1alpha1.RestoreList{}, &batchv1.JobList{}, &corev1.PodList{}, &corev1.PersistentVolumeClaimList{}, &corev1.SecretList{},
	} {
		b.Must(b.List(b.Context(), list, client.InNamespace(b.Namespace)))
		b.Must(meta.EachListItem(list, func(object runtime.Object) error {
			if name := object.(client.Object).GetName(); strings.Contains(name, "-copy-") {
				b.Errorf("%T %s is left", object, name)
			}
			return nil
		}))
	}
}

// TestADroppedTableIsBroughtBackWhileOthersContinue drops a table, and brings it back while a client writes to another one.
func TestADroppedTableIsBroughtBackWhileOthersContinue(t *testing.T) {
	t.Parallel()
	b := newBed(t, "minio")
	b.Cluster("shop", 17)
	b.SQL("shop", "SET ROLE app", "CREATE TABLE customers (id int PRIMARY KEY)", "INSERT INTO customers SELECT generate_series(1, 100)",
		"CREATE TABLE orders (id bigserial PRIMARY KEY, customer int REFERENCES customers, note text)",
		"INSERT INTO orders (customer, note) SELECT n % 100 + 1, md5(n::text) FROM generate_series(1, 20000) AS n",
		"CREATE INDEX orders_customer ON orders (customer)", "CREATE VIEW recent AS SELECT * FROM orders WHERE id > 19000")
	b.Backup("base", "shop")
	b.SQL("shop", "SET ROLE app", "INSERT INTO orders (customer, note) VALUES (1, 'after the backup')")
	digest := "SELECT count(*), md5(string_agg(o::text, ',' ORDER BY id)) FROM orders AS o"
	want := b.SQL("shop", digest)
	b.SQL("shop", "SELECT pg_create_restore_point('before')")
	b.SQL("shop", "DROP TABLE orders CASCADE")
	writer := b.startWriter("shop")
	b.SQL("shop", "SET ROLE app", "INSERT INTO customers VALUES (101)")
	awaitArchived(b)
	started := b.SQL("shop", "SELECT pg_postmaster_start_time()")

	back := b.restoreInto("back", func(*v1alpha1.IntoCluster) {})
	condition := place.Condition(back, v1alpha1.ConditionSucceeded)
	if condition.Status != metav1.ConditionTrue || back.Status.IntoCluster.Rows != 20001 || !strings.Contains(condition.Message, "view public.recent") {
		t.Errorf("it ended with %+v, %+v", condition, back.Status.IntoCluster)
	}
	if got := b.SQL("shop", digest); got != want {
		t.Errorf("the table has %s, and had %s", got, want)
	}
	if got := b.SQL("shop", "SELECT (SELECT count(*) FROM customers), (SELECT count(*) FROM pg_indexes WHERE tablename = 'orders'), "+
		"(SELECT tableowner FROM pg_tables WHERE tablename = 'orders'), (SELECT count(*) FROM pg_constraint WHERE conrelid = 'orders'::regclass AND contype = 'f')"); got != "101|2|app|1" {
		t.Errorf("there is %s", got)
	}
	b.nothingOfCopies()

	again := b.restoreInto("again", func(*v1alpha1.IntoCluster) {})
	if condition := place.Condition(again, v1alpha1.ConditionSucceeded); condition.Reason != v1alpha1.ReasonObjectExists || again.Status.IntoCluster.CopyUID != "" {
		t.Errorf("a table that exists: %+v", condition)
	}
	beside := b.restoreInto("beside", func(into *v1alpha1.IntoCluster) { into.IntoSchema = "restored" })
	if got := b.SQL("shop", strings.Replace(digest, "FROM orders", "FROM restored.orders", 1)); beside.Status.IntoCluster.Role != "app" || got != want {
		t.Errorf("restored.orders has %s, and had %s", got, want)
	}
	b.nothingOfCopies()
	if now := b.SQL("shop", "SELECT pg_postmaster_start_time()"); now != started {
		t.Errorf("shop was started at %s, and before at %s", now, started)
	}
	writer.judge()
}
