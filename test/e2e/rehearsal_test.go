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

// rehearse creates a rehearsal of the upgrade of shop.
func (b *bed) rehearse(name string, version int32, query string) *v1alpha1.Upgrade {
	b.Helper()
	upgrade := &v1alpha1.Upgrade{ObjectMeta: b.Meta(name), Spec: v1alpha1.UpgradeSpec{
		Cluster: v1alpha1.LocalReference{Name: "shop"}, Version: version,
		Rehearsal: &v1alpha1.Rehearsal{Assertions: []v1alpha1.DrillAssertion{{Name: "all", Query: query}}},
	}}
	b.Must(b.Create(b.Context(), upgrade))
	return upgrade
}

// nothingOfRehearsals expects that nothing is left of any copy.
func (b *bed) nothingOfRehearsals() {
	b.Helper()
	for _, list := range []client.ObjectList{
		&v1alpha1.PostgresClusterList{}, &v1alpha1.RestoreList{}, &v1alpha1.UpgradeList{}, &batchv1.JobList{}, &corev1.PersistentVolumeClaimList{},
		&corev1.SecretList{}, &corev1.ServiceList{},
	} {
		b.Must(b.List(b.Context(), list, client.InNamespace(b.Namespace)))
		b.Must(meta.EachListItem(list, func(object runtime.Object) error {
			if name := object.(client.Object).GetName(); strings.Contains(name, "-rehearsal-") {
				b.Errorf("%T %s is left", object, name)
			}
			return nil
		}))
	}
}

// TestAnUpgradeIsRehearsedOnACopyAndTheClusterIsNotTouched rehearses an upgrade over two major versions with an assertion that is true
// of the data after the backup, then deletes a rehearsal in the middle.
func TestAnUpgradeIsRehearsedOnACopyAndTheClusterIsNotTouched(t *testing.T) {
	onlyInFull(t, "the upgrade-controller's own tests have each step of a rehearsal, and another test the upgrade")
	t.Parallel()
	b := newBed(t, "minio")
	shop := b.Cluster("shop", 15)
	b.SQL("shop", "CREATE TABLE t AS SELECT n, md5(n::text) FROM generate_series(1, 20000) AS n", "CREATE INDEX t_md5 ON t (md5)")
	b.Backup("base", "shop")
	b.SQL("shop", "INSERT INTO t VALUES (20001, 'after the backup')")
	awaitArchived(b)
	b.Must(b.Get(t.Context(), keyOf(shop), shop))
	started, keys := b.SQL("shop", "SELECT pg_postmaster_start_time()"), len(b.keys("lineages/"+shop.Status.Archive.Lineage+"/backups/"))

	dry := b.rehearse("dry", 18, "SELECT count(*) = 20001 AND current_setting('server_version_num')::int >= 180000 FROM public.t")
	b.AwaitTrue(dry, v1alpha1.ConditionSucceeded)
	run := dry.Status.Rehearsal
	t.Logf("%s (%+v)", place.Condition(dry, v1alpha1.ConditionSucceeded).Message, run)
	if run.DowntimeSeconds == 0 || run.RestoreSeconds == 0 || run.PreflightSeconds == 0 || run.PreviousBytes == 0 || run.LastCommit == nil {
		t.Errorf("not everything was measured: %+v", run)
	}
	b.nothingOfRehearsals()

	deleted := b.rehearse("deleted", 18, "SELECT true")
	b.Await(deleted, "a copy that is being upgraded", func() bool {
		return deleted.Status.Rehearsal != nil && deleted.Status.Rehearsal.UpgradeUID != ""
	})
	b.Must(b.Delete(t.Context(), deleted))
	b.AwaitGone(deleted)
	b.nothingOfRehearsals()

	if now := b.SQL("shop", "SELECT pg_postmaster_start_time()"); now != started {
		t.Errorf("shop was started at %s, and before the rehearsals at %s", now, started)
	}
	b.AwaitTrue(shop, v1alpha1.ConditionReady)
	if shop.Status.MajorVersion != 15 || len(shop.Status.VolumeLocks) > 0 {
		t.Errorf("the cluster was touched: %+v", shop.Status)
	}
	if now := len(b.keys("lineages/" + shop.Status.Archive.Lineage + "/backups/")); now != keys {
		t.Errorf("there were %d objects of backups, and are %d", keys, now)
	}
	if lineages := b.keys("lineages/"); strings.Count(strings.Join(lineages, "\n"), "/lineage.json") != 1 {
		t.Errorf("a rehearsal has archived: %v", lineages)
	}
	if c := place.Condition(dry, v1alpha1.ConditionChecked); c == nil || c.Status != metav1.ConditionTrue {
		t.Errorf("Checked is %+v", c)
	}
}
