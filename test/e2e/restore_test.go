//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/test/testkit/place"
)

// restoreOf describes a Restore of the archive of `shop` into a new cluster of the same name as the Restore.
func (b *bed) restoreOf(name string, target *v1alpha1.RestoreTarget) *v1alpha1.Restore {
	return &v1alpha1.Restore{ObjectMeta: b.Meta(name), Spec: v1alpha1.RestoreSpec{
		Source: v1alpha1.RestoreSource{Cluster: &v1alpha1.ClusterSource{Name: "shop"}}, Target: target,
		Destination: v1alpha1.RestoreDestination{NewCluster: &v1alpha1.NewCluster{Name: name}},
	}}
}

const sum = "SELECT count(*) || ' ' || coalesce(sum(hashtextextended(t::text, 0)), 0) FROM t"

func TestRestoresReachTheirTargets(t *testing.T) {
	onlyInFull(t, "the agent's own tests restore to every kind of target")
	t.Parallel()
	for _, version := range versionsToTry() {
		t.Run(fmt.Sprint("PostgreSQL ", version), func(t *testing.T) {
			t.Parallel()
			b := newBed(t, "minio")
			shop := b.Cluster("shop", version)
			b.SQL("shop", "CREATE TABLE t AS SELECT n, md5(n::text) FROM generate_series(1, 20000) AS n")
			b.Backup("base", "shop")
			want := map[string]string{}
			targets := map[string]*v1alpha1.RestoreTarget{}
			step := func(name string, target func(text string) *v1alpha1.RestoreTarget, query string) {
				b.SQL("shop", fmt.Sprintf("INSERT INTO t SELECT n, '%s' FROM generate_series(1, 5000) AS n", name))
				want[name] = b.SQL("shop", sum)
				targets[name] = target(b.SQL("shop", query))
			}
			step("to-time", func(text string) *v1alpha1.RestoreTarget {
				return &v1alpha1.RestoreTarget{Time: text}
			}, `SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`)
			step("to-lsn", func(text string) *v1alpha1.RestoreTarget { return &v1alpha1.RestoreTarget{LSN: text} }, "SELECT pg_current_wal_insert_lsn()")
			step("to-point", func(string) *v1alpha1.RestoreTarget { return &v1alpha1.RestoreTarget{RestorePoint: "here"} }, "SELECT pg_create_restore_point('here')")
			step("to-end", func(string) *v1alpha1.RestoreTarget { return nil }, "SELECT pg_switch_wal()")
			awaitArchived(b)

			restores := map[string]*v1alpha1.Restore{}
			for name, target := range targets {
				restores[name] = b.restoreOf(name, target)
				b.Must(b.Create(t.Context(), restores[name]))
			}
			for name, restore := range restores {
				b.AwaitTrue(restore, v1alpha1.ConditionSucceeded)
				if got := b.SQL(name, sum); got != want[name] {
					t.Errorf("%s: the table has %s, not %s", name, got, want[name])
				}
				t.Logf("%s: %s", name, place.Condition(restore, v1alpha1.ConditionSucceeded).Message)
			}
			restored := &v1alpha1.PostgresCluster{ObjectMeta: b.Meta("to-end")}
			b.AwaitTrue(restored, v1alpha1.ConditionArchiving)
			b.Await(restored, "its own lineage", func() bool { return restored.Status.Archive != nil && restored.Status.Archive.Lineage != "" })
			if restored.Status.Archive.Lineage == shop.Status.Archive.Lineage {
				t.Error("the new cluster archives into the lineage of the old one")
			}
			b.SQL("to-end", "INSERT INTO t VALUES (0, 'later')", "SELECT pg_switch_wal()")
			b.Backup("of-the-restored", "to-end")
		})
	}
}

// awaitArchived waits until nothing waits to be archived.
func awaitArchived(b *bed) {
	b.Helper()
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: b.Meta("shop")}
	segment := b.SQL("shop", "SELECT pg_walfile_name(pg_switch_wal() - 1)")
	b.Await(cluster, "WAL "+segment+" in the archive", func() bool {
		return b.SQL("shop", fmt.Sprintf("SELECT coalesce(last_archived_wal >= '%s', false) FROM pg_stat_archiver", segment)) == "t"
	})
}

