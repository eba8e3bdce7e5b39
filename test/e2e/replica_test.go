//go:build e2e

package e2e

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/place"
)

// replicated makes a cluster of three and waits until both replicas follow.
func (b *bed) replicated(version int32) *v1alpha1.PostgresCluster {
	b.Helper()
	cluster := b.NewCluster("shop", version)
	cluster.Spec.Instances = 3
	b.Must(b.Create(b.Context(), cluster))
	b.awaitInstances(cluster, 3)
	return cluster
}

// awaitInstances waits until this many instances serve, and every replica among them follows.
func (b *bed) awaitInstances(cluster *v1alpha1.PostgresCluster, count int) {
	b.Helper()
	b.Await(cluster, fmt.Sprintf("%d instances", count), func() bool {
		if c := place.Condition(cluster, v1alpha1.ConditionReady); c == nil || c.Status != metav1.ConditionTrue {
			return false
		}
		if c := place.Condition(cluster, v1alpha1.ConditionReplicated); count > 1 && (c == nil || c.Status != metav1.ConditionTrue) {
			return false
		}
		return int(cluster.Status.ReadyInstances) == count && len(cluster.Status.Instances) == count
	})
}

// sameEverywhere fails the test unless each instance has the table t as the primary has it, once it has caught up.
func (b *bed) sameEverywhere(cluster *v1alpha1.PostgresCluster) {
	b.Helper()
	want := b.SQL("shop", sum)
	for _, instance := range cluster.Status.Instances {
		b.Await(cluster, instance.Name+" to have what the primary has", func() bool {
			got, err := b.SQLOn(instance.Name, sum)
			return err == nil && got == want
		})
	}
}

func TestAClusterGrowsToThreeInstancesAndShrinksWithItsRows(t *testing.T) {
	onlyInFull(t, "the quickstart scales a cluster")
	t.Parallel()
	for _, version := range versionsToTry() {
		t.Run(fmt.Sprint("PostgreSQL ", version), func(t *testing.T) {
			t.Parallel()
			b := newBed(t, "minio")
			cluster := b.Cluster("shop", version)
			b.SQL("shop", "CREATE TABLE t AS SELECT n, md5(n::text) FROM generate_series(1, 20000) AS n")
			w := b.startWriter("shop")

			b.scale(3)
			b.awaitInstances(cluster, 3)
			b.sameEverywhere(cluster)
			b.SQL("shop", "INSERT INTO t SELECT n, 'later' FROM generate_series(1, 1000) AS n")
			b.sameEverywhere(cluster)

			b.scale(2)
			b.awaitInstances(cluster, 2)
			b.sameEverywhere(cluster)
			b.AwaitGone(&corev1.Pod{ObjectMeta: b.Meta("shop-2")})
			w.judge()
		})
	}
}

// scale as a person would.
func (b *bed) scale(instances int) {
	b.Helper()
	out, err := exec.Command(place.Kubectl(b.T), "scale", "-n", b.Namespace, "pgc/shop", fmt.Sprintf("--replicas=%d", instances)).CombinedOutput()
	if err != nil {
		b.Fatalf("kubectl scale: %v: %s", err, out)
	}
}

func TestTheServicesLeadToTheInstancesThatTheyNameAndFollowASwitchover(t *testing.T) {
	onlyInFull(t, "the tests of switchovers use the Services")
	t.Parallel()
	b := newBed(t, "minio")
	cluster := b.replicated(17)
	b.ClientPod("client", "shop", "registry.local/postgresql:17", "sleep", "infinity")
	check := func() {
		t.Helper()
		primary, replicas := b.addresses(cluster)
		for service, want := range map[string][]string{"shop-rw": primary, "shop-ro": replicas, "shop-r": append(primary, replicas...)} {
			b.awaitEndpoints(service, want)
		}
		for service, recovering := range map[string]string{"shop-rw": "f", "shop-ro": "t"} {
			b.Await(cluster, service+" to lead there", func() bool {
				out, err := b.Exec("client", "psql", "host="+service+"."+b.Namespace+".svc", "-XAtc", "SELECT pg_is_in_recovery()")
				return err == nil && out == recovering
			})
		}
		// The URI says all that psql needs, as a Service Binding mounts it.
		if out, err := b.Exec("client", "env", "-i", "sh", "-c", `psql "$(cat /bindings/shop-app/uri-verify-full)" -XAtc "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"`); err != nil || out != "t" {
			t.Errorf("uri-verify-full: %v: %s", err, out)
		}
	}
	check()
	before := cluster.Status.Primary
	b.Merge(cluster, `{"spec":{"switchover":{"token":"once"}}}`)
	b.Await(cluster, "the switchover", func() bool {
		done := cluster.Status.Switchover
		return done != nil && done.Token == "once" && done.State == v1alpha1.SwitchoverDone
	})
	b.awaitInstances(cluster, 3)
	if cluster.Status.Primary == before {
		t.Errorf("%s is still the primary", before)
	}
	check()

	b.Merge(cluster, `{"spec":{"switchover":{"token":"twice","to":"shop-7"}}}`)
	b.Await(cluster, "the switchover to be refused", func() bool {
		done := cluster.Status.Switchover
		return done != nil && done.Token == "twice" && done.State == v1alpha1.SwitchoverRefused && strings.Contains(done.Message, "shop-7")
	})
}

