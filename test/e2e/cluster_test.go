//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/place"
)

func TestAClusterServesAndHeals(t *testing.T) {
	t.Parallel()
	for _, version := range versionsToTry() {
		t.Run(fmt.Sprint("PostgreSQL ", version), func(t *testing.T) {
			t.Parallel()
			b := newBed(t, "minio")
			cluster := b.Cluster("shop", version)
			if !strings.HasPrefix(cluster.Status.Version, fmt.Sprint(version, ".")) {
				t.Errorf("it runs %s", cluster.Status.Version)
			}
			w := b.startWriter("shop")
			if out, err := b.Exec("shop-writer", "sh", "-c", `psql "$URI" -Atc 'SELECT current_user'`); err != nil || out != "app" {
				t.Errorf("the uri in the app Secret: %q, %v", out, err)
			}
			b.AwaitTrue(cluster, v1alpha1.ConditionArchiving)
			changeParameters(b, cluster)
			healsAfter(b, cluster, "the postmaster was killed", func() {
				_, err := b.Exec("shop-0", "sh", "-c", "kill -9 $(head -1 /var/lib/howdah/current/pgdata/postmaster.pid)")
				b.Must(err)
			})
			healsAfter(b, cluster, "the pod was deleted", func() {
				b.Must(b.Delete(b.Context(), &corev1.Pod{ObjectMeta: b.Meta("shop-0")}))
			})
			putsDriftBack(b, cluster)
			w.judge()
		})
	}
}

