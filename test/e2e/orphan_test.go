//go:build e2e

package e2e

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/workload"
)

// running are the instances' pods by name, without those that were restarted.
func (b *bed) running(cluster string) map[string]types.UID {
	b.Helper()
	pods, uids := &corev1.PodList{}, map[string]types.UID{}
	b.Must(b.List(b.Context(), pods, client.InNamespace(b.Namespace), client.MatchingLabels{
		v1alpha1.LabelCluster: cluster, v1alpha1.LabelComponent: workload.ComponentInstance,
	}))
	for _, pod := range pods.Items {
		for _, container := range pod.Status.ContainerStatuses {
			if container.Ready && container.RestartCount == 0 {
				uids[pod.Name] = pod.UID
			}
		}
	}
	return uids
}

// awaitLeader waits until clients are led to another instance than one, which no controller says.
func (b *bed) awaitLeader(cluster, other string) string {
	b.Helper()
	slice, leader := &discoveryv1.EndpointSlice{ObjectMeta: b.Meta(cluster + "-rw")}, ""
	b.Await(slice, "another primary than "+other, func() bool {
		for _, endpoint := range slice.Endpoints {
			if target := endpoint.TargetRef; target != nil && ptr.Deref(endpoint.Conditions.Ready, true) {
				leader = target.Name
			}
		}
		return leader != "" && leader != other
	})
	return leader
}

func TestAReleasedDatabaseFailsOverAndIsTakenOverWithoutARestart(t *testing.T) {
	onlyInFull(t, "the db-controller has tests of its own for that")
	t.Parallel()
	b := newBed(t, "minio")
	wanted := func() *v1alpha1.PostgresCluster {
		cluster := b.NewCluster("shop", 17)
		cluster.Spec.Instances, cluster.Spec.Synchronous = 3, &v1alpha1.Synchronous{Number: 1}
		cluster.Spec.DeletionPolicy.Database = v1alpha1.DatabaseOrphan
		return cluster
	}
	first := wanted()
	b.Must(b.Create(t.Context(), first))
	b.awaitInstances(first, 3)
	w := b.startWriter("shop")

	b.Must(b.Delete(t.Context(), first))
	b.AwaitGone(first)
	w.awaitAcks(20)
	primary := b.awaitLeader("shop", "")
	b.Must(b.Delete(t.Context(), &corev1.Pod{ObjectMeta: b.Meta(primary)}, client.GracePeriodSeconds(0)))
	leader := b.awaitLeader("shop", primary)
	w.awaitAcks(20)
	record := &corev1.ConfigMap{ObjectMeta: b.Meta("shop-released")}
	b.Await(record, "all pods to run again", func() bool { return len(b.running("shop")) == 3 })
	before := b.running("shop")

	second := wanted()
	b.Must(b.Create(t.Context(), second))
	b.awaitInstances(second, 3)
	b.AwaitGone(record)
	b.AwaitTrue(second, v1alpha1.ConditionUpToDate)
	if now := b.running("shop"); !maps.Equal(now, before) {
		t.Errorf("pods %v, and now %v", before, now)
	}
	status := second.Status
	if status.Primary != leader || status.Identity != first.UID || status.SystemIdentifier != first.Status.SystemIdentifier {
		t.Errorf("primary %s, identity %s, system %s", status.Primary, status.Identity, status.SystemIdentifier)
	}
	// The repository knows it, too: WAL continues in the same lineage, and a backup fits into it.
	b.AwaitTrue(second, v1alpha1.ConditionArchiving)
	if backup := b.Backup("after", "shop"); backup.Status.Plan.Lineage != first.Status.Archive.Lineage {
		t.Errorf("the backup is in lineage %s, and WAL was in %s", backup.Status.Plan.Lineage, first.Status.Archive.Lineage)
	}
	w.judge()
}
