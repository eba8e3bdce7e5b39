//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"

	"howdah.dev/apis/v1alpha1"
)

func TestADelayedReplicaHasWhatWasDeletedAndServesNobody(t *testing.T) {
	t.Parallel()
	b := newBed(t, "minio")
	cluster := b.replicated(17)
	b.SQL("shop", "CREATE TABLE orders AS SELECT generate_series(1, 100) AS id")
	rows := func() string {
		rows, _ := b.SQLOn("shop-2", "SELECT count(*) FROM orders")
		return rows
	}
	late := func() v1alpha1.InstanceStatus { return cluster.Status.Instances[2] }
	if late().Role == v1alpha1.RolePrimary {
		t.Fatal("the first primary is another instance")
	}
	b.Await(cluster, "shop-2 to have the rows", func() bool { return rows() == "100" })
	b.Merge(cluster, `{"spec":{"delayedReplicas":[{"name":"shop-2","delay":"1h"}]}}`)
	b.Await(cluster, "the delay", func() bool { return late().DelaySeconds == 3600 && !late().Eligible })
	b.SQL("shop", "DELETE FROM orders")

	primary, replicas := b.addresses(cluster)
	address := b.Pod("shop-2").Status.PodIP
	replicas = slices.DeleteFunc(replicas, func(a string) bool { return a == address })
	for service, want := range map[string][]string{"shop-ro": replicas, "shop-r": append(replicas, primary...)} {
		b.awaitEndpoints(service, want)
	}
	b.Merge(cluster, `{"spec":{"switchover":{"token":"late","to":"shop-2"}}}`)
	b.Await(cluster, "the switchover to be refused", func() bool {
		s := cluster.Status.Switchover
		return s != nil && s.Token == "late" && s.State == v1alpha1.SwitchoverRefused && strings.Contains(s.Message, "is a delayed replica")
	})
	if got := rows(); got != "100" {
		t.Errorf("shop-2 has %q rows", got)
	}
	b.Merge(cluster, `{"spec":{"delayedReplicas":null}}`)
	b.Await(cluster, "shop-2 to replay", func() bool { return rows() == "0" && late().Eligible })
}
