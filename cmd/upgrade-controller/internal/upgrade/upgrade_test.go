package upgrade

import (
	"encoding/json"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/majorupdate"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/workload"
	"howdah.dev/howdah/test/testkit/fakeapi"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func reconciler() *Reconciler {
	return New(manager.Dependencies{
		Client: fakeapi.New(), Agent: workload.Agent{Image: "agent"}, Images: manager.Images{15: "pg15", 17: "pg17"},
		Now: func() time.Time { return noon },
	})
}

// ready is of a cluster that runs PostgreSQL 15 and an Upgrade to 17 that nobody has looked at.
func ready() *observed {
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "demo", UID: "c"}}
	cluster.Status = v1alpha1.PostgresClusterStatus{
		MajorVersion: 15, Image: "pg15", DataGeneration: "g1", SystemIdentifier: "7", Primary: "shop-0",
		Connection: &v1alpha1.ConnectionStatus{ConfigMap: "shop-connection", UpgradeSecret: "shop-upgrade"},
	}
	flow.SetCondition(&cluster.Status.Conditions, cluster, v1alpha1.ConditionReady, metav1.ConditionTrue, "Running", "")
	upgrade := &v1alpha1.Upgrade{ObjectMeta: metav1.ObjectMeta{Name: "up", Namespace: "demo", UID: "u", Finalizers: []string{finalizer}}}
	upgrade.Spec = v1alpha1.UpgradeSpec{Cluster: v1alpha1.LocalReference{Name: "shop"}, Version: 17}
	return &observed{upgrade: upgrade, cluster: cluster, now: noon}
}

func result(v any) *agentapi.Outcome {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return &agentapi.Outcome{Result: data}
}

func planned(o *observed) {
	o.upgrade.Status.Plan = &v1alpha1.UpgradePlan{
		ClusterUID: "c", FromVersion: 15, FromImage: "pg15", FromGeneration: "g1", FromSystemIdentifier: "7",
		ToImage: "pg17", ToGeneration: "g2",
	}
}

func checked(o *observed) { planned(o); o.upgrade.Status.CheckedAt = &metav1.Time{Time: noon} }

func locked(o *observed) {
	checked(o)
	o.upgrade.Status.DownAt = &metav1.Time{Time: noon}
	o.upgrade.Status.Previous = &v1alpha1.PreviousData{DataGeneration: "g1", Instance: "shop-0", SystemIdentifier: "7", MajorVersion: 15, Image: "pg15"}
	o.upgrade.Status.VolumeLockRequest = &v1alpha1.VolumeLockRequest{Cluster: "shop", ClusterUID: "c", Token: token(o.upgrade)}
	o.cluster.Status.VolumeLocks = []v1alpha1.VolumeLock{{
		RequesterUID: "u", Token: token(o.upgrade), State: v1alpha1.VolumeLockGranted,
		Volumes: []v1alpha1.LockedVolume{{Instance: "shop-0", ClaimName: "data-shop-0"}},
	}}
	o.work.Exists = true
}

// bounded is an automatic upgrade by a policy that allows an hour of downtime.
func bounded(o *observed) {
	o.upgrade.Spec.Automatic, o.cluster.Spec.Version = true, 17
	o.cluster.Spec.Updates = &v1alpha1.Updates{Major: v1alpha1.UpdateAutomatic, MaxDowntime: &metav1.Duration{Duration: time.Hour}}
	o.others = majorupdate.Facts{Cluster: o.cluster, Now: noon}
}

// queued is an automatic upgrade whose request for the volumes nobody has acted on, to be done from tomorrow on.
func queued(o *observed) {
	locked(o)
	o.upgrade.Spec.Automatic = true
	o.cluster.Spec.Version = 17
	o.cluster.Spec.Updates = &v1alpha1.Updates{Major: v1alpha1.UpdateAutomatic, NotBefore: &metav1.Time{Time: noon.AddDate(0, 0, 1)}}
	o.upgrade.Status.DownAt, o.upgrade.Status.Previous = nil, nil
	o.cluster.Status.VolumeLocks[0].State, o.cluster.Status.VolumeLocks[0].Volumes = v1alpha1.VolumeLockQueued, nil
	o.work.Exists = false
}

func handedOver(o *observed) {
	locked(o)
	o.upgrade.Status.Handover = &v1alpha1.Handover{Token: token(o.upgrade), DataGeneration: "g2", MajorVersion: 17}
	o.upgrade.Status.HandedOverAt = &metav1.Time{Time: noon}
}

