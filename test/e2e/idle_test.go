//go:build e2e

package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/audit"
)

func TestAnIdleServerCausesNoWrites(t *testing.T) {
	t.Parallel()
	if seen := idle(t, 1); seen.leases > 0 {
		t.Errorf("a single server has renewed a lease %d times", seen.leases)
	}
}

func TestAnIdleClusterOfThreeWritesItsLeaseAndNothingElse(t *testing.T) {
	t.Parallel()
	// The lease is renewed each 3.4 seconds, and the watches of it end now and then.
	if seen := idle(t, 3); seen.leases == 0 || seen.leases > 18 || seen.leases+seen.reads > 21 {
		t.Errorf("in a minute the lease was written %d times, and %d times somebody read something", seen.leases, seen.reads)
	}
}

// idle looks for a minute at a cluster that has nothing to do. What is written besides the Lease is a failure.
func idle(t *testing.T, instances int32) traffic {
	t.Helper()
	log := audit.Log(t)
	b := newBed(t, "minio")
	// The database is to be idle too: what a young one vacuums and analyzes by itself is WAL that is archived, and news.
	cluster := b.NewCluster("shop", 17)
	cluster.Spec.PostgreSQL.Parameters = map[string]v1alpha1.ParameterValue{"autovacuum": "off", "checkpoint_timeout": "30min"}
	cluster.Spec.Instances = instances
	b.Must(b.Create(t.Context(), cluster))
	b.AwaitTrue(cluster, v1alpha1.ConditionReady)
	b.AwaitTrue(cluster, v1alpha1.ConditionArchiving)
	if instances > 1 {
		b.AwaitTrue(cluster, v1alpha1.ConditionReplicated)
	}
	b.Backup("base", "shop")
	b.SQL("shop", "CHECKPOINT", "SELECT pg_switch_wal()")
	b.awaitRest(cluster)
	from := time.Now()
	excused := b.newsOfTheDisk(cluster)
	seen := trafficOf(t, log, b.Namespace, from)
	t.Logf("in %s: %d renewals of the lease, %d reads", idleWindow, seen.leases, seen.reads)
	if len(seen.writes) > excused {
		t.Errorf("in %s of idleness the suite wrote, %d times of them because others had filled the disk:\n%s",
			idleWindow, excused, strings.Join(seen.writes, "\n"))
	}
	return seen
}

// What was archived last is published once a minute at most, so the last news may come that late.
const calm, idleWindow = 90 * time.Second, time.Minute

// awaitRest waits until nothing but the disk's use has changed of a cluster for a while.
func (b *bed) awaitRest(cluster *v1alpha1.PostgresCluster) {
	b.Helper()
	said, since := "", time.Now()
	b.Await(cluster, "its status to rest", func() bool {
		if now := butForTheDisk(b, cluster); now != said {
			said, since = now, time.Now()
		}
		return time.Since(since) > calm
	})
}

// newsOfTheDisk looks at a cluster for as long as the window lasts, and counts how often nothing changed but how full its
// volumes are: those of the test bed share the machine's disk, which others write to.
func (b *bed) newsOfTheDisk(cluster *v1alpha1.PostgresCluster) (count int) {
	b.Helper()
	end := time.After(idleWindow)
	for ticker := time.NewTicker(time.Second / 2); ; {
		select {
		case <-end:
			return count
		case <-ticker.C:
		}
		version, said := cluster.ResourceVersion, butForTheDisk(b, cluster)
		b.Must(b.Get(b.Context(), client.ObjectKeyFromObject(cluster), cluster))
		if cluster.ResourceVersion != version && butForTheDisk(b, cluster) == said {
			count++
		}
	}
}

// butForTheDisk is what a status says besides how full the volumes are.
func butForTheDisk(b *bed, cluster *v1alpha1.PostgresCluster) string {
	b.Helper()
	status := cluster.Status.DeepCopy()
	for i := range status.Instances {
		if storage := status.Instances[i].Storage; storage != nil {
			storage.Used, storage.Percent = nil, 0
		}
	}
	text, err := json.Marshal(status)
	b.Must(err)
	return string(text)
}

// traffic is what the suite and a cluster's own pods ask of the API server.
type traffic struct {
	writes        []string
	leases, reads int
}

// trafficOf a namespace in the window, however late its end was noticed.
func trafficOf(t *testing.T, log, namespace string, from time.Time) traffic {
	t.Helper()
	var seen traffic
	for _, r := range audit.Between(t, log, namespace, from, from.Add(idleWindow)) {
		user := r.User.Username
		if !strings.HasPrefix(user, "system:serviceaccount:howdah-system:") && !strings.HasPrefix(user, "system:serviceaccount:"+namespace+":") {
			continue
		}
		if r.Reads() && strings.HasSuffix(user, ":backup-controller") {
			continue // that is for the repository: it is looked through every few minutes, whoever archives there
		}
		if r.Reads() {
			seen.reads++
			continue
		}
		if r.ObjectRef.Resource == "leases" {
			seen.leases++
		} else {
			seen.writes = append(seen.writes, user+" "+r.Verb+" "+r.ObjectRef.Resource+"/"+r.ObjectRef.Name+" "+r.ObjectRef.Subresource)
		}
	}
	return seen
}
