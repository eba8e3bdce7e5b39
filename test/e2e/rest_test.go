//go:build e2e

package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

func TestVolumesGrowUnderTheClientsAndNothingRestarts(t *testing.T) {
	onlyInFull(t, "it takes minutes")
	t.Parallel()
	b := newBed(t, "minio")
	cluster := b.NewCluster("shop", 17)
	cluster.Spec.Instances = 2
	b.Must(b.Create(t.Context(), cluster))
	b.awaitInstances(cluster, 2)
	w, started := b.startWriter("shop"), b.SQL("shop", "SELECT pg_postmaster_start_time()")
	before := []*corev1.Pod{b.Pod("shop-0"), b.Pod("shop-1")}

	b.Merge(cluster, `{"spec":{"storage":{"size":"5Gi"}}}`)
	b.Await(cluster, "both volumes to have 5Gi", func() bool { return capacities(cluster)["5Gi"] == 2 })
	b.AwaitTrue(cluster, v1alpha1.ConditionUpToDate)
	if again := b.SQL("shop", "SELECT pg_postmaster_start_time()"); again != started {
		t.Errorf("PostgreSQL was restarted: %s, then %s", started, again)
	}
	for _, old := range before {
		if pod := b.Pod(old.Name); pod.UID != old.UID {
			t.Errorf("%s was replaced", old.Name)
		}
	}

	b.scale(3) // by a StatefulSet that has the new size in its template
	b.awaitInstances(cluster, 3)
	b.Await(cluster, "all volumes to have 5Gi", func() bool { return capacities(cluster)["5Gi"] == 3 })
	w.judge()
}

// capacities counts the instances by the size of their volumes.
func capacities(cluster *v1alpha1.PostgresCluster) map[string]int {
	count := map[string]int{}
	for _, instance := range cluster.Status.Instances {
		if instance.Storage != nil && instance.Storage.Capacity != nil {
			count[instance.Storage.Capacity.String()]++
		}
	}
	return count
}

func TestAClusterThatHibernatesHasNoPodsAndWakesWithItsRows(t *testing.T) {
	onlyInFull(t, "the controller's own tests hibernate clusters")
	t.Parallel()
	b := newBed(t, "minio")
	cluster := b.NewCluster("shop", 18)
	cluster.Spec.Instances = 2
	b.Must(b.Create(t.Context(), cluster))
	b.awaitInstances(cluster, 2)
	b.SQL("shop", "CREATE TABLE t AS SELECT n, md5(n::text) FROM generate_series(1, 20000) AS n")
	want := b.SQL("shop", sum)

	b.Merge(cluster, `{"spec":{"hibernate":true}}`)
	b.AwaitReason(cluster, v1alpha1.ConditionReady, v1alpha1.ReasonHibernated, "")
	for _, name := range []string{"shop-0", "shop-1"} {
		b.AwaitGone(&corev1.Pod{ObjectMeta: b.Meta(name)})
	}
	claims := &corev1.PersistentVolumeClaimList{}
	b.Must(b.List(t.Context(), claims, client.InNamespace(b.Namespace)))
	if len(claims.Items) != 2 {
		t.Errorf("there are %d claims", len(claims.Items))
	}

	b.Merge(cluster, `{"spec":{"hibernate":false}}`)
	b.awaitInstances(cluster, 2)
	if got := b.SQL("shop", sum); got != want {
		t.Errorf("it has %s instead of %s", got, want)
	}
	b.sameEverywhere(cluster)
}