// addresses of the instances by their role in status.
func (b *bed) addresses(cluster *v1alpha1.PostgresCluster) (primary, replicas []string) {
	b.Helper()
	for _, instance := range cluster.Status.Instances {
		if address := b.Pod(instance.Name).Status.PodIP; instance.Role == v1alpha1.RolePrimary {
			primary = append(primary, address)
		} else {
			replicas = append(replicas, address)
		}
	}
	return primary, replicas
}

// awaitEndpoints waits until a Service leads to these addresses, and to no other.
func (b *bed) awaitEndpoints(service string, want []string) {
	b.Helper()
	b.Await(&corev1.Service{ObjectMeta: b.Meta(service)}, fmt.Sprintf("to lead to %v", want), func() bool {
		slices := &discoveryv1.EndpointSliceList{}
		b.Must(b.List(b.Context(), slices, client.InNamespace(b.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service}))
		have := map[string]bool{}
		for _, slice := range slices.Items {
			for _, endpoint := range slice.Endpoints {
				have[endpoint.Addresses[0]] = true
			}
		}
		for _, address := range want {
			if !have[address] {
				return false
			}
		}
		return len(have) == len(want)
	})
}

func TestAReplicaWhoseDataIsDamagedIsClonedAgainByItself(t *testing.T) {
	onlyInFull(t, "the agent's own tests damage replicas")
	t.Parallel()
	b := newBed(t, "minio")
	cluster := b.replicated(17)
	b.SQL("shop", "CREATE TABLE t AS SELECT n, md5(n::text) FROM generate_series(1, 20000) AS n")
	b.sameEverywhere(cluster)
	w := b.startWriter("shop")
	replica := ""
	for _, instance := range cluster.Status.Instances {
		if instance.Role == v1alpha1.RoleReplica {
			replica = instance.Name
		}
	}
	_, err := b.Exec(replica, "sh", "-c", `cd /var/lib/howdah/current/pgdata && echo damaged > global/pg_control && kill -9 $(head -1 postmaster.pid)`)
	b.Must(err)
	b.Await(cluster, replica+" to be cloned", func() bool {
		out, err := b.Exec(replica, "readlink", "/var/lib/howdah/current")
		return err == nil && strings.Contains(out, ".c")
	})
	b.awaitInstances(cluster, 3)
	b.sameEverywhere(cluster)
	w.judge()
}