func TestRestoresThatCannotBeAreRefusedBeforeAnythingIsCreated(t *testing.T) {
	onlyInFull(t, "each refusal has a test of its own")
	t.Parallel()
	b := newBed(t, "minio")
	shop := b.NewCluster("shop", 17)
	// A restore point that isn't there may be on its way until a minute after the archive's timeout.
	shop.Spec.PostgreSQL.Parameters = map[string]v1alpha1.ParameterValue{"archive_timeout": "2s"}
	b.Must(b.Create(t.Context(), shop))
	b.AwaitTrue(shop, v1alpha1.ConditionReady)
	b.SQL("shop", "CREATE TABLE t (n int)")
	backup := b.Backup("base", "shop")
	at := func(text string) *v1alpha1.RestoreTarget { return &v1alpha1.RestoreTarget{Time: text} }
	refusals := map[string]struct {
		change  func(*v1alpha1.Restore)
		reason  string
		message string
	}{
		"future":    {func(r *v1alpha1.Restore) { r.Spec.Target = at("2099-01-01T00:00:00Z") }, v1alpha1.ReasonTargetUnreachable, ""},
		"too-early": {func(r *v1alpha1.Restore) { r.Spec.Target = at("2020-01-01T00:00:00Z") }, v1alpha1.ReasonTargetUnreachable, ""},
		"no-lsn":    {func(r *v1alpha1.Restore) { r.Spec.Target = &v1alpha1.RestoreTarget{LSN: "FFF/0"} }, v1alpha1.ReasonTargetUnreachable, ""},
		"no-point":  {func(r *v1alpha1.Restore) { r.Spec.Target = &v1alpha1.RestoreTarget{RestorePoint: "nowhere"} }, v1alpha1.ReasonTargetUnreachable, "nowhere"},
		"taken":     {func(r *v1alpha1.Restore) { r.Spec.Destination.NewCluster.Name = "shop" }, v1alpha1.ReasonNameTaken, "shop"},
		"no-backup": {func(r *v1alpha1.Restore) {
			r.Spec.Source = v1alpha1.RestoreSource{Backup: &v1alpha1.LocalReference{Name: "none"}}
		}, v1alpha1.ReasonBackupNotFound, "none"},
		"no-cluster": {func(r *v1alpha1.Restore) { r.Spec.Source.Cluster.Name = "none" }, "", "none"},
	}
	restores := map[string]*v1alpha1.Restore{}
	for name, c := range refusals {
		restores[name] = b.restoreOf(name, nil)
		c.change(restores[name])
		b.Must(b.Create(t.Context(), restores[name]))
	}
	for name, c := range refusals {
		restore := restores[name]
		b.Await(restore, "to be refused", func() bool {
			seen := place.Condition(restore, v1alpha1.ConditionSucceeded)
			return seen != nil && seen.Status != metav1.ConditionTrue && (c.reason == "" || seen.Reason == c.reason) && strings.Contains(seen.Message, c.message) && restore.Status.Plan == nil
		})
		t.Logf("%s: %s", name, place.Describe(restore))
		made := &v1alpha1.PostgresCluster{}
		if err := b.Get(t.Context(), client.ObjectKey{Namespace: b.Namespace, Name: name}, made); !apierrors.IsNotFound(err) {
			t.Errorf("%s: a cluster was made: %v", name, err)
		}
	}
	b.AwaitTrue(backup, v1alpha1.ConditionSucceeded)
}

func TestAFlippedByteInAnyObjectIsFoundAndNothingIsLeft(t *testing.T) {
	onlyInFull(t, "whoever reads a repository has tests of its own for a flipped byte")
	t.Parallel()
	b := newBed(t, "minio")
	b.Cluster("shop", 17)
	b.SQL("shop", "CREATE TABLE t AS SELECT n, md5(n::text) FROM generate_series(1, 50000) AS n")
	backup := b.Backup("base", "shop")
	store := b.Bucket()
	var manifest, pack string
	for _, key := range b.keys("lineages/" + backup.Status.Plan.Lineage + "/") {
		switch {
		case strings.Contains(key, "/backups/"+backup.Status.Plan.ID):
			manifest = key
		case strings.Contains(key, "/packs/"+backup.Status.Plan.ID):
			pack = key
		}
	}
	for name, key := range map[string]string{"pack": pack, "manifest": manifest} {
		good, err := store.Get(t.Context(), key, 64<<20)
		b.Must(err)
		bad := bytes.Clone(good)
		bad[len(bad)/2] ^= 1
		b.Must(store.Put(t.Context(), key, bad, objstore.PutOptions{}))
		restore := b.restoreOf("bad-"+name, nil)
		restore.Spec.Source = v1alpha1.RestoreSource{Backup: &v1alpha1.LocalReference{Name: "base"}}
		b.Must(b.Create(t.Context(), restore))
		b.AwaitReason(restore, v1alpha1.ConditionSucceeded, v1alpha1.ReasonDataCorrupt, key)
		b.AwaitGone(&v1alpha1.PostgresCluster{ObjectMeta: b.Meta("bad-" + name)})
		b.Must(store.Put(t.Context(), key, good, objstore.PutOptions{}))
	}
	restore := b.restoreOf("good", nil)
	b.Must(b.Create(t.Context(), restore))
	b.AwaitTrue(restore, v1alpha1.ConditionSucceeded)
}