func adopted(o *observed) {
	handedOver(o)
	o.cluster.Status.VolumeLocks[0].State, o.cluster.Status.VolumeLocks[0].AdoptedGeneration = v1alpha1.VolumeLockAdopted, "g2"
	o.cluster.Status.VolumeLocks[0].ServedSince = &metav1.Time{Time: noon}
	o.cluster.Status.DataGeneration, o.cluster.Status.MajorVersion = "g2", 17
}

// stuck lets the cluster not start on the new version.
func stuck(o *observed) {
	adopted(o)
	o.cluster.Status.VolumeLocks[0].Volumes, o.cluster.Status.VolumeLocks[0].ServedSince = nil, nil // they are the cluster's again
	o.cluster.Status.Conditions[0].Status = metav1.ConditionFalse
}

// fail lets the upgrade be given up, with its Jobs deleted.
func fail(o *observed) {
	o.work = workload.State{}
	o.upgrade.Status.Failure = &v1alpha1.Failure{Reason: v1alpha1.ReasonNotStarted, Message: "Why."}
}

func TestPassesEndAsWhatIsObservedSays(t *testing.T) {
	cases := map[string]struct {
		arrange func(*observed)
		reason  string
		message string
		after   func(v1alpha1.UpgradeStatus) bool
	}{
		"a cluster that isn't there": {
			func(o *observed) { o.cluster = nil }, v1alpha1.ReasonClusterNotFound, "There is no PostgresCluster shop", nil},
		"a version that runs already": {
			func(o *observed) { o.upgrade.Spec.Version = 15 }, v1alpha1.ReasonDowngrade, "already runs PostgreSQL 15", nil},
		"a lower version": {
			func(o *observed) { o.upgrade.Spec.Version = 14 }, v1alpha1.ReasonDowngrade, "can't be downgraded to 14", nil},
		"an unknown version": {
			func(o *observed) { o.upgrade.Spec.Version = 99 }, v1alpha1.ReasonUnknownVersion, "known are 15, 17", nil},
		"a cluster that isn't Ready": {
			func(o *observed) { o.cluster.Status.Conditions[0].Status = metav1.ConditionFalse }, v1alpha1.ReasonClusterNotReady, "", nil},
		"a cluster that somebody else holds": {
			func(o *observed) {
				o.cluster.Status.VolumeLocks = []v1alpha1.VolumeLock{{RequesterUID: "x", Name: "other"}}
			}, v1alpha1.ReasonQueued, "other", nil},
		"a good one gets its plan first": {
			func(*observed) {}, v1alpha1.ReasonPlanned, "",
			func(s v1alpha1.UpgradeStatus) bool {
				return s.Plan.ToImage == "pg17" && s.Plan.FromGeneration == "g1" && s.VolumeLockRequest == nil
			}},
		"findings come into status": {
			func(o *observed) {
				planned(o)
				o.check = workload.State{Exists: true, Complete: true, Outcome: result(agentapi.UpgradeCheckResult{
					Findings: []agentapi.Finding{{Severity: "Error", Check: "PreparedTransactions", Message: "there is one"}}})}
			}, v1alpha1.ReasonChecking, "",
			func(s v1alpha1.UpgradeStatus) bool {
				return s.CheckedAt != nil && len(s.Findings) == 1 && s.Findings[0].Message == "There is one."
			}},
		"an obstacle ends it before the cluster is stopped": {
			func(o *observed) {
				checked(o)
				o.upgrade.Status.Findings = []v1alpha1.Finding{{Severity: v1alpha1.FindingError, Message: "no extension postgis"}}
			}, v1alpha1.ReasonRollingBack, "No extension postgis.",
			func(s v1alpha1.UpgradeStatus) bool {
				return s.Failure.Reason == v1alpha1.ReasonCheckFailed && s.VolumeLockRequest == nil
			}},
		"a warning doesn't": {
			func(o *observed) {
				checked(o)
				o.upgrade.Status.Findings = []v1alpha1.Finding{{Severity: v1alpha1.FindingWarning, Message: "old"}}
			}, v1alpha1.ReasonAwaitingVolumeLock, "", func(s v1alpha1.UpgradeStatus) bool { return s.VolumeLockRequest != nil }},
		"an automatic one withdraws a request that its policy no longer allows": {
			queued, v1alpha1.ReasonAwaitingWindow, "It waits until 2026-03-02", func(s v1alpha1.UpgradeStatus) bool { return s.VolumeLockRequest == nil }},
		"it doesn't while the policy allows it": {
			func(o *observed) { queued(o); o.cluster.Spec.Updates.NotBefore = nil }, v1alpha1.ReasonAwaitingVolumeLock, "not granted yet",
			func(s v1alpha1.UpgradeStatus) bool { return s.VolumeLockRequest != nil }},
		"nor once the cluster is being stopped": {
			func(o *observed) {
				queued(o)
				o.cluster.Status.VolumeLocks[0].StoppingSince = &metav1.Time{Time: noon}
			}, v1alpha1.ReasonAwaitingVolumeLock, "not granted yet", func(s v1alpha1.UpgradeStatus) bool { return s.VolumeLockRequest != nil }},
		"one that a person created does neither": {
			func(o *observed) { queued(o); o.upgrade.Spec.Automatic = false }, v1alpha1.ReasonAwaitingVolumeLock, "not granted yet",
			func(s v1alpha1.UpgradeStatus) bool { return s.VolumeLockRequest != nil }},
		"an automatic one is down for no longer than its policy allows": {
			func(o *observed) { checked(o); bounded(o) }, v1alpha1.ReasonAwaitingVolumeLock, "",
			func(s v1alpha1.UpgradeStatus) bool {
				return s.VolumeLockRequest.MaxDowntime != nil && s.VolumeLockRequest.MaxDowntime.Duration == time.Hour
			}},
		"unless it says so itself": {
			func(o *observed) {
				checked(o)
				bounded(o)
				o.upgrade.Spec.MaxDowntime = &metav1.Duration{Duration: time.Minute}
			}, v1alpha1.ReasonAwaitingVolumeLock, "", func(s v1alpha1.UpgradeStatus) bool { return s.VolumeLockRequest.MaxDowntime.Duration == time.Minute }},
		"the policy is none of one that a person created": {
			func(o *observed) { checked(o); bounded(o); o.upgrade.Spec.Automatic = false }, v1alpha1.ReasonAwaitingVolumeLock, "",
			func(s v1alpha1.UpgradeStatus) bool { return s.VolumeLockRequest.MaxDowntime == nil }},
		"a check alone ends there": {
			func(o *observed) { checked(o); o.upgrade.Spec.CheckOnly = true }, "", "",
			func(s v1alpha1.UpgradeStatus) bool { return s.CompletedAt != nil && s.VolumeLockRequest == nil }},
		"a failed Job leads back": {
			func(o *observed) {
				locked(o)
				o.work = workload.State{Exists: true, Failed: true, Outcome: &agentapi.Outcome{Error: &agentapi.JobError{Reason: v1alpha1.ReasonNoSpace, Message: "Disk full"}}}
			}, v1alpha1.ReasonRollingBack, "Disk full.", func(s v1alpha1.UpgradeStatus) bool { return s.Failure.Reason == v1alpha1.ReasonNoSpace }},
		"a failed Job whose pod still runs is waited for": {
			func(o *observed) { locked(o); o.work = workload.State{Exists: true, Failed: true, LivePods: 1} }, v1alpha1.ReasonUpgrading, "", nil},
		"a done Job is handed over": {
			func(o *observed) {
				locked(o)
				o.work = workload.State{Exists: true, Complete: true, Outcome: result(agentapi.UpgradeResult{DataGeneration: "g2", MajorVersion: 17, SystemIdentifier: "8"})}
			}, v1alpha1.ReasonAwaitingAdoption, "",
			func(s v1alpha1.UpgradeStatus) bool {
				return s.Handover.DataGeneration == "g2" && s.Handover.Image == "pg17"
			}},
		"a Job whose container has ended is handed over before Kubernetes says that it has": {
			func(o *observed) {
				locked(o)
				o.work = workload.State{Exists: true, Done: true, LivePods: 1, Outcome: result(agentapi.UpgradeResult{DataGeneration: "g2", MajorVersion: 17, SystemIdentifier: "8"})}
			}, v1alpha1.ReasonAwaitingAdoption, "",
			func(s v1alpha1.UpgradeStatus) bool { return s.Handover.DataGeneration == "g2" }},
		"one that has ended and said nothing is waited for": {
			func(o *observed) { locked(o); o.work = workload.State{Exists: true, Done: true, LivePods: 1} }, v1alpha1.ReasonUpgrading, "", nil},
		"cancel while the Job runs leads back": {
			func(o *observed) { locked(o); o.upgrade.Spec.Cancel = true }, v1alpha1.ReasonRollingBack, "cancelled with spec.cancel", nil},
		"cancel comes too late after the handover": {
			func(o *observed) { handedOver(o); o.upgrade.Spec.Cancel = true }, v1alpha1.ReasonAwaitingAdoption, "", nil},
		"a new version that doesn't come up is taken back": {
			func(o *observed) {
				handedOver(o)
				o.upgrade.Status.HandedOverAt = &metav1.Time{Time: noon.Add(-startLimit - time.Second)}
			}, v1alpha1.ReasonRollingBack, "did not accept connections on the new data within 10m0s", func(s v1alpha1.UpgradeStatus) bool {
				return s.Failure.Reason == v1alpha1.ReasonNotStarted
			}},
		"the new version runs": {
			func(o *observed) { adopted(o) }, v1alpha1.ReasonFinishing, "", func(s v1alpha1.UpgradeStatus) bool { return s.UpAt != nil && s.VolumeLockRequest != nil }},
		"going back hands the old generation over": {
			func(o *observed) { stuck(o); fail(o) }, v1alpha1.ReasonRollingBack, "",
			func(s v1alpha1.UpgradeStatus) bool {
				return s.Handover.DataGeneration == "g1" && s.VolumeLockRequest != nil
			}},
		"the lock stays until the old generation is taken": {
			func(o *observed) { stuck(o); fail(o); o.upgrade.Status.Handover.DataGeneration = "g1" },
			v1alpha1.ReasonRollingBack, "takes its previous data back", func(s v1alpha1.UpgradeStatus) bool { return s.VolumeLockRequest != nil }},
		"and until the db-controller says so, though it has not taken the new one yet": {
			func(o *observed) { handedOver(o); fail(o); o.upgrade.Status.Handover.DataGeneration = "g1" },
			v1alpha1.ReasonRollingBack, "takes its previous data back", func(s v1alpha1.UpgradeStatus) bool { return s.VolumeLockRequest != nil }},
		"the lock ends when it has said so": {
			func(o *observed) {
				stuck(o)
				fail(o)
				o.upgrade.Status.Handover.DataGeneration = "g1"
				o.cluster.Status.VolumeLocks[0].AdoptedGeneration, o.cluster.Status.DataGeneration = "g1", "g1"
			}, v1alpha1.ReasonReturningVolumes, "", func(s v1alpha1.UpgradeStatus) bool { return s.VolumeLockRequest == nil && s.Handover == nil }},
		"once clients write to the new version nothing leads back": {
			func(o *observed) { adopted(o); fail(o) }, v1alpha1.ReasonFinishing, "",
			func(s v1alpha1.UpgradeStatus) bool { return s.UpAt != nil && s.Failure == nil }},
		"gone back, it ends": {
			func(o *observed) { checked(o); fail(o); o.upgrade.Status.DownAt = &metav1.Time{Time: noon} },
			v1alpha1.ReasonRolledBack, "PostgreSQL 15 runs on the previous data. Why.",
			func(s v1alpha1.UpgradeStatus) bool { return s.CompletedAt != nil }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := ready()
			c.arrange(o)
			r := reconciler()
			outcome := flow.Run(t.Context(), o, withoutWrites(r.plan(o))...)
			report(&observed{upgrade: o.upgrade, now: noon, endedBefore: o.ended()}, outcome)
			if outcome.Reason != c.reason || !strings.Contains(outcome.Message, c.message) {
				t.Errorf("got %q: %q", outcome.Reason, outcome.Message)
			}
			if c.after != nil && !c.after(o.upgrade.Status) {
				t.Errorf("status is %+v", o.upgrade.Status)
			}
		})
	}
}

