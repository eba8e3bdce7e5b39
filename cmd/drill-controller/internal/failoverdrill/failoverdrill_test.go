package failoverdrill

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/workload"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(after time.Duration) *metav1.Time { return &metav1.Time{Time: noon.Add(after)} }

// world is a drill of the cluster shop, of which shop-0 is the primary and all is well.
func world(changes ...func(*observed)) *observed {
	o := &observed{now: noon, drill: &v1alpha1.FailoverDrill{}, cluster: &v1alpha1.PostgresCluster{}}
	o.drill.ObjectMeta = metav1.ObjectMeta{Namespace: "demo", Name: "d", UID: "d", CreationTimestamp: *at(-time.Minute)}
	o.drill.Spec = v1alpha1.FailoverDrillSpec{Cluster: v1alpha1.LocalReference{Name: "shop"}, Fault: v1alpha1.FailoverFault{Type: v1alpha1.FaultDeletePrimaryPod}, MaxPerWeek: 2}
	o.cluster.ObjectMeta = metav1.ObjectMeta{Namespace: "demo", Name: "shop", UID: "c"}
	o.cluster.Spec.Instances, o.cluster.Spec.Archive = 3, &v1alpha1.ArchiveSpec{}
	follows := func(name string) v1alpha1.InstanceStatus {
		return v1alpha1.InstanceStatus{Name: name, PodUID: "p", Role: v1alpha1.RoleReplica, Ready: true, Streaming: true, Eligible: true}
	}
	o.cluster.Status = v1alpha1.PostgresClusterStatus{
		Primary: "shop-0", ReadyInstances: 3, Instances: []v1alpha1.InstanceStatus{
			{Name: "shop-0", PodUID: "p0", Role: v1alpha1.RolePrimary, Ready: true}, follows("shop-1"), follows("shop-2"),
		},
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}, {Type: v1alpha1.ConditionArchiving, Status: metav1.ConditionTrue}},
	}
	for _, change := range changes {
		change(o)
	}
	return o
}

