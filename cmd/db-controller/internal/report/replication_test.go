package report

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
)

func TestReplicationIsJudgedByTheWorstReplica(t *testing.T) {
	synchronous := func(n int32, durability v1alpha1.Durability, members ...string) func(*observed.Cluster) {
		return func(o *observed.Cluster) {
			o.Cluster.Spec.Synchronous = &v1alpha1.Synchronous{Number: n, Durability: durability}
			o.Agents["shop-0"].Election.Members = members
		}
	}
	rejoin := func(r agentapi.RejoinStatus) func(*observed.Cluster) {
		return func(o *observed.Cluster) { observedtest.Unready(o, 2); o.Agents["shop-2"].Rejoin = &r }
	}
	for name, c := range map[string]struct {
		change          func(*observed.Cluster)
		reason, message string
	}{
		"all follow":         {nil, "Following", "All replicas follow shop-0 and could take over."},
		"one is missing":     {func(o *observed.Cluster) { observedtest.Lose(o, "shop-2") }, "ReplicaDown", "Pod shop-2 is being created."},
		"one is not ready":   {func(o *observed.Cluster) { observedtest.Unready(o, 1) }, "ReplicaDown", "PostgreSQL in pod shop-1 runs; Kubernetes has yet to see"},
		"one doesn't stream": {func(o *observed.Cluster) { o.Agents["shop-1"].Replication.Streaming = false }, "ReplicaDown", "shop-1 doesn't receive WAL from the primary."},
		"one reads the archive": {func(o *observed.Cluster) {
			o.Agents["shop-1"].Replication = &agentapi.ReplicationStatus{FromArchive: true}
		}, "Lagging", "shop-1 reads WAL from the archive: the primary no longer has what it needs."},
		"one is far behind": {func(o *observed.Cluster) { o.Agents["shop-1"].Replication.LagBytes = 100 << 20 }, "Lagging", "shop-1 lags at least 64 MiB behind the primary."},
		"one lacks only what was written just now": {func(o *observed.Cluster) {
			o.Agents["shop-1"].Replication.LagBytes, o.Agents["shop-1"].Replication.OverdueBytes = 100<<20, new(int64(5<<20))
		}, "Following", ""},
		"one lacks more than that": {func(o *observed.Cluster) {
			o.Agents["shop-1"].Replication.LagBytes, o.Agents["shop-1"].Replication.OverdueBytes = 100<<20, new(int64(70<<20))
		}, "Lagging", "shop-1 lags at least 64 MiB behind the primary."},
		"one is a little":      {func(o *observed.Cluster) { o.Agents["shop-1"].Replication.LagBytes = 5 << 20 }, "Following", ""},
		"one is no member yet": {func(o *observed.Cluster) { o.Agents["shop-0"].Election.Members = []string{"shop-1"} }, "Joining", "shop-2 follows the primary, but is not a member yet"},
		"one is cloned":        {rejoin(agentapi.RejoinStatus{Method: "Clone", Source: "shop-0", BytesDone: 40, BytesTotal: 200}), "Cloning", "shop-2 is being cloned from shop-0: 20 %."},
		"one is cloned again":  {rejoin(agentapi.RejoinStatus{Method: "Clone", Source: "shop-0", Message: "no space"}), "Cloning", "0 %. The previous attempt failed: no space."},
		"one is rewound":       {rejoin(agentapi.RejoinStatus{Method: "Rewind", Source: "shop-0"}), "Rewinding", "shop-2 is being rewound to follow the primary, shop-0."},
		"there is no primary":  {func(o *observed.Cluster) { o.Agents["shop-0"].Role = "replica" }, "Electing", "There is no primary to follow."},
		"one is fenced": {func(o *observed.Cluster) {
			observedtest.Unready(o, 1)
			o.Cluster.Spec.Failover = &v1alpha1.Failover{Fenced: []v1alpha1.InstanceName{"shop-1"}}
			o.Agents["shop-1"].State = agentapi.StateStopped
		}, "Fenced", "shop-1 is fenced: its PostgreSQL is stopped"},
		"one is a delayed replica that receives nothing at the moment": {func(o *observed.Cluster) {
			late(o, "shop-2")
			o.Agents["shop-2"].Replication = &agentapi.ReplicationStatus{DelaySeconds: 14400}
			o.Agents["shop-0"].Election.Members = []string{"shop-1"}
		}, "Following", "could take over. shop-2 is a delayed replica (4h0m0s) and doesn't take over."},
		"all replicas are delayed": {func(o *observed.Cluster) {
			late(o, "shop-1")
			o.Cluster.Spec.DelayedReplicas = append(o.Cluster.Spec.DelayedReplicas, v1alpha1.DelayedReplica{Name: "shop-2", Delay: metav1.Duration{Duration: time.Hour}})
			o.Agents["shop-0"].Election.Members = nil
		}, "Following", "No other instance could take over from shop-0. shop-1 is a delayed replica"},
		"the primary is to be a delayed replica": {func(o *observed.Cluster) { late(o, "shop-0") }, "Following", "shop-0 is the primary: it becomes a delayed replica (spec.delayedReplicas) with the next switchover"},
		"commits wait":                           {synchronous(2, v1alpha1.DurabilityRequired, "shop-1"), "CommitsWaiting", "Commits wait: 2 replicas must confirm them, and only 1 can."},
		"commits need not wait":                  {synchronous(2, v1alpha1.DurabilityPreferred, "shop-1"), "Joining", "shop-2"},
		"commits don't wait for replicas that are being built": {func(o *observed.Cluster) {
			synchronous(2, v1alpha1.DurabilityRequired, "shop-1")(o)
			o.Agents["shop-0"].Election.Degraded, o.Agents["shop-0"].Election.Quorum = true, 1
			rejoin(agentapi.RejoinStatus{Method: "Clone", Source: "shop-0", BytesDone: 40, BytesTotal: 200})(o)
		}, "DurabilityReduced", "commits wait for 1 replicas instead of 2, because those are being built after the data was replaced"},
		"enough have commits": {synchronous(1, v1alpha1.DurabilityRequired, "shop-1", "shop-2"), "Following", ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := observedtest.Trio(c.change)
			Write(o, flow.Next)
			got := meta.FindStatusCondition(o.Cluster.Status.Conditions, v1alpha1.ConditionReplicated)
			if got == nil || got.Reason != c.reason || !strings.Contains(got.Message, c.message) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestAnAgentOfAReplicaThatIsSilentForAMomentChangesNothing(t *testing.T) {
	o := observedtest.Trio(nil)
	Write(o, flow.Next)
	delete(o.Agents, "shop-1")
	Write(o, flow.Next)
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionUpToDate, v1alpha1.ConditionReplicated} {
		if !meta.IsStatusConditionTrue(o.Cluster.Status.Conditions, kind) {
			t.Errorf("%s: %+v", kind, meta.FindStatusCondition(o.Cluster.Status.Conditions, kind))
		}
	}
}

func TestAPrimaryThatWasNotHeardOfSinceIsNoneAnyMore(t *testing.T) {
	o := observedtest.Trio(nil)
	Write(o, flow.Next)
	observedtest.SwitchedTo(o, "shop-1")
	delete(o.Agents, "shop-0")
	observedtest.Unready(o, 0)
	Write(o, flow.Next)
	if s := o.Cluster.Status; s.Primary != "shop-1" || s.Instances[0].Role != "" || s.Instances[1].Role != v1alpha1.RolePrimary || s.ReadyInstances != 2 {
		t.Errorf("got %+v", s)
	}
}

func TestALagIsPublishedRoughly(t *testing.T) {
	for lag, want := range map[int64]int64{0: 0, 1<<20 - 1: 0, 1 << 20: 1 << 20, 3 << 20: 2 << 20, 17 << 20: 16 << 20, 1 << 40: 1 << 40} {
		if got := roughBytes(lag); got != want {
			t.Errorf("%d bytes: %d", lag, got)
		}
	}
	for lag, want := range map[float64]int64{0: 0, 9.9: 0, 10: 10, 59: 50, 61: 60, 3599: 3540} {
		if got := roughSeconds(lag); got != want {
			t.Errorf("%g seconds: %d", lag, got)
		}
	}
}

func TestTheProgressOfACloneIsPublishedByThePercent(t *testing.T) {
	at := func(done int64, before *v1alpha1.RejoinStatus) *v1alpha1.RejoinStatus {
		return rejoinOf(&agentapi.RejoinStatus{Method: "Clone", Source: "shop-0", BytesDone: done, BytesTotal: 10_000}, before)
	}
	first := at(100, nil)
	if first.Percent != 1 || first.BytesDone != 100 {
		t.Errorf("at first: %+v", first)
	}
	if same := at(150, first); *same != *first {
		t.Errorf("half a percent later: %+v", same)
	}
	if next := at(200, first); next.Percent != 2 || next.BytesDone != 200 {
		t.Errorf("a percent later: %+v", next)
	}
	if rejoinOf(nil, first) != nil {
		t.Error("it is never over")
	}
}

func TestTheLimitsOfReplicasAreRecordedOnceThePrimaryRunsWithThem(t *testing.T) {
	o := observedtest.Trio(observedtest.WaitsFor("max_connections", "200", "shop-0"))
	Write(o, flow.Next)
	if len(o.Cluster.Status.StandbyLimits) != 0 {
		t.Errorf("before: %v", o.Cluster.Status.StandbyLimits)
	}
	o.Agents["shop-0"].PendingRestart = nil
	Write(o, flow.Next)
	if got := o.Cluster.Status.StandbyLimits; len(got) != 1 || got["max_connections"] != "200" {
		t.Errorf("after: %v", got)
	}
}

func TestReducedDurabilityIsReportedSinceItBeganAndUntilItEnds(t *testing.T) {
	o := observedtest.Trio(nil)
	o.Cluster.Spec.Synchronous = &v1alpha1.Synchronous{Number: 1, DuringRebuild: v1alpha1.RebuildDegrade}
	o.Agents["shop-0"].Election.Degraded, o.Agents["shop-0"].Election.Members = true, nil
	began := o.Now
	Write(o, flow.Next)
	o.Now = o.Now.Add(time.Minute)
	Write(o, flow.Next)
	if since := o.Cluster.Status.Synchronous.ReducedSince; since == nil || !since.Time.Equal(began) {
		t.Errorf("since %v, and it began at %v", since, began)
	}
	got := meta.FindStatusCondition(o.Cluster.Status.Conditions, v1alpha1.ConditionReplicated)
	if got.Reason != v1alpha1.ReasonDurabilityReduced || !strings.Contains(got.Message, "This ends automatically once 1 replicas can confirm commits.") {
		t.Errorf("%+v", got)
	}
	o.Agents["shop-0"].Election.Degraded, o.Agents["shop-0"].Election.Members = false, []string{"shop-1", "shop-2"}
	Write(o, flow.Next)
	got = meta.FindStatusCondition(o.Cluster.Status.Conditions, v1alpha1.ConditionReplicated)
	if o.Cluster.Status.Synchronous.ReducedSince != nil || got.Reason != v1alpha1.ReasonFollowing {
		t.Errorf("once it is over: %+v, %+v", o.Cluster.Status.Synchronous, got)
	}
}

func late(o *observed.Cluster, name string) {
	o.Cluster.Spec.DelayedReplicas = []v1alpha1.DelayedReplica{{Name: name, Delay: metav1.Duration{Duration: 4 * time.Hour}}}
}
