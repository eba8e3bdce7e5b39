//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/place"
)

// keys below a prefix of the repository.
func (b *bed) keys(prefix string) []string {
	b.Helper()
	var keys []string
	for info, err := range b.Bucket().List(b.Context(), prefix, "") {
		b.Must(err)
		keys = append(keys, info.Key)
	}
	return keys
}

func TestABackupOfABusyClusterAndItsDeletion(t *testing.T) {
	t.Parallel()
	servers := []string{"minio", "versitygw"}
	if testing.Short() {
		servers = servers[:1] // the store's own tests try both
	}
	for _, server := range servers {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, server)
			cluster := b.Cluster("shop", 17)
			w := b.startWriter("shop")
			first, second := b.Backup("first", "shop"), b.Backup("second", "shop")
			w.judge()
			if first.Status.LogicalBytes < 10<<20 || first.Status.StoredBytes <= 0 || first.Status.StoredBytes > first.Status.LogicalBytes {
				t.Errorf("%d bytes are stored as %d", first.Status.LogicalBytes, first.Status.StoredBytes)
			}
			if progress := first.Status.Progress; progress == nil || progress.Percent != 100 {
				t.Errorf("the progress ended as %+v", progress)
			}
			data := func(backup *v1alpha1.Backup) (keys []string) {
				for _, key := range b.keys("lineages/" + cluster.Status.Archive.Lineage + "/") {
					if strings.Contains(key, backup.Status.Plan.ID) {
						keys = append(keys, key)
					}
				}
				return keys
			}
			if len(data(first)) < 2 || len(data(second)) < 2 {
				t.Fatalf("in the bucket are %v and %v", data(first), data(second))
			}
			b.Must(b.Delete(t.Context(), first))
			b.AwaitGone(first)
			if left := data(first); len(left) > 0 {
				t.Errorf("of the deleted backup are left %v", left)
			}
			if len(data(second)) < 2 {
				t.Error("the other one's data is gone too")
			}
		})
	}
}

func TestABackupOfTwoGigabytesKeepsToItsMemory(t *testing.T) {
	onlyInFull(t, "a worker's memory is bounded by tests of its own")
	t.Parallel()
	b := newBed(t, "minio")
	cluster := b.NewCluster("shop", 17)
	cluster.Spec.PostgreSQL.Parameters = map[string]v1alpha1.ParameterValue{"max_wal_size": "4GB"}
	cluster.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi")}
	b.Must(b.Create(t.Context(), cluster))
	b.AwaitTrue(cluster, v1alpha1.ConditionReady)
	// Half of it is as good as random: it must neither compress to nothing nor not at all.
	b.SQL("shop", `CREATE TABLE bulk AS SELECT n, repeat(md5(n::text), 4) AS half, repeat('x', 128) AS rest FROM generate_series(1, 7200000) AS n`)
	if size := b.SQL("shop", "SELECT pg_database_size('app') >= 2::bigint << 30"); size != "t" {
		t.Fatalf("the database has only %s bytes", b.SQL("shop", "SELECT pg_database_size('app')"))
	}
	began := time.Now()
	backup := &v1alpha1.Backup{ObjectMeta: b.Meta("big"), Spec: v1alpha1.BackupSpec{Cluster: v1alpha1.LocalReference{Name: "shop"}}}
	b.Must(b.Create(t.Context(), backup))
	job := &batchv1.Job{ObjectMeta: b.Meta("big-backup")}
	b.Await(job, "to be there", func() bool { return job.UID != "" })
	limit := job.Spec.Template.Spec.Containers[0].Resources.Limits.Memory()
	if limit.IsZero() || limit.Cmp(resource.MustParse("256Mi")) > 0 {
		t.Errorf("the Job's memory is limited to %s", limit)
	}
	b.AwaitTrue(backup, v1alpha1.ConditionSucceeded)
	t.Logf("%d MiB in %s, %d MiB stored, with at most %s: %s", backup.Status.LogicalBytes>>20, time.Since(began).Round(time.Second),
		backup.Status.StoredBytes>>20, limit, place.Condition(backup, v1alpha1.ConditionSucceeded).Message)
	pods := &corev1.PodList{}
	b.Must(b.List(t.Context(), pods, client.InNamespace(b.Namespace), client.MatchingLabels{v1alpha1.LabelComponent: "backup"}))
	for _, pod := range pods.Items {
		for _, status := range pod.Status.ContainerStatuses {
			if status.RestartCount > 0 || status.State.Terminated != nil && status.State.Terminated.Reason == "OOMKilled" {
				t.Errorf("pod %s took more memory than it may", pod.Name)
			}
		}
	}
}

func TestASchedulesMakesBackupsOnTime(t *testing.T) {
	onlyInFull(t, "the integration tests have schedules")
	t.Parallel()
	b := newBed(t, "minio")
	b.Cluster("shop", 15)
	schedule := &v1alpha1.BackupSchedule{ObjectMeta: b.Meta("often"), Spec: v1alpha1.BackupScheduleSpec{
		Cluster: v1alpha1.LocalReference{Name: "shop"}, Schedule: "* * * * *", TimeZone: "Europe/Berlin",
	}}
	b.Must(b.Create(t.Context(), schedule))
	b.Await(schedule, "a backup", func() bool { return schedule.Status.LastBackup != "" })
	backup := &v1alpha1.Backup{ObjectMeta: b.Meta(schedule.Status.LastBackup)}
	b.AwaitTrue(backup, v1alpha1.ConditionSucceeded)
	b.Merge(schedule, `{"spec":{"suspend":true}}`)
	b.AwaitReason(schedule, v1alpha1.ConditionReady, v1alpha1.ReasonSuspended, "")
}

func TestWithTheStoreAwayABackupWaitsAndTheDatabaseGoesOn(t *testing.T) {
	onlyInFull(t, "the agent's own tests and those of the backup-controller have outages of the store")
	t.Parallel()
	b := newBed(t, "versitygw")
	cluster := b.Cluster("shop", 18)
	w := b.startWriter("shop")
	b.Kube("s3", "stop", "versitygw")
	t.Cleanup(func() { b.Kube("s3", "start", "versitygw") })
	b.SQL("shop", "SELECT pg_switch_wal()")
	b.AwaitReason(cluster, v1alpha1.ConditionArchiving, v1alpha1.ReasonArchiveFailing, "")
	backup := &v1alpha1.Backup{ObjectMeta: b.Meta("late"), Spec: v1alpha1.BackupSpec{Cluster: v1alpha1.LocalReference{Name: "shop"}}}
	b.Must(b.Create(t.Context(), backup))
	b.Await(backup, "to say that it waits", func() bool {
		c := place.Condition(backup, v1alpha1.ConditionSucceeded)
		return c != nil && c.Status != metav1.ConditionTrue && c.Message != ""
	})
	t.Logf("meanwhile the Backup says %s", place.Describe(backup))
	gap := w.judge()
	b.Kube("s3", "start", "versitygw")
	b.AwaitTrue(backup, v1alpha1.ConditionSucceeded)
	b.AwaitTrue(cluster, v1alpha1.ConditionArchiving)
	if gap > 10*time.Second {
		t.Errorf("writes stood still for %s", gap)
	}
}