func TestAFaultIsCausedOnlyWhereItIsSafe(t *testing.T) {
	mine := v1alpha1.LocalReference{Name: "shop"}
	for name, c := range map[string]struct {
		change func(*observed)
		kind   flow.Kind
		reason string
		says   string
	}{
		"all is well": {func(*observed) {}, flow.KindNext, "", ""},
		"a cluster that archives nowhere": {func(o *observed) {
			o.cluster.Spec.Archive, o.cluster.Status.Conditions = nil, o.cluster.Status.Conditions[:1]
		}, flow.KindNext, "", ""},
		"no cluster":                      {func(o *observed) { o.cluster = nil }, flow.KindStop, v1alpha1.ReasonClusterNotFound, "There is no PostgresCluster shop"},
		"a cluster that is being deleted": {func(o *observed) { o.cluster.DeletionTimestamp = at(0) }, flow.KindStop, v1alpha1.ReasonClusterReplaced, "is being deleted"},
		"one instance":                    {func(o *observed) { o.cluster.Spec.Instances = 1 }, flow.KindStop, v1alpha1.ReasonInvalidSpec, "has one instance"},
		"a switchover to the primary": {func(o *observed) {
			o.drill.Spec.Fault = v1alpha1.FailoverFault{Type: v1alpha1.FaultSwitchover, To: "shop-0"}
		}, flow.KindStop, v1alpha1.ReasonInvalidSpec, "is the primary already"},
		"a forced deletion where commits don't wait": {func(o *observed) { o.drill.Spec.Fault.Force = true }, flow.KindStop, v1alpha1.ReasonInvalidSpec, "could lose acknowledged commits"},
		"a forced deletion where they do": {func(o *observed) {
			o.drill.Spec.Fault.Force, o.cluster.Spec.Synchronous = true, &v1alpha1.Synchronous{Number: 1}
		}, flow.KindNext, "", ""},
		"a kill where commits don't wait": {func(o *observed) {
			o.drill.Spec.Fault = v1alpha1.FailoverFault{Type: v1alpha1.FaultKillPostmaster}
		}, flow.KindStop, v1alpha1.ReasonInvalidSpec, "the fault KillPostmaster could lose acknowledged commits"},
		"the stop of a replica that is the primary": {func(o *observed) {
			o.drill.Spec.Fault = v1alpha1.FailoverFault{Type: v1alpha1.FaultStopReplica, Instance: "shop-0"}
		}, flow.KindStop, v1alpha1.ReasonInvalidSpec, "shop-0 is the primary"},
		"the stop of a replica that isn't": {func(o *observed) {
			o.drill.Spec.Fault = v1alpha1.FailoverFault{Type: v1alpha1.FaultStopReplica, Instance: "shop-7"}
		}, flow.KindStop, v1alpha1.ReasonInvalidSpec, "has no instance shop-7"},
		"a cluster that hibernates": {func(o *observed) { o.cluster.Spec.Hibernate = true }, flow.KindWait, v1alpha1.ReasonUnsafe, "is hibernated"},
		"failover that is paused":   {func(o *observed) { o.cluster.Spec.Failover = &v1alpha1.Failover{PausedUntil: at(time.Hour)} }, flow.KindWait, v1alpha1.ReasonUnsafe, "spec.failover.pausedUntil"},
		"an instance that is fenced": {func(o *observed) {
			o.cluster.Spec.Failover = &v1alpha1.Failover{Fenced: []v1alpha1.InstanceName{"shop-2"}}
		}, flow.KindWait, v1alpha1.ReasonUnsafe, "shop-2 is fenced"},
		"repairs that are paused": {func(o *observed) {
			o.cluster.Spec.Repair = &v1alpha1.Repair{PausedFrom: at(-time.Hour), PausedUntil: at(time.Hour)}
		}, flow.KindWait, v1alpha1.ReasonUnsafe, "Repairs of PostgresCluster shop are paused"},
		"a cluster that is not Ready": {func(o *observed) { o.cluster.Status.Conditions[0].Status = metav1.ConditionFalse }, flow.KindWait, v1alpha1.ReasonClusterNotReady, "Waiting until PostgresCluster shop is Ready"},
		"a status of an older spec":   {func(o *observed) { o.cluster.Generation = 2 }, flow.KindWait, v1alpha1.ReasonClusterNotReady, ""},
		"an instance that is down":    {func(o *observed) { o.cluster.Status.ReadyInstances = 2 }, flow.KindWait, v1alpha1.ReasonUnsafe, "2 of 3 instances accept connections."},
		"a replica that lags too far": {func(o *observed) { o.cluster.Status.Instances[2].Eligible = false }, flow.KindWait, v1alpha1.ReasonUnsafe, "shop-2 does not follow the primary as a member yet."},
		"a delayed replica": {func(o *observed) {
			o.cluster.Status.Instances[2].Eligible, o.cluster.Status.Instances[2].Streaming = false, false
			o.cluster.Spec.DelayedReplicas = []v1alpha1.DelayedReplica{{Name: "shop-2", Delay: metav1.Duration{Duration: time.Hour}}}
		}, flow.KindNext, "", ""},
		"delayed replicas only": {func(o *observed) {
			for _, name := range []string{"shop-1", "shop-2"} {
				o.cluster.Spec.DelayedReplicas = append(o.cluster.Spec.DelayedReplicas, v1alpha1.DelayedReplica{Name: name, Delay: metav1.Duration{Duration: time.Hour}})
			}
		}, flow.KindWait, v1alpha1.ReasonUnsafe, "All replicas are delayed"},
		"WAL that is not archived": {func(o *observed) { o.cluster.Status.Conditions[1].Status = metav1.ConditionFalse }, flow.KindWait, v1alpha1.ReasonUnsafe, "condition Archiving"},
		"volumes that are locked":  {func(o *observed) { o.cluster.Status.VolumeLocks = []v1alpha1.VolumeLock{{Kind: "Upgrade", Name: "u"}} }, flow.KindWait, v1alpha1.ReasonUnsafe, "Upgrade u works on the volumes"},
		"a switchover": {func(o *observed) {
			o.cluster.Status.Switchover = &v1alpha1.SwitchoverStatus{State: v1alpha1.SwitchoverRunning}
		}, flow.KindWait, v1alpha1.ReasonUnsafe, "A switchover"},
		"a new image": {func(o *observed) { o.cluster.Status.ImageChange = &v1alpha1.ImageChange{} }, flow.KindWait, v1alpha1.ReasonUnsafe, "A change of image"},
		"a backup":    {func(o *observed) { o.backups = []v1alpha1.Backup{{Spec: v1alpha1.BackupSpec{Cluster: mine}}} }, flow.KindWait, v1alpha1.ReasonUnsafe, "Backup"},
		"a backup that has ended": {func(o *observed) {
			o.backups = []v1alpha1.Backup{{Spec: v1alpha1.BackupSpec{Cluster: mine}, Status: v1alpha1.BackupStatus{CompletedAt: at(0)}}}
		}, flow.KindNext, "", ""},
		"a restore in place": {func(o *observed) {
			o.restores = []v1alpha1.Restore{{Spec: v1alpha1.RestoreSpec{Destination: v1alpha1.RestoreDestination{NewCluster: &v1alpha1.NewCluster{Name: "shop"}}}}}
		}, flow.KindWait, v1alpha1.ReasonUnsafe, "Restore"},
		"a rehearsal of an upgrade": {func(o *observed) { o.upgrades = []v1alpha1.Upgrade{{Spec: v1alpha1.UpgradeSpec{Cluster: mine}}} }, flow.KindWait, v1alpha1.ReasonUnsafe, "Upgrade"},
		"an older drill":            {func(o *observed) { o.drills = []v1alpha1.FailoverDrill{other("b", at(-time.Hour), false)} }, flow.KindWait, v1alpha1.ReasonUnsafe, "FailoverDrill b has not ended."},
		"a younger drill":           {func(o *observed) { o.drills = []v1alpha1.FailoverDrill{other("b", at(0), false)} }, flow.KindNext, "", ""},
		"a younger drill that runs": {func(o *observed) { o.drills = []v1alpha1.FailoverDrill{other("b", at(0), true)} }, flow.KindWait, v1alpha1.ReasonUnsafe, "FailoverDrill b has not ended."},
		"a budget that is spent": {func(o *observed) {
			o.cluster.Status.DrilledFaults = []metav1.Time{*at(-48 * time.Hour), *at(-24 * time.Hour)}
		}, flow.KindWait, v1alpha1.ReasonBudgetSpent, "The next one is possible from 2026-03-06T12:00:00Z."},
	} {
		outcome := safe(world(c.change))
		if outcome.Kind != c.kind || outcome.Reason != c.reason || !strings.Contains(outcome.Message, c.says) {
			t.Errorf("%s: %+v", name, outcome)
		}
	}
}

