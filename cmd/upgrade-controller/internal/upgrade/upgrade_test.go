package upgrade

import (
	"encoding/json"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/workload"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func reconciler() *Reconciler {
	return &Reconciler{agent: workload.Agent{Image: "agent"}, images: manager.Images{15: "pg15", 17: "pg17"}, now: func() time.Time { return noon }}
}

// ready is a world with a cluster that runs PostgreSQL 15 and an Upgrade to 17 that nobody has looked at.
func ready() *world {
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "demo", UID: "c"}}
	cluster.Status = v1alpha1.PostgresClusterStatus{
		MajorVersion: 15, Image: "pg15", DataGeneration: "g1", SystemIdentifier: "7", Primary: "shop-0",
		Connection: &v1alpha1.ConnectionStatus{ConfigMap: "shop-connection", UpgradeSecret: "shop-upgrade"},
	}
	flow.SetCondition(&cluster.Status.Conditions, cluster, v1alpha1.ConditionReady, metav1.ConditionTrue, "Running", "")
	upgrade := &v1alpha1.Upgrade{ObjectMeta: metav1.ObjectMeta{Name: "up", Namespace: "demo", UID: "u", Finalizers: []string{finalizer}}}
	upgrade.Spec = v1alpha1.UpgradeSpec{Cluster: v1alpha1.LocalReference{Name: "shop"}, Version: 17}
	return &world{upgrade: upgrade, cluster: cluster}
}

func result(v any) *agentapi.Outcome {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return &agentapi.Outcome{Result: data}
}

func planned(w *world) {
	w.upgrade.Status.Plan = &v1alpha1.UpgradePlan{
		ClusterUID: "c", FromVersion: 15, FromImage: "pg15", FromGeneration: "g1", FromSystemIdentifier: "7",
		ToImage: "pg17", ToGeneration: "g2",
	}
}

func checked(w *world) { planned(w); w.upgrade.Status.CheckedAt = &metav1.Time{Time: noon} }

func held(w *world) {
	checked(w)
	w.upgrade.Status.VolumeLockRequest = &v1alpha1.VolumeLockRequest{Cluster: "shop", ClusterUID: "c", Token: token(w.upgrade)}
	w.cluster.Status.VolumeLocks = []v1alpha1.VolumeLock{{
		RequesterUID: "u", Token: token(w.upgrade), State: v1alpha1.VolumeLockGranted,
		Volumes: []v1alpha1.LockedVolume{{Instance: "shop-0", ClaimName: "data-shop-0"}},
	}}
	w.work.Exists = true
}

func handedOver(w *world) {
	held(w)
	w.upgrade.Status.Handover = &v1alpha1.Handover{Token: token(w.upgrade), DataGeneration: "g2", MajorVersion: 17}
	w.upgrade.Status.HandedOverAt = &metav1.Time{Time: noon}
}

func adopted(w *world) {
	handedOver(w)
	w.cluster.Status.VolumeLocks[0].State, w.cluster.Status.VolumeLocks[0].AdoptedGeneration = v1alpha1.VolumeLockAdopted, "g2"
	w.cluster.Status.DataGeneration, w.cluster.Status.MajorVersion = "g2", 17
}

