//go:build e2e

package e2e

import (
	"maps"
	"strings"
	"testing"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/writes"
)

// copies are the folders that the instances run on.
func (b *bed) copies(cluster *v1alpha1.PostgresCluster) map[string]string {
	b.Helper()
	found := map[string]string{}
	for _, instance := range cluster.Status.Instances {
		folder, err := b.SQLOn(instance.Name, "SHOW data_directory")
		b.Must(err)
		found[instance.Name] = strings.TrimSpace(folder)
	}
	return found
}

func TestAClusterGoesOnWithTheVolumesOfADeletedOneAndLosesNothing(t *testing.T) {
	onlyInFull(t, "the agent and the db-controller have tests of each part of it")
	t.Parallel()
	b := newBed(t, "minio")
	wanted := func() *v1alpha1.PostgresCluster {
		cluster := b.NewCluster("shop", 17)
		cluster.Spec.Instances = 3
		cluster.Spec.DeletionPolicy = v1alpha1.DeletionPolicy{Volumes: v1alpha1.VolumesRetain, FinalBackup: ptr.To(false)}
		return cluster
	}
	first := wanted()
	b.Must(b.Create(t.Context(), first))
	b.awaitInstances(first, 3)
	w := b.startWriter("shop")
	b.switchOver(first, "elsewhere")
	w.awaitAcks(20)
	before := b.copies(first)
	b.Must(b.Delete(t.Context(), first))
	b.AwaitGone(first)
	acks := w.acks() // the last that there will be: nobody else knows the password
	b.Must(b.Delete(t.Context(), w.pod, client.GracePeriodSeconds(0)))

	second := wanted()
	second.Spec.Bootstrap = &v1alpha1.Bootstrap{Volumes: &v1alpha1.BootstrapVolumes{From: v1alpha1.VolumesOfDeletedCluster}}
	b.Must(b.Create(t.Context(), second))
	b.awaitInstances(second, 3)
	present := map[writes.Row]bool{}
	for _, number := range strings.Fields(b.SQL("shop", "SELECT n FROM numbers")) {
		present[w.row(number)] = true
	}
	if lost := writes.Lost(acks, present); len(lost) > 0 || len(acks) < 25 {
		t.Errorf("%d of %d acknowledged rows are lost: %v", len(lost), len(acks), lost)
	}
	if now := b.copies(second); !maps.Equal(now, before) {
		t.Errorf("instances run on %v, and ran on %v", now, before)
	}
	status := second.Status
	if status.Identity != first.UID || status.DataGeneration != first.Status.DataGeneration || status.DataInstance == "shop-0" {
		t.Errorf("identity %s, data generation %s, begun by %s", status.Identity, status.DataGeneration, status.DataInstance)
	}
	b.AwaitTrue(second, v1alpha1.ConditionArchiving)
	if second.Status.Archive.Lineage != first.Status.Archive.Lineage {
		t.Errorf("WAL goes to lineage %s, and went to %s", second.Status.Archive.Lineage, first.Status.Archive.Lineage)
	}
	b.awaitLogin(second, "app", string(b.app("shop")["password"]), "app")
}