func other(name string, created *metav1.Time, runs bool) v1alpha1.FailoverDrill {
	d := v1alpha1.FailoverDrill{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "b", CreationTimestamp: *created}}
	d.Spec.Cluster.Name = "shop"
	if runs {
		d.Status.Request = &v1alpha1.FailoverDrillRequest{ClusterUID: "c"}
	}
	return d
}

func TestADrillThatDoesNotBecomeSafeEndsInTime(t *testing.T) {
	unready := func(o *observed) { o.cluster.Status.Conditions[0].Status = metav1.ConditionFalse }
	if outcome := preflight(t.Context(), world(unready)); outcome.Kind != flow.KindWait || outcome.After > lookAgain {
		t.Errorf("%+v", outcome)
	}
	outcome := preflight(t.Context(), world(unready, func(o *observed) { o.now = noon.Add(9 * time.Minute) }))
	if outcome.Kind != flow.KindStop || outcome.Reason != v1alpha1.ReasonClusterNotReady || !strings.Contains(outcome.Message, "spec.startWithin (10m0s)") {
		t.Errorf("%+v", outcome)
	}
}

// requested: the drill has requested something, and decided on the fault.
func requested(decided bool) func(*observed) {
	return func(o *observed) {
		o.drill.Status.StartedAt, o.drill.Status.Request = at(-time.Minute), &v1alpha1.FailoverDrillRequest{ClusterUID: "c"}
		o.cluster.Status.FailoverDrill = &v1alpha1.ClusterFailoverDrill{UID: "d", State: v1alpha1.FailoverDrillPrepared}
		o.writer.Exists = true
		if decided {
			o.drill.Status.Request.Inject = &v1alpha1.FailoverInjection{Instance: "shop-0", PodUID: "p0", DecidedAt: *at(-time.Minute)}
		}
	}
}