// withoutWrites leaves out the steps that only write to the API server.
func withoutWrites(steps []step) []step {
	return slices.DeleteFunc(steps, func(s step) bool {
		return stepName(s) == "deleteJobs" || stepName(s) == "removeFinalizer"
	})
}

func stepName(s step) string {
	name := runtime.FuncForPC(reflect.ValueOf(s).Pointer()).Name()
	return strings.TrimSuffix(name[strings.LastIndex(name, ".")+1:], "-fm")
}

func TestTheLockIsGivenBackOnlyAfterTheJobsAreDeleted(t *testing.T) {
	r := reconciler()
	for name, arrange := range map[string]func(*observed){
		"going back": func(o *observed) { locked(o); fail(o) },
		"deleted":    func(o *observed) { locked(o); o.upgrade.DeletionTimestamp = &metav1.Time{Time: noon} },
	} {
		o := ready()
		arrange(o)
		var names []string
		for _, s := range r.plan(o) {
			names = append(names, stepName(s))
		}
		joined := strings.Join(names, " ")
		if stop, withdraw := strings.Index(joined, "stopJobs"), strings.Index(joined, "withdrawLock"); stop < 0 || withdraw < stop {
			t.Errorf("%s: the steps are %s", name, joined)
		}
	}
}

func TestReport(t *testing.T) {
	u := ready().upgrade
	u.Generation = 3
	report(&observed{upgrade: u, now: noon}, flow.Stop("Downgrade", "no"))
	if c := u.Status.Conditions[0]; c.Status != metav1.ConditionFalse || u.Status.ObservedGeneration != 3 {
		t.Errorf("got %+v", c)
	}
	report(&observed{upgrade: u, now: noon, endedBefore: true}, flow.Next)
	if c := u.Status.Conditions[0]; c.Reason != "Downgrade" {
		t.Errorf("an Upgrade that has ended was reported anew: %+v", c)
	}
	u.Status.CheckedAt = &metav1.Time{Time: noon}
	report(&observed{upgrade: u, now: noon}, flow.Wait("Upgrading", "soon"))
	if len(u.Status.Conditions) != 3 || u.Status.Conditions[1].Status != metav1.ConditionTrue {
		t.Errorf("got %+v", u.Status.Conditions)
	}
	if protocol.Token(u.UID, 0) != token(u) {
		t.Error("the token is not the first attempt's")
	}
}

