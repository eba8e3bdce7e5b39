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

// drill asks for a drill with a token, and waits until it is over.
func (b *bed) drill(repo *v1alpha1.BackupRepository, token string, change func(*v1alpha1.RepositoryDrill)) *v1alpha1.DrillRun {
	b.Helper()
	before := repo.DeepCopy()
	if repo.Spec.Drill == nil {
		repo.Spec.Drill = &v1alpha1.RepositoryDrill{Schedule: "@yearly", Cluster: v1alpha1.LocalReference{Name: "shop"}}
	}
	repo.Spec.Drill.Token = token
	change(repo.Spec.Drill)
	b.Must(b.Patch(b.Context(), repo, client.MergeFrom(before)))
	b.Await(repo, "the end of the drill "+token, func() bool {
		status := repo.Status.Drill
		return status != nil && status.Token == token && status.UnderWay == nil
	})
	last := repo.Status.Drill.Last
	b.Logf("%s: %s (restored in %d s, looked at in %d s): %s", token, last.Reason, last.RestoreSeconds, last.CheckSeconds, last.Message)
	return last
}

// nothingOfDrills expects that nothing is left of any drill.
func (b *bed) nothingOfDrills() {
	b.Helper()
	for _, list := range []client.ObjectList{
		&v1alpha1.PostgresClusterList{}, &v1alpha1.RestoreList{}, &batchv1.JobList{}, &corev1.PodList{}, &corev1.PersistentVolumeClaimList{},
		&corev1.SecretList{}, &corev1.ConfigMapList{}, &corev1.ServiceList{},
	} {
		b.Must(b.List(b.Context(), list, client.InNamespace(b.Namespace)))
		b.Must(meta.EachListItem(list, func(object runtime.Object) error {
			if name := object.(client.Object).GetName(); strings.Contains(name, "-drill-") {
				b.Errorf("%T %s is left", object, name)
			}
			return nil
		}))
	}
}

// TestDrillsRestoreAsideAndTouchNothingElse drills what can be restored, then asks for what isn't true.
func TestDrillsRestoreAsideAndTouchNothingElse(t *testing.T) {
	t.Parallel()
	b := newBed(t, "minio")
	shop := b.Cluster("shop", 17)
	b.SQL("shop", "CREATE TABLE t AS SELECT n, md5(n::text) FROM generate_series(1, 20000) AS n", "CREATE INDEX t_n ON t (n)")
	b.Backup("base", "shop")
	b.SQL("shop", "INSERT INTO t VALUES (20001, 'after the backup')")
	awaitArchived(b)
	b.Must(b.Get(t.Context(), keyOf(shop), shop))
	repo := &v1alpha1.BackupRepository{ObjectMeta: b.Meta("repo")}
	b.Await(repo, "a window", func() bool { return len(repo.Status.Lineages) == 1 && repo.Status.Lineages[0].RecoverableFrom != nil })
	started, keys := b.SQL("shop", "SELECT pg_postmaster_start_time()"), len(b.keys("lineages/"+shop.Status.Archive.Lineage+"/backups/"))

	good := b.drill(repo, "good", func(drill *v1alpha1.RepositoryDrill) {
		drill.Assertions = []v1alpha1.DrillAssertion{{Name: "all", Query: "SELECT count(*) = 20001 FROM public.t"}, {Name: "admin", Database: "postgres", Query: "SELECT true"}}
	})
	if good.Outcome != v1alpha1.DrillSucceeded || good.RestoreSeconds == 0 || good.LastCommit == nil || repo.Status.Drill.LastSuccessTime == nil {
		t.Errorf("a drill of what can be restored: %+v", good)
	}
	b.AwaitTrue(repo, v1alpha1.ConditionDrilled)
	b.nothingOfDrills()

	bad := b.drill(repo, "bad", func(drill *v1alpha1.RepositoryDrill) {
		drill.Target = v1alpha1.DrillRandomTime
		drill.Assertions = []v1alpha1.DrillAssertion{{Name: "too-many", Query: "SELECT count(*) > 1000000 FROM public.t"}}
	})
	condition := place.Condition(repo, v1alpha1.ConditionDrilled)
	if bad.Reason != v1alpha1.ReasonAssertionFailed || condition.Status != metav1.ConditionFalse || !strings.Contains(condition.Message, "assertion too-many: it is false") {
		t.Errorf("a drill of what isn't true: %+v, %+v", bad, condition)
	}
	b.nothingOfDrills()

	if now := b.SQL("shop", "SELECT pg_postmaster_start_time()"); now != started {
		t.Errorf("shop was started at %s, and before the drills at %s", now, started)
	}
	b.AwaitTrue(shop, v1alpha1.ConditionReady)
	if now := len(b.keys("lineages/" + shop.Status.Archive.Lineage + "/backups/")); now != keys {
		t.Errorf("there were %d objects of backups, and are %d", keys, now)
	}
	if lineages := b.keys("lineages/"); strings.Count(strings.Join(lineages, "\n"), "/lineage.json") != 1 {
		t.Errorf("a drill has archived: %v", lineages)
	}
}