// A person who distrusts one copy has it replaced. It stays on the volume for a while.
func TestAReplicaIsClonedAgainOnRequestOnceAndThePrimaryIsRefused(t *testing.T) {
	onlyInFull(t, "the agent's and the db-controller's own tests clone on request, and another test clones what is damaged")
	t.Parallel()
	b := newBed(t, "minio")
	cluster := b.replicated(17)
	w := b.startWriter("shop")
	reinit := func(instance, token string, state v1alpha1.ReinitState) {
		b.Merge(cluster, fmt.Sprintf(`{"spec":{"reinit":{"instance":%q,"token":%q}}}`, instance, token))
		b.Await(cluster, "the clone "+token+" to be "+string(state), func() bool {
			s := cluster.Status.Reinit
			return s != nil && s.Token == token && s.State == state
		})
	}
	copyOf := func(instance string) string {
		out, err := b.Exec(instance, "readlink", "/var/lib/howdah/current")
		b.Must(err)
		return strings.TrimSpace(out)
	}
	reinit(cluster.Status.Primary, "primary", v1alpha1.ReinitRefused)
	replica := ""
	for _, instance := range cluster.Status.Instances {
		if instance.Role == v1alpha1.RoleReplica {
			replica = instance.Name
		}
	}
	before := copyOf(replica)
	reinit(replica, "once", v1alpha1.ReinitDone)
	after := copyOf(replica)
	if after == before {
		t.Errorf("%s still has the copy %s", replica, before)
	}
	if _, err := b.Exec(replica, "test", "-f", "/var/lib/howdah/"+before+"/pgdata/PG_VERSION"); err != nil {
		t.Errorf("the copy that was replaced is lost: %v", err)
	}
	b.awaitInstances(cluster, 3)
	pod := b.Pod(replica)
	b.Must(b.Delete(t.Context(), pod)) // another agent reads the request, which was carried out
	b.Await(cluster, "another pod", func() bool {
		now := &corev1.Pod{}
		return b.Get(t.Context(), keyOf(pod), now) == nil && now.UID != pod.UID && now.Status.Phase == corev1.PodRunning
	})
	b.awaitInstances(cluster, 3)
	if again := copyOf(replica); again != after {
		t.Errorf("the request was carried out again: %s", again)
	}
	w.judge()
}

func TestAParameterThatNeedsARestartIsAppliedWithShortGapsAndLosesNothing(t *testing.T) {
	onlyInFull(t, "the same parameter is lowered behind a pooler, and the order of restarts has tests of its own")
	t.Parallel()
	b := newBed(t, "minio")
	cluster := b.replicated(17)
	w := b.startWriter("shop")
	// A lower limit than before: replicas must not have less than their primary, so that the order is the hard one.
	for _, limit := range []string{"150", "60"} {
		b.Merge(cluster, `{"spec":{"postgresql":{"parameters":{"max_connections":"`+limit+`"}}}}`)
		b.AwaitTrue(cluster, v1alpha1.ConditionUpToDate)
		b.awaitInstances(cluster, 3)
		for _, instance := range cluster.Status.Instances {
			if got, err := b.SQLOn(instance.Name, "SHOW max_connections"); err != nil || got != limit {
				t.Errorf("%s has max_connections %s, %v", instance.Name, got, err)
			}
		}
	}
	if gap := w.judge(); gap.Seconds() > slow {
		t.Errorf("writes stood still for %s", gap)
	}
}

// clonedWithOwnFiles fails the test unless the replicas took what their volumes had.
func (b *bed) clonedWithOwnFiles(cluster *v1alpha1.PostgresCluster) {
	b.Helper()
	for _, instance := range cluster.Status.Instances {
		if instance.Name == cluster.Status.Primary {
			continue
		}
		out, err := exec.Command(place.Kubectl(b.T), "logs", "-n", b.Namespace, instance.Name, "--all-containers").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "cloned with files of this volume") {
			b.Errorf("%s fetched everything: %v", instance.Name, err)
		}
	}
}

func TestAReplicatedClusterIsUpgradedAndRestored(t *testing.T) {
	onlyInFull(t, "the quickstart upgrades and restores")
	t.Parallel()
	b := newBed(t, "minio")
	cluster := b.replicated(15)
	b.SQL("shop", "CREATE TABLE t AS SELECT n, md5(n::text) FROM generate_series(1, 20000) AS n")
	before := b.SQL("shop", sum)
	w := b.startWriter("shop")
	upgrade := b.upgradeTo("up", 17, false)
	b.AwaitTrue(upgrade, v1alpha1.ConditionSucceeded)
	b.awaitInstances(cluster, 3)
	w.judge()
	b.sameEverywhere(cluster)
	b.clonedWithOwnFiles(cluster)
	if got := b.SQL("shop", sum); got != before || cluster.Status.MajorVersion != 17 {
		t.Errorf("on %s the table has %s, not %s", cluster.Status.Version, got, before)
	}

	b.Backup("base", "shop")
	restore := b.restoreOf("again", nil)
	b.Must(b.Create(t.Context(), restore))
	b.AwaitTrue(restore, v1alpha1.ConditionSucceeded)
	restored := &v1alpha1.PostgresCluster{ObjectMeta: b.Meta("again")}
	b.awaitInstances(restored, 3)
	if got := b.SQL("again", sum); got != before {
		t.Errorf("the restored table has %s, not %s", got, before)
	}
}
