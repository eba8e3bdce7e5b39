//go:build e2e

package e2e

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/place"
)

// standbyOf makes a standby of what is in the repository `repo` of another namespace.
func (b *bed) standbyOf(source *bed, change func(*v1alpha1.PostgresCluster)) *v1alpha1.PostgresCluster {
	b.Helper()
	b.MakeRepository("there", b.Store["AWS_SECRET_ACCESS_KEY"], func(spec *v1alpha1.BackupRepositorySpec) {
		spec.S3.Prefix, spec.ReadOnly = source.Namespace+"/repo", true
	})
	b.MakeRepository("repo", b.Store["AWS_SECRET_ACCESS_KEY"])
	standby := b.NewCluster("shop", 17)
	standby.Spec.Standby = &v1alpha1.Standby{Source: v1alpha1.StandbySource{Repository: v1alpha1.StandbyRepository{Name: "there"}}}
	if change != nil {
		change(standby)
	}
	b.Must(b.Create(b.Context(), standby))
	b.AwaitTrue(standby, v1alpha1.ConditionFollowsSource)
	return standby
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// standbyHas is how many rows a table has in the pod of a standby; -1: it doesn't answer.
func (b *bed) standbyHas(table string) string {
	pods := &corev1.PodList{}
	b.Must(b.List(b.Context(), pods, client.InNamespace(b.Namespace), client.MatchingLabels{v1alpha1.LabelComponent: "init"}))
	for i := range pods.Items {
		if pods.Items[i].Status.Phase != corev1.PodRunning {
			continue
		}
		out, err := b.Exec(pods.Items[i].Name, "psql", "-h", "/var/run/postgresql", "-U", "postgres", "-d", "app", "-Atc", "SELECT count(*) FROM "+table)
		if err == nil {
			return strings.TrimSpace(out)
		}
	}
	return "-1"
}

// TestAStandbyTakesOverWhenItsSourceIsLost loses the namespace of the source while a client writes. What was acknowledged until the last segment or piece was
// archived must be there.
func TestAStandbyTakesOverWhenItsSourceIsLost(t *testing.T) {
	t.Parallel()
	source := newBed(t, "minio")
	often := int32(1)
	shop := source.NewCluster("shop", 17)
	shop.Spec.Archive.WALShipIntervalSeconds = &often
	source.Must(source.Create(t.Context(), shop))
	source.AwaitTrue(shop, v1alpha1.ConditionReady)
	source.SQL("shop", "CREATE TABLE t AS SELECT n, md5(n::text) FROM generate_series(1, 20000) AS n")
	source.Backup("base", "shop")
	b := source.elsewhere()
	standby := b.standbyOf(source, nil)

	w := source.startWriter("shop")
	w.awaitAcks(200)
	source.Await(shop, "an archive that has some of the rows", func() bool {
		a := shop.Status.Archive
		return a != nil && a.CompleteUntil != nil && a.CompleteUntil.After(w.acks()[100].At)
	})
	acks, complete := w.acks(), shop.Status.Archive.CompleteUntil.Time
	lineage := shop.Status.Archive.Lineage
	source.Must(source.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: source.Namespace}}, client.GracePeriodSeconds(0)))

	began := time.Now()
	b.Merge(standby, `{"spec":{"standby":{"promote":"EndOfArchive"}}}`)
	b.AwaitTrue(standby, v1alpha1.ConditionReady)
	t.Logf("Ready after %s", time.Since(began))
	present := map[string]bool{}
	for _, n := range strings.Fields(b.SQL("shop", "SELECT n FROM numbers")) {
		present[n] = true
	}
	lost := 0
	for _, ack := range acks {
		if ack.At.Before(complete) && !present[itoa(ack.Row.N)] {
			lost++
		}
	}
	if lost > 0 {
		t.Errorf("%d rows are lost that were acknowledged before %s, until when the source said that its archive is complete", lost, complete)
	}
	if got := b.SQL("shop", "SELECT count(*) FROM t"); strings.TrimSpace(got) != "20000" {
		t.Errorf("%s rows of the backup", got)
	}
	b.AwaitTrue(standby, v1alpha1.ConditionArchiving)
	b.Await(standby, "a lineage of its own", func() bool {
		a := standby.Status.Archive
		return a != nil && a.Lineage != "" && a.Lineage != lineage
	})
	if standby.Status.Standby.PromotedAt == nil || standby.Status.Standby.Lineage != lineage {
		t.Errorf("status.standby: %+v", standby.Status.Standby)
	}
	b.AwaitTrue(standby, v1alpha1.ConditionFirstBackupTaken)
}