func TestADrillEndsOnDoubt(t *testing.T) {
	later := func(d time.Duration) func(*observed) { return func(o *observed) { o.now = noon.Add(d) } }
	broken := &agentapi.Outcome{Error: &agentapi.JobError{Reason: "Unreachable", Message: "no such role"}}
	for name, c := range map[string]struct {
		changes []func(*observed)
		reason  string
		says    string
	}{
		"nothing is wrong":                 {[]func(*observed){requested(true)}, "", ""},
		"nothing has begun":                {nil, "", ""},
		"it is cancelled before it begins": {[]func(*observed){func(o *observed) { o.drill.Spec.Cancel = true }}, v1alpha1.ReasonCancelled, "spec.cancel"},
		"it is cancelled":                  {[]func(*observed){requested(true), func(o *observed) { o.drill.Spec.Cancel = true }}, v1alpha1.ReasonCancelled, "spec.cancel"},
		"the cluster is another one":       {[]func(*observed){requested(false), func(o *observed) { o.cluster.UID = "c2" }}, v1alpha1.ReasonClusterReplaced, "was deleted"},
		"the cluster is gone":              {[]func(*observed){requested(false), func(o *observed) { o.cluster = nil }}, v1alpha1.ReasonClusterReplaced, "was deleted"},
		"the db-controller refuses": {[]func(*observed){requested(true), func(o *observed) {
			o.cluster.Status.FailoverDrill.State, o.cluster.Status.FailoverDrill.Message = v1alpha1.FailoverDrillRefused, "Why."
		}}, v1alpha1.ReasonInjectionRefused, "did not cause the fault. Why."},
		"a pod of the Job fails":              {[]func(*observed){requested(true), func(o *observed) { o.writer.Outcome = broken }}, v1alpha1.ReasonWriterFailed, "No such role."},
		"the Job is deleted":                  {[]func(*observed){requested(true), func(o *observed) { o.writer = workload.State{} }}, v1alpha1.ReasonWriterFailed, "was deleted"},
		"no rows are written":                 {[]func(*observed){requested(false), later(5 * time.Minute)}, v1alpha1.ReasonWriterFailed, "No rows were written within 5m0s."},
		"the db-controller is silent":         {[]func(*observed){requested(false), later(5 * time.Minute), func(o *observed) { o.cluster.Status.FailoverDrill = nil }}, v1alpha1.ReasonWriterFailed, "did not prepare"},
		"the cluster does not become whole":   {[]func(*observed){requested(true), later(15 * time.Minute), func(o *observed) { o.cluster.Status.ReadyInstances = 2 }}, v1alpha1.ReasonNotWhole, "2 of 3 instances"},
		"the cluster becomes whole late":      {[]func(*observed){requested(true), later(15 * time.Minute), func(o *observed) { o.drill.Status.WholeAt = at(14 * time.Minute) }}, "", ""},
		"the Job never counts":                {[]func(*observed){requested(true), later(time.Hour), func(o *observed) { o.drill.Status.WholeAt = at(0) }}, v1alpha1.ReasonWriterFailed, "did not count"},
		"it is cancelled when it is measured": {[]func(*observed){requested(true), func(o *observed) { o.drill.Spec.Cancel, o.drill.Status.Result = true, &v1alpha1.FailoverDrillResult{} }}, "", ""},
	} {
		failure := world(c.changes...).failure()
		if (failure == nil) != (c.reason == "") || failure != nil && (failure.Reason != c.reason || !strings.Contains(failure.Message, c.says)) {
			t.Errorf("%s: %+v", name, failure)
		}
	}
}

