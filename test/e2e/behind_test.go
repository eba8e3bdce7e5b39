//go:build e2e

package e2e

import (
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/place"
)

func TestAReplicaThatWasAwayForTooLongReadsTheArchiveAndIsNotCloned(t *testing.T) {
	onlyInFull(t, "the agent has a test of its own for a replica that fell behind")
	t.Parallel()
	b := newBed(t, "minio")
	cluster := b.NewCluster("shop", 17)
	cluster.Spec.Instances = 2
	cluster.Spec.PostgreSQL.Parameters = map[string]v1alpha1.ParameterValue{
		"max_slot_wal_keep_size": "32MB", "wal_keep_size": "0", "min_wal_size": "32MB", "max_wal_size": "64MB",
	}
	b.Must(b.Create(t.Context(), cluster))
	b.awaitInstances(cluster, 2)
	b.SQL("shop", "CREATE TABLE t AS SELECT n, md5(n::text) FROM generate_series(1, 20000) AS n")
	b.sameEverywhere(cluster)
	replica := ""
	for _, instance := range cluster.Status.Instances {
		if instance.Role == v1alpha1.RoleReplica {
			replica = instance.Name
		}
	}
	const current = "/var/lib/howdah/current"
	before, err := b.Exec(replica, "readlink", current)
	b.Must(err)

	// Its pod can't be made again as long as the namespace may have one only.
	one := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}
	held := &corev1.ResourceQuota{ObjectMeta: b.Meta("one-pod"), Spec: corev1.ResourceQuotaSpec{Hard: one}}
	b.Must(b.Create(t.Context(), held))
	b.Await(held, "to count", func() bool { return len(held.Status.Hard) > 0 })
	gone := b.Pod(replica)
	b.Must(b.Delete(t.Context(), gone))
	b.AwaitGone(gone)
	needs := b.SQL("shop", "SELECT pg_walfile_name(pg_current_wal_insert_lsn())")
	for range 8 {
		b.SQL("shop", "INSERT INTO t SELECT n, 'while it was away' FROM generate_series(1, 100) AS n", "SELECT pg_switch_wal()")
	}
	b.Await(cluster, needs+" to be gone from the primary", func() bool {
		b.SQL("shop", "CHECKPOINT")
		return b.SQL("shop", "SELECT count(*) FROM pg_ls_waldir() WHERE name = '"+needs+"'") == "0"
	})

	b.Must(b.Delete(t.Context(), held))
	b.awaitInstances(cluster, 2)
	b.sameEverywhere(cluster)
	if after, err := b.Exec(replica, "readlink", current); err != nil || after != before {
		t.Errorf("%s had %s, and has %s, %v", replica, before, after, err)
	}
	said, err := exec.Command(place.Kubectl(t), "logs", "-n", b.Namespace, replica).CombinedOutput()
	if err != nil || !strings.Contains(string(said), "it is read from the archive") {
		t.Errorf("%s has not read the archive: %v, %s", replica, err, said)
	}
}