func TestPassesEndWhereTheWorldSaysSo(t *testing.T) {
	cases := map[string]struct {
		arrange func(*world)
		reason  string
		message string
		after   func(v1alpha1.UpgradeStatus) bool
	}{
		"a cluster that isn't there": {
			func(w *world) { w.cluster = nil }, v1alpha1.ReasonClusterNotFound, "there is no PostgresCluster shop", nil},
		"a version that runs already": {
			func(w *world) { w.upgrade.Spec.Version = 15 }, v1alpha1.ReasonDowngrade, "runs PostgreSQL 15 already", nil},
		"a lower version": {
			func(w *world) { w.upgrade.Spec.Version = 14 }, v1alpha1.ReasonDowngrade, "can't go down to 14", nil},
		"an unknown version": {
			func(w *world) { w.upgrade.Spec.Version = 99 }, v1alpha1.ReasonUnknownVersion, "known are 15, 17", nil},
		"a cluster that isn't Ready": {
			func(w *world) { w.cluster.Status.Conditions[0].Status = metav1.ConditionFalse }, v1alpha1.ReasonClusterNotReady, "", nil},
		"a cluster that somebody else holds": {
			func(w *world) { w.cluster.Status.VolumeLocks = []v1alpha1.VolumeLock{{RequesterUID: "x", Name: "other"}} }, v1alpha1.ReasonQueued, "other", nil},
		"a good one gets its plan first": {
			func(*world) {}, v1alpha1.ReasonPlanned, "",
			func(s v1alpha1.UpgradeStatus) bool {
				return s.Plan.ToImage == "pg17" && s.Plan.FromGeneration == "g1" && s.VolumeLockRequest == nil
			}},
		"findings come into status": {
			func(w *world) {
				planned(w)
				w.check = workload.State{Exists: true, Complete: true, Outcome: result(agentapi.UpgradeCheckResult{
					Findings: []agentapi.Finding{{Severity: "Error", Check: "PreparedTransactions", Message: "there is one"}}})}
			}, v1alpha1.ReasonChecking, "",
			func(s v1alpha1.UpgradeStatus) bool { return s.CheckedAt != nil && len(s.Findings) == 1 }},
		"an obstacle ends it before the cluster is stopped": {
			func(w *world) {
				checked(w)
				w.upgrade.Status.Findings = []v1alpha1.Finding{{Severity: v1alpha1.FindingError, Message: "no extension postgis"}}
			}, v1alpha1.ReasonCheckFailed, "no extension postgis",
			func(s v1alpha1.UpgradeStatus) bool { return s.CompletedAt != nil && s.VolumeLockRequest == nil }},
		"a warning doesn't": {
			func(w *world) {
				checked(w)
				w.upgrade.Status.Findings = []v1alpha1.Finding{{Severity: v1alpha1.FindingWarning, Message: "old"}}
			}, v1alpha1.ReasonAwaitingVolumeLock, "", func(s v1alpha1.UpgradeStatus) bool { return s.VolumeLockRequest != nil }},
		"a check alone ends there": {
			func(w *world) { checked(w); w.upgrade.Spec.CheckOnly = true }, "", "",
			func(s v1alpha1.UpgradeStatus) bool { return s.CompletedAt != nil && s.VolumeLockRequest == nil }},
		"a failed Job leads back": {
			func(w *world) {
				held(w)
				w.work = workload.State{Exists: true, Failed: true, Outcome: &agentapi.Outcome{Error: &agentapi.JobError{Message: "disk full"}}}
			}, v1alpha1.ReasonRollingBack, "disk full", func(s v1alpha1.UpgradeStatus) bool { return s.RollingBack == "disk full" }},
		"a failed Job whose pod still runs is waited for": {
			func(w *world) { held(w); w.work = workload.State{Exists: true, Failed: true, LivePods: 1} }, v1alpha1.ReasonUpgrading, "", nil},
		"a done Job is handed over": {
			func(w *world) {
				held(w)
				w.work = workload.State{Exists: true, Complete: true, Outcome: result(agentapi.UpgradeResult{DataGeneration: "g2", MajorVersion: 17, SystemIdentifier: "8"})}
			}, v1alpha1.ReasonAwaitingAdoption, "",
			func(s v1alpha1.UpgradeStatus) bool {
				return s.Handover.DataGeneration == "g2" && s.Handover.Image == "pg17"
			}},
		"a Job whose container has ended is handed over before Kubernetes says that it has": {
			func(w *world) {
				held(w)
				w.work = workload.State{Exists: true, Done: true, LivePods: 1, Outcome: result(agentapi.UpgradeResult{DataGeneration: "g2", MajorVersion: 17, SystemIdentifier: "8"})}
			}, v1alpha1.ReasonAwaitingAdoption, "",
			func(s v1alpha1.UpgradeStatus) bool { return s.Handover.DataGeneration == "g2" }},
		"one that has ended and said nothing is waited for": {
			func(w *world) { held(w); w.work = workload.State{Exists: true, Done: true, LivePods: 1} }, v1alpha1.ReasonUpgrading, "", nil},
		"cancel while the Job runs leads back": {
			func(w *world) { held(w); w.upgrade.Spec.Cancel = true }, v1alpha1.ReasonRollingBack, cancelled, nil},
		"cancel comes too late after the handover": {
			func(w *world) { handedOver(w); w.upgrade.Spec.Cancel = true }, v1alpha1.ReasonAwaitingAdoption, "", nil},
		"a new version that doesn't come up is taken back": {
			func(w *world) {
				handedOver(w)
				w.upgrade.Status.HandedOverAt = &metav1.Time{Time: noon.Add(-startLimit - time.Second)}
			}, v1alpha1.ReasonRollingBack, "did not take connections", nil},
		"the new version runs": {
			func(w *world) { adopted(w) }, v1alpha1.ReasonFinishing, "", func(s v1alpha1.UpgradeStatus) bool { return s.UpAt != nil && s.VolumeLockRequest != nil }},
		"going back hands the old generation over": {
			func(w *world) { adopted(w); w.work.Exists = false; w.upgrade.Status.RollingBack = "why" }, v1alpha1.ReasonRollingBack, "",
			func(s v1alpha1.UpgradeStatus) bool { return s.Handover.DataGeneration == "g1" && s.VolumeLockRequest != nil }},
		"the hold stays until the old generation is taken": {
			func(w *world) {
				adopted(w)
				w.work.Exists = false
				w.upgrade.Status.RollingBack = "why"
				w.upgrade.Status.Handover.DataGeneration = "g1"
			}, v1alpha1.ReasonRollingBack, "", func(s v1alpha1.UpgradeStatus) bool { return s.VolumeLockRequest != nil }},
		"and until the db-controller says so, though it has not taken the new one yet": {
			func(w *world) {
				handedOver(w)
				w.work.Exists = false
				w.upgrade.Status.RollingBack = "why"
				w.upgrade.Status.Handover.DataGeneration = "g1"
			}, v1alpha1.ReasonRollingBack, "waiting until the db-controller", func(s v1alpha1.UpgradeStatus) bool { return s.VolumeLockRequest != nil }},
		"the hold ends when it has said so": {
			func(w *world) {
				adopted(w)
				w.work.Exists = false
				w.upgrade.Status.RollingBack = "why"
				w.upgrade.Status.Handover.DataGeneration = "g1"
				w.cluster.Status.VolumeLocks[0].AdoptedGeneration, w.cluster.Status.DataGeneration = "g1", "g1"
			}, v1alpha1.ReasonFinishing, "", func(s v1alpha1.UpgradeStatus) bool { return s.VolumeLockRequest == nil }},
		"gone back, it ends": {
			func(w *world) { checked(w); w.upgrade.Status.RollingBack = "disk full" }, v1alpha1.ReasonRolledBack, "disk full",
			func(s v1alpha1.UpgradeStatus) bool { return s.CompletedAt != nil }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := ready()
			c.arrange(w)
			r := reconciler()
			outcome := flow.Run(t.Context(), w, withoutWrites(r.plan(w))...)
			if outcome.Reason != c.reason || !strings.Contains(outcome.Message, c.message) {
				t.Errorf("got %q: %q", outcome.Reason, outcome.Message)
			}
			if c.after != nil && !c.after(w.upgrade.Status) {
				t.Errorf("status is %+v", w.upgrade.Status)
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

func TestTheHoldIsGivenUpOnlyAfterTheJobsAreGone(t *testing.T) {
	r := reconciler()
	for name, arrange := range map[string]func(*world){
		"going back": func(w *world) { held(w); w.upgrade.Status.RollingBack = "why" },
		"deleted":    func(w *world) { held(w); w.upgrade.DeletionTimestamp = &metav1.Time{Time: noon} },
	} {
		w := ready()
		arrange(w)
		var names []string
		for _, s := range r.plan(w) {
			names = append(names, stepName(s))
		}
		joined := strings.Join(names, " ")
		if stop, withdraw := strings.Index(joined, "stopJobs"), strings.Index(joined, "withdrawHold"); stop < 0 || withdraw < stop {
			t.Errorf("%s: the steps are %s", name, joined)
		}
	}
}

func TestReport(t *testing.T) {
	u := ready().upgrade
	u.Generation = 3
	report(u, flow.Stop("Downgrade", "no"), false)
	if c := u.Status.Conditions[0]; c.Status != metav1.ConditionFalse || u.Status.ObservedGeneration != 3 {
		t.Errorf("got %+v", c)
	}
	report(u, flow.Next, true)
	if c := u.Status.Conditions[0]; c.Reason != "Downgrade" {
		t.Errorf("an Upgrade that has ended was reported anew: %+v", c)
	}
	u.Status.CheckedAt = &metav1.Time{Time: noon}
	report(u, flow.Wait("Upgrading", "soon"), false)
	if len(u.Status.Conditions) != 2 || u.Status.Conditions[1].Status != metav1.ConditionTrue {
		t.Errorf("got %+v", u.Status.Conditions)
	}
	if protocol.Token(u.UID, 0) != token(u) {
		t.Error("the token is not the first attempt's")
	}
}