func TestTheJobsRunWhereTheClusterDoes(t *testing.T) {
	r, o := reconciler(), ready()
	locked(o)
	o.cluster.Spec.Scheduling.Tolerations = []corev1.Toleration{{Key: "dedicated"}}
	o.upgrade.Status.CheckedAt, o.work.Exists = nil, false
	checker{r}.runCheck(t.Context(), o)
	r.runUpgrade(t.Context(), o)
	for _, name := range []string{checkJob(o.upgrade), workJob(o.upgrade)} {
		job := &batchv1.Job{}
		if err := r.Client.Get(t.Context(), client.ObjectKey{Namespace: "demo", Name: name}, job); err != nil {
			t.Fatal(err)
		}
		if tolerations := job.Spec.Template.Spec.Tolerations; len(tolerations) == 0 || tolerations[0].Key != "dedicated" {
			t.Errorf("Job %s tolerates %v", name, tolerations)
		}
	}
}

// Whoever pauses a cluster looks at it, and must not find it stopped because its turn has come.
func TestAQueuedAutomaticUpgradeGivesWayToAPause(t *testing.T) {
	inAnHour, before := &metav1.Time{Time: noon.Add(time.Hour)}, &metav1.Time{Time: noon.Add(-time.Hour)}
	for name, c := range map[string]struct {
		change   func(*v1alpha1.PostgresClusterSpec)
		requests bool
	}{
		"nobody has paused it": {func(*v1alpha1.PostgresClusterSpec) {}, true},
		"failover is paused":   {func(s *v1alpha1.PostgresClusterSpec) { s.Failover = &v1alpha1.Failover{PausedUntil: inAnHour} }, false},
		"repairs are paused": {func(s *v1alpha1.PostgresClusterSpec) {
			s.Repair = &v1alpha1.Repair{PausedFrom: before, PausedUntil: inAnHour}
		}, false},
		"it is to hibernate": {func(s *v1alpha1.PostgresClusterSpec) { s.Hibernate = true }, false},
	} {
		o := ready()
		queued(o)
		o.cluster.Spec.Updates.NotBefore = nil
		c.change(&o.cluster.Spec)
		outcome := withdrawQueued(t.Context(), o)
		if requests := o.upgrade.Status.VolumeLockRequest != nil; requests != c.requests || outcome.Finished() {
			t.Errorf("%s: requests the volumes: %v, %+v", name, requests, outcome)
		}
	}
}