// TestAStandbyFollowsWithoutControllersAndSurvivesItsPod takes the db-controller and the pods of the standby away, again and again.
func TestAStandbyFollowsWithoutControllersAndSurvivesItsPod(t *testing.T) {
	onlyInFull(t, "it takes the db-controller away from all others")
	source := newBed(t, "minio")
	source.Cluster("shop", 17)
	source.SQL("shop", "CREATE TABLE t (n int)")
	source.Backup("base", "shop")
	b := source.elsewhere()
	standby := b.standbyOf(source, nil)
	scale := func(replicas string) {
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "howdah-system", Name: "db-controller"}}
		b.Must(b.Patch(context.Background(), deployment, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":`+replicas+`}}`))))
	}
	scale("0")
	t.Cleanup(func() { scale("1") })
	for round := range 3 {
		source.SQL("shop", "INSERT INTO t SELECT generate_series(1, 1000)", "SELECT pg_switch_wal()")
		b.Must(b.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(b.Namespace), client.MatchingLabels{v1alpha1.LabelComponent: "init"}, client.GracePeriodSeconds(0)))
		want := itoa(int64(round+1) * 1000)
		b.Await(standby, want+" rows in the standby", func() bool { return b.standbyHas("t") == want })
	}
	scale("1")
	b.AwaitTrue(standby, v1alpha1.ConditionFollowsSource)
	t.Log(place.Condition(standby, v1alpha1.ConditionFollowsSource).Message)
}

// TestTheSourceAndItsPromotedStandbyHaveArchivesOfTheirOwn promotes while the source is alive, and makes the source a standby of the new cluster.
func TestTheSourceAndItsPromotedStandbyHaveArchivesOfTheirOwn(t *testing.T) {
	onlyInFull(t, "the agent's own tests promote standbys")
	t.Parallel()
	source := newBed(t, "minio")
	shop := source.Cluster("shop", 17)
	source.SQL("shop", "CREATE TABLE t AS SELECT 1 AS n")
	source.Backup("base", "shop")
	b := source.elsewhere()
	standby := b.standbyOf(source, nil)
	b.Merge(standby, `{"spec":{"standby":{"promote":"EndOfArchive"}}}`)
	b.AwaitTrue(standby, v1alpha1.ConditionReady)
	for range 3 {
		source.SQL("shop", "INSERT INTO t VALUES (2)", "SELECT pg_switch_wal()")
		b.SQL("shop", "INSERT INTO t VALUES (3)", "SELECT pg_switch_wal()")
	}
	source.AwaitTrue(shop, v1alpha1.ConditionArchiving)
	b.AwaitTrue(standby, v1alpha1.ConditionArchiving)
	if got := source.SQL("shop", "SELECT count(*) FILTER (WHERE n = 3) FROM t"); strings.TrimSpace(got) != "0" {
		t.Errorf("the source has %s rows of the new cluster", got)
	}
	b.AwaitTrue(standby, v1alpha1.ConditionFirstBackupTaken)
	source.Must(source.Delete(t.Context(), shop))
	source.AwaitGone(shop)
	source.MakeRepository("there", b.Store["AWS_SECRET_ACCESS_KEY"], func(spec *v1alpha1.BackupRepositorySpec) {
		spec.S3.Prefix, spec.ReadOnly = b.Namespace+"/repo", true
	})
	back := source.NewCluster("shop", 17)
	back.Spec.Standby = &v1alpha1.Standby{Source: v1alpha1.StandbySource{Repository: v1alpha1.StandbyRepository{Name: "there"}}}
	source.Must(source.Create(t.Context(), back))
	source.AwaitTrue(back, v1alpha1.ConditionFollowsSource)
	b.SQL("shop", "INSERT INTO t VALUES (4)", "SELECT pg_switch_wal()")
	source.Await(back, "the rows of the new cluster", func() bool { return source.standbyHas("t WHERE n > 2") == "4" })
}
