//go:build e2e

package e2e

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/audit"
)

// An idle cluster of three writes its Lease, which it renews every 3.4 seconds. One that renews it through its members writes it once in
// two minutes, and a single one writes nothing at all. All are looked at in the same minute.
func TestIdleClustersWriteTheLeaseOfReplicasAndNothingElse(t *testing.T) {
	onlyInFull(t, "it takes four minutes, in which fewer of the other tests may run, and budgets of a quiet pass have tests of their own")
	t.Parallel()
	log := audit.Log(t)
	single, three, byWord := newIdle(t, 1, ""), newIdle(t, 3, v1alpha1.RenewalAPIServer), newIdle(t, 3, v1alpha1.RenewalMembers)
	single.await()
	three.await()
	byWord.await()
	awaitRest(single, three, byWord)
	from := time.Now()
	watchDisks(single, three, byWord)
	if seen := single.judge(log, from); seen.leases > 0 {
		t.Errorf("a single server has renewed a lease %d times", seen.leases)
	}
	if seen := three.judge(log, from); seen.leases == 0 || seen.leases > 18 || seen.leases+seen.reads > 21 { // its watches end now and then
		t.Errorf("in a minute the lease was written %d times, and %d times somebody read something", seen.leases, seen.reads)
	}
	// On a busy machine an answer may be late, and then the lease is renewed until all answer again.
	if seen := byWord.judge(log, from); byWord.renewed > 1 || seen.reads > 3 {
		t.Errorf("through the members the lease was renewed %d times in a minute (%d writes), and %d times somebody read something", byWord.renewed, seen.leases, seen.reads)
	}
}

// What was archived last is published once a minute at most, so the last news may come that late.
const calm, idleWindow = 90 * time.Second, time.Minute

// idle is a cluster that has nothing to do, in a namespace of its own.
type idle struct {
	*bed
	cluster *v1alpha1.PostgresCluster
	onDisk  int // how often nothing changed but how full its volumes are, or how the lease is kept
	lease   *coordinationv1.Lease
	renewed int // how often the lease was written though the members keep it, and nothing else of it changed
}

// newIdle creates one. The database is to be idle too: what a young one vacuums and analyzes by itself is WAL that is
// archived, and news.
func newIdle(t *testing.T, instances int32, renewal v1alpha1.LeaseRenewal) *idle {
	t.Helper()
	i := &idle{bed: newBed(t, "minio"), lease: &coordinationv1.Lease{}}
	i.cluster = i.NewCluster("shop", 17)
	i.cluster.Spec.PostgreSQL.Parameters = map[string]v1alpha1.ParameterValue{"autovacuum_naptime": "1h", "checkpoint_timeout": "30min"}
	i.cluster.Spec.Instances = instances
	if renewal != "" {
		i.cluster.Spec.Failover = &v1alpha1.Failover{Renewal: renewal}
	}
	i.Must(i.Create(t.Context(), i.cluster))
	return i
}

// await waits until the cluster has done all that it does by itself.
func (i *idle) await() {
	i.Helper()
	i.AwaitTrue(i.cluster, v1alpha1.ConditionReady)
	i.AwaitTrue(i.cluster, v1alpha1.ConditionArchiving)
	if i.cluster.Spec.Instances > 1 {
		i.AwaitTrue(i.cluster, v1alpha1.ConditionReplicated)
	}
	i.Backup("base", "shop")
	i.SQL("shop", "CHECKPOINT", "SELECT pg_switch_wal()")
}

// awaitRest waits until nothing but the disk's use has changed of the clusters for a while.
func awaitRest(clusters ...*idle) {
	first := clusters[0]
	first.Helper()
	said, since := "", time.Now()
	first.Await(first.cluster, "all to rest", func() bool {
		now := ""
		for _, i := range clusters {
			i.Must(i.Get(i.Context(), client.ObjectKeyFromObject(i.cluster), i.cluster))
			now += butForTheDisk(i.bed, i.cluster)
		}
		if now != said {
			said, since = now, time.Now()
		}
		return time.Since(since) > calm
	})
}

// watchDisks looks at clusters for as long as the window lasts, and counts how often nothing changed but how full their
// volumes are: those of the test bed share the machine's disk, which others write to.
func watchDisks(clusters ...*idle) {
	end := time.After(idleWindow)
	for ticker := time.NewTicker(time.Second / 2); ; {
		select {
		case <-end:
			return
		case <-ticker.C:
		}
		for _, i := range clusters {
			version, said := i.cluster.ResourceVersion, butForTheDisk(i.bed, i.cluster)
			i.Must(i.Get(i.Context(), client.ObjectKeyFromObject(i.cluster), i.cluster))
			if i.cluster.ResourceVersion != version && butForTheDisk(i.bed, i.cluster) == said {
				i.onDisk++
			}
			i.lookAtLease()
		}
	}
}

// lookAtLease counts writes of a Lease that the members keep, and that say nothing new. The first look is at one that was never seen.
func (i *idle) lookAtLease() {
	i.Helper()
	if i.cluster.Spec.Failover.ByMembers() {
		before := i.lease.DeepCopy()
		i.Must(i.Get(i.Context(), client.ObjectKeyFromObject(i.cluster), i.lease))
		if i.lease.ResourceVersion != before.ResourceVersion && maps.Equal(i.lease.Annotations, before.Annotations) && byMembers(i.lease) {
			i.renewed++
		}
	}
}

func byMembers(lease *coordinationv1.Lease) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(lease.Annotations)), func(text string) bool { return strings.Contains(text, `"wordSeconds"`) })
}

// judge says what was asked of the API server in the window. What was written besides the Lease is a failure.
func (i *idle) judge(log string, from time.Time) traffic {
	i.Helper()
	seen := trafficOf(i.T, log, i.Namespace, from)
	i.Logf("%d instances in %s: %d renewals of the lease, %d reads", i.cluster.Spec.Instances, idleWindow, seen.leases, seen.reads)
	if len(seen.writes) > i.onDisk {
		i.Errorf("%d instances wrote in %s of idleness, %d times of them because others had filled the disk:\n%s",
			i.cluster.Spec.Instances, idleWindow, i.onDisk, strings.Join(seen.writes, "\n"))
	}
	return seen
}

// butForTheDisk is what a status says besides how full the volumes are, and how the lease is kept.
func butForTheDisk(b *bed, cluster *v1alpha1.PostgresCluster) string {
	b.Helper()
	status := cluster.Status.DeepCopy()
	meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionAutomaticFailover)
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