func TestAStatusFromBeforeTheFaultIsNoneOfAWholeCluster(t *testing.T) {
	for name, c := range map[string]struct {
		fault  v1alpha1.FailoverFaultType
		change func(*v1alpha1.PostgresClusterStatus)
		says   string
	}{
		"the pod is the same":     {v1alpha1.FaultDeletePrimaryPod, func(*v1alpha1.PostgresClusterStatus) {}, "The pod of shop-0 has not been replaced yet."},
		"the pod is another one":  {v1alpha1.FaultDeletePrimaryPod, func(s *v1alpha1.PostgresClusterStatus) { s.Instances[0].PodUID = "p9" }, ""},
		"the primary is the same": {v1alpha1.FaultSwitchover, func(*v1alpha1.PostgresClusterStatus) {}, "Nobody has taken over from shop-0 yet."},
		"another one is primary": {v1alpha1.FaultSwitchover, func(s *v1alpha1.PostgresClusterStatus) {
			s.Primary, s.Instances[0].Role, s.Instances[1].Role = "shop-1", v1alpha1.RoleReplica, v1alpha1.RolePrimary
			s.Instances[0].Streaming, s.Instances[0].Eligible = true, true
		}, ""},
		"the former primary does not follow": {v1alpha1.FaultSwitchover, func(s *v1alpha1.PostgresClusterStatus) {
			s.Primary, s.Instances[1].Role = "shop-1", v1alpha1.RolePrimary
		}, "shop-0 does not follow"},
	} {
		o := world(requested(true), func(o *observed) { o.drill.Spec.Fault.Type = c.fault })
		c.change(&o.cluster.Status)
		if got := recovering(o); !strings.Contains(got, c.says) || c.says == "" && got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestAResultBeyondALimitIsNoSuccess(t *testing.T) {
	result := &v1alpha1.FailoverDrillResult{LongestGap: milliseconds(2500), RowsLost: 1, TimeToWhole: metav1.Duration{Duration: time.Minute}}
	limits := func(gap time.Duration, lost int64, whole time.Duration) *v1alpha1.FailoverDrillLimits {
		return &v1alpha1.FailoverDrillLimits{MaxGap: &metav1.Duration{Duration: gap}, MaxLostRows: &lost, MaxTimeToWhole: &metav1.Duration{Duration: whole}}
	}
	for name, c := range map[string]struct {
		limits *v1alpha1.FailoverDrillLimits
		beyond int
	}{
		"no limits": {nil, 0}, "none set": {&v1alpha1.FailoverDrillLimits{}, 0}, "exactly": {limits(2500*time.Millisecond, 1, time.Minute), 0},
		"a gap that is too long": {limits(2*time.Second, 1, time.Minute), 1}, "all": {limits(time.Second, 0, time.Second), 3},
	} {
		if got := exceeded(c.limits, result); len(got) != c.beyond {
			t.Errorf("%s: %q", name, got)
		}
	}
	o := world()
	o.drill.Spec.Limits, o.drill.Status.Result = limits(2*time.Second, 1, time.Minute), result
	report(o, compare(t.Context(), o))
	if c := o.drill.Status.Conditions; len(c) == 0 || c[0].Status != metav1.ConditionFalse || c[0].Reason != v1alpha1.ReasonLimitExceeded ||
		!strings.Contains(c[0].Message, "longer than spec.limits.maxGap (2s)") || o.drill.Status.CompletedAt == nil {
		t.Errorf("%+v", c)
	}
}

func TestAResultIsTakenFromTheJob(t *testing.T) {
	o := world(requested(true))
	raw, _ := json.Marshal(agentapi.FailoverDrillResult{Acknowledged: 900, Lost: 2, LongestGapMilliseconds: 1234, LongestGapKeptMilliseconds: 2345})
	o.writer.Complete, o.writer.Outcome = true, &agentapi.Outcome{Result: raw}
	o.drill.Status.InjectedAt, o.drill.Status.WholeAt = at(0), at(42*time.Second)
	takeResult(t.Context(), o)
	got := o.drill.Status.Result
	if got == nil || got.RowsAcknowledged != 900 || got.RowsLost != 2 || got.LongestGap.Duration != 1234*time.Millisecond || got.LongestGapKept.Duration != 2345*time.Millisecond ||
		got.TimeToWhole.Duration != 42*time.Second || got.Primary != "shop-0" {
		t.Errorf("%+v", got)
	}
}

func TestAFaultHitsThePrimaryOrTheReplicaThatIsMeant(t *testing.T) {
	delayed := func(o *observed) {
		o.cluster.Spec.DelayedReplicas = []v1alpha1.DelayedReplica{{Name: "shop-2", Delay: metav1.Duration{Duration: time.Hour}}}
	}
	stop := func(instance string) func(*observed) {
		return func(o *observed) {
			o.drill.Spec.Fault = v1alpha1.FailoverFault{Type: v1alpha1.FaultStopReplica, Instance: instance}
		}
	}
	for name, c := range map[string]struct {
		changes []func(*observed)
		hits    string
	}{
		"the primary":               {nil, "shop-0"},
		"the last replica":          {[]func(*observed){stop("")}, "shop-2"},
		"the last that follows":     {[]func(*observed){stop(""), delayed}, "shop-1"},
		"a replica that is named":   {[]func(*observed){stop("shop-1")}, "shop-1"},
		"a delayed one by its name": {[]func(*observed){stop("shop-2"), delayed}, "shop-2"},
	} {
		o := world(c.changes...)
		o.drill.Status.Request = &v1alpha1.FailoverDrillRequest{ClusterUID: "c"}
		decide(t.Context(), o)
		if inject := o.drill.Status.Request.Inject; inject == nil || inject.Instance != c.hits {
			t.Errorf("%s: %+v", name, inject)
		}
	}
}

func TestTheJobHasALimitOfCPUWhereTheClusterHas(t *testing.T) {
	for cpu, want := range map[string]string{"": "0", "100m": "500m", "750m": "750m", "8": "1"} {
		o := world(func(o *observed) {
			o.cluster.Status.Connection = &v1alpha1.ConnectionStatus{Host: "shop-rw"}
			o.cluster.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("8Gi")}
			if cpu != "" {
				o.cluster.Spec.Resources.Limits[corev1.ResourceCPU] = resource.MustParse(cpu)
			}
		})
		if limits := (&Reconciler{}).writer(o).Resources.Limits; limits.Cpu().Cmp(resource.MustParse(want)) != 0 || limits.Memory().String() != "128Mi" {
			t.Errorf("the cluster has %q, and it %+v", cpu, limits)
		}
	}
}