func changeParameters(b *bed, cluster *v1alpha1.PostgresCluster) {
	b.Helper()
	uid := b.Pod("shop-0").UID
	b.Merge(cluster, `{"spec":{"postgresql":{"parameters":{"work_mem":"5MB","max_connections":"77"}}}}`)
	b.Await(cluster, "the parameters to be applied", func() bool {
		c := place.Condition(cluster, v1alpha1.ConditionUpToDate)
		return c != nil && c.Status == metav1.ConditionTrue && len(cluster.Status.Instances) == 1 && len(cluster.Status.Instances[0].PendingRestart) == 0 &&
			place.Condition(cluster, v1alpha1.ConditionReady).Status == metav1.ConditionTrue
	})
	if got := b.SQL("shop", "SELECT current_setting('work_mem') || ' ' || current_setting('max_connections')"); got != "5MB 77" {
		b.Errorf("work_mem and max_connections are %s", got)
	}
	if b.Pod("shop-0").UID != uid {
		b.Error("a parameter replaced the pod")
	}
	b.Merge(cluster, `{"spec":{"postgresql":{"parameters":{"work_mem":"plenty"}}}}`)
	b.AwaitReason(cluster, v1alpha1.ConditionUpToDate, v1alpha1.ReasonConfigurationInvalid, "work_mem")
	if got := b.SQL("shop", "SELECT current_setting('work_mem')"); got != "5MB" {
		b.Errorf("a bad value left work_mem at %s", got)
	}
	b.Merge(cluster, `{"spec":{"postgresql":{"parameters":{"work_mem":"6MB"}}}}`)
	b.AwaitTrue(cluster, v1alpha1.ConditionUpToDate)
	err := b.Patch(b.Context(), cluster.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"postgresql":{"parameters":{"listen_addresses":"*"}}}}`)))
	if err == nil || !strings.Contains(err.Error(), "can't set listen_addresses") {
		b.Errorf("setting listen_addresses: %v", err)
	}
}

// healsAfter breaks something and waits until a new server accepts connections.
func healsAfter(b *bed, cluster *v1alpha1.PostgresCluster, what string, break_ func()) {
	b.Helper()
	const started = "SELECT extract(epoch FROM pg_postmaster_start_time())::text"
	before := b.SQL("shop", started)
	break_()
	b.Await(cluster, "another server after "+what, func() bool {
		out, err := b.Exec("shop-0", "psql", "-XAtq", "-U", "postgres", "-c", started)
		return err == nil && out != before
	})
	b.AwaitTrue(cluster, v1alpha1.ConditionReady)
}

func putsDriftBack(b *bed, cluster *v1alpha1.PostgresCluster) {
	b.Helper()
	service := &corev1.Service{ObjectMeta: b.Meta("shop-r")}
	b.Must(b.Delete(b.Context(), service))
	b.Await(service, "the Service to come back", func() bool { return service.DeletionTimestamp == nil && service.Spec.ClusterIP != "" })
	b.Merge(service, `{"spec":{"selector":{"howdah.dev/cluster":"other"}}}`)
	b.Await(service, "the selector to be put back", func() bool { return service.Spec.Selector[v1alpha1.LabelCluster] == cluster.Name })
}

func TestADeletedClusterLeavesALastBackupAndNoVolume(t *testing.T) {
	t.Parallel()
	b := newBed(t, "versitygw")
	cluster := b.Cluster("shop", 17)
	b.SQL("shop", "CREATE TABLE t AS SELECT generate_series(1, 1000) AS n")
	b.AwaitTrue(cluster, v1alpha1.ConditionArchiving)

	b.Kube("s3", "stop", "versitygw")
	t.Cleanup(func() { b.Kube("s3", "start", "versitygw") })
	b.SQL("shop", "INSERT INTO t VALUES (1001)", "SELECT pg_switch_wal()")
	b.AwaitReason(cluster, v1alpha1.ConditionArchiving, v1alpha1.ReasonArchiveFailing, "")
	b.SQL("shop", "INSERT INTO t VALUES (1002)")

	b.Must(b.Delete(t.Context(), cluster))
	b.AwaitReason(cluster, v1alpha1.ConditionReady, v1alpha1.ReasonAwaitingFinalBackup, "")
	b.Kube("s3", "start", "versitygw")
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: b.Meta("data-shop-0")}
	b.Must(b.Get(t.Context(), client.ObjectKeyFromObject(claim), claim))
	b.AwaitGone(cluster)
	b.AwaitGone(claim)
	backups := &v1alpha1.BackupList{}
	b.Must(b.List(t.Context(), backups, client.InNamespace(b.Namespace)))
	if len(backups.Items) != 1 || place.Condition(&backups.Items[0], v1alpha1.ConditionSucceeded).Status != metav1.ConditionTrue {
		t.Fatalf("the last backups are %+v", backups.Items)
	}

	// The name is free again, and what was there is in the last backup.
	restore := &v1alpha1.Restore{ObjectMeta: b.Meta("back"), Spec: v1alpha1.RestoreSpec{
		Source:      v1alpha1.RestoreSource{Backup: &v1alpha1.LocalReference{Name: backups.Items[0].Name}},
		Destination: v1alpha1.RestoreDestination{NewCluster: &v1alpha1.NewCluster{Name: "shop"}},
	}}
	b.Must(b.Create(t.Context(), restore))
	b.AwaitTrue(restore, v1alpha1.ConditionSucceeded)
	if got := b.SQL("shop", "SELECT count(*) FROM t"); got != "1002" {
		t.Errorf("%s rows are back, not 1002", got)
	}
}

func TestRetainedVolumesOutliveTheirCluster(t *testing.T) {
	onlyInFull(t, "the controller's own tests retain volumes")
	t.Parallel()
	b := newBed(t, "minio")
	cluster := b.NewCluster("shop", 18)
	cluster.Spec.Archive = nil
	cluster.Spec.SuperuserAccess = true
	cluster.Spec.DeletionPolicy = v1alpha1.DeletionPolicy{FinalBackup: ptr.To(false), Volumes: v1alpha1.VolumesRetain}
	b.Must(b.Create(t.Context(), cluster))
	b.AwaitTrue(cluster, v1alpha1.ConditionReady)
	secret := &corev1.Secret{ObjectMeta: b.Meta("shop-superuser")}
	b.Must(b.Get(t.Context(), client.ObjectKeyFromObject(secret), secret))
	b.Must(b.Delete(t.Context(), cluster))
	b.AwaitGone(cluster)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: b.Meta("data-shop-0")}
	b.Must(b.Get(t.Context(), client.ObjectKeyFromObject(claim), claim))
	if claim.DeletionTimestamp != nil {
		t.Error("the volume goes")
	}
}
