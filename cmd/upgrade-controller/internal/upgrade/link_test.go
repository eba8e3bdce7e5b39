package upgrade

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/workload"
)

// trio is of an Upgrade that links, of a cluster of three with an instance of each kind.
func trio() *observed {
	o := ready()
	o.upgrade.Spec.Transfer = v1alpha1.TransferLink
	o.cluster.Spec.Instances = 3
	o.cluster.Spec.DelayedReplicas = []v1alpha1.DelayedReplica{{Name: "shop-2", Delay: metav1.Duration{Duration: time.Hour}}}
	o.cluster.Status.Instances = []v1alpha1.InstanceStatus{
		{Name: "shop-0", Role: v1alpha1.RolePrimary, Ready: true}, {Name: "shop-1", Role: v1alpha1.RoleReplica, Ready: true, Streaming: true},
		{Name: "shop-2", Role: v1alpha1.RoleReplica, Ready: true, Streaming: true},
	}
	return o
}

func TestALinkedUpgradeNeedsAReplicaThatFollows(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*observed)
		kind   flow.Kind
	}{
		"one that follows":    {func(*observed) {}, flow.Next.Kind},
		"none, and it copies": {func(o *observed) { o.upgrade.Spec.Transfer, o.cluster.Spec.Instances = "", 1 }, flow.Next.Kind},
		"none":                {func(o *observed) { o.cluster.Spec.Instances = 1 }, flow.KindStop},
		"one that was added for the load": {func(o *observed) {
			o.cluster.Spec.Instances = 1
			o.cluster.Spec.Autoscale = &v1alpha1.Autoscale{Replicas: &v1alpha1.AutoscaleReplicas{Mode: v1alpha1.AutoscaleApply}}
			o.cluster.Status.Autoscale = &v1alpha1.AutoscaleStatus{Replicas: &v1alpha1.AutoscaleReplicasStatus{Applied: &v1alpha1.AppliedReplicas{Instances: 2, SpecInstances: 1}}}
		}, flow.Next.Kind},
		"delayed ones only":       {func(o *observed) { o.cluster.Spec.DelayedReplicas[0].Name = "shop-1"; o.cluster.Spec.Instances = 2 }, flow.KindStop},
		"one that doesn't follow": {func(o *observed) { o.cluster.Status.Instances[1].Streaming = false }, flow.KindWait},
		"one that is on its way out": {func(o *observed) {
			o.cluster.Spec.DelayedReplicas, o.cluster.Spec.Instances = nil, 2
			o.cluster.Status.Instances[1].Streaming = false
		}, flow.KindWait},
	} {
		t.Run(name, func(t *testing.T) {
			o := trio()
			c.change(o)
			outcome := replicaIsThere(o, nil)
			if outcome.Kind != c.kind || !outcome.Finished() && outcome.Reason != v1alpha1.ReasonNoWayBack {
				t.Errorf("%+v", outcome)
			}
		})
	}
}

// compared is what was found on volumes, that of the primary first.
func compared(found ...agentapi.UpgradeInspection) []inspection {
	var all []inspection
	for n, f := range found {
		name := []string{"shop-0", "shop-1", "shop-2"}[n]
		i := inspection{volume: v1alpha1.LockedVolume{Instance: name, ClaimName: "data-" + name, UID: types.UID("uid of " + name)}, job: "up-data"}
		switch f.State {
		case "":
			i.state = workload.State{Exists: true, LivePods: 1}
		case "failed":
			i.state = workload.State{Exists: true, Failed: true, Outcome: &agentapi.Outcome{Error: &agentapi.JobError{Reason: "x", Message: "There is none"}}}
		default:
			i.state = workload.State{Exists: true, Complete: true, Outcome: result(f)}
		}
		all = append(all, i)
	}
	return all
}

func ended(state, at string, timeline uint32) agentapi.UpgradeInspection {
	return agentapi.UpgradeInspection{
		WALEnd: agentapi.WALEnd{SystemIdentifier: "7", Timeline: timeline, Checkpoint: at}, State: state, Bytes: 5,
		Primary: state == "shut down", Replica: state == "shut down in recovery",
	}
}

func TestTheWayBackIsAReplicaThatEndsWhereThePrimaryDoes(t *testing.T) {
	primary, replica := ended("shut down", "0/5", 2), ended("shut down in recovery", "0/5", 2)
	behind, other, none, runs := ended("shut down in recovery", "0/4", 2), replica, agentapi.UpgradeInspection{}, agentapi.UpgradeInspection{State: "failed"}
	other.SystemIdentifier = "8"
	for name, c := range map[string]struct {
		found []agentapi.UpgradeInspection
		leads string
		none  string
		waits bool
	}{
		"the first that does":                {[]agentapi.UpgradeInspection{primary, replica, replica}, "shop-1", "", false},
		"not one that lags":                  {[]agentapi.UpgradeInspection{primary, behind, replica}, "shop-2", "", false},
		"whoever is slow":                    {[]agentapi.UpgradeInspection{primary, none, replica}, "shop-2", "", false},
		"the primary is slow":                {[]agentapi.UpgradeInspection{none, replica, replica}, "", "", true},
		"one lags, and one is slow":          {[]agentapi.UpgradeInspection{primary, behind, none}, "", "", true},
		"all lag":                            {[]agentapi.UpgradeInspection{primary, behind, behind}, "", "No replica has everything that its primary had, whose WAL ended at 0/5 of timeline 2. shop-1: shut down in recovery at 0/4", false},
		"another timeline":                   {[]agentapi.UpgradeInspection{primary, ended("shut down in recovery", "0/5", 1)}, "", "No replica", false},
		"another system":                     {[]agentapi.UpgradeInspection{primary, other}, "", "No replica", false},
		"a replica that was primary once":    {[]agentapi.UpgradeInspection{primary, primary}, "", "No replica", false},
		"a replica that was killed":          {[]agentapi.UpgradeInspection{primary, ended("in archive recovery", "0/5", 2)}, "", "in archive recovery", false},
		"a replica without data":             {[]agentapi.UpgradeInspection{primary, runs}, "", "shop-1: There is none.", false},
		"a primary that was killed":          {[]agentapi.UpgradeInspection{ended("in production", "0/5", 2), replica}, "", "not shut down cleanly", false},
		"a primary whose data can't be read": {[]agentapi.UpgradeInspection{runs, replica}, "", "not shut down cleanly", false},
	} {
		t.Run(name, func(t *testing.T) {
			got := findWayBack(compared(c.found...))
			leads := ""
			if got.replica != nil {
				leads = got.replica.Instance
			}
			if leads != c.leads || !strings.Contains(got.none, c.none) || (got.none != "") != (c.none != "") || (got.waits != "") != c.waits {
				t.Errorf("%+v", got)
			}
		})
	}
}

// granted is trio with all volumes granted, and nothing recorded of them.
func granted() *observed {
	o := trio()
	locked(o)
	o.upgrade.Status.Previous, o.work.Exists = nil, false
	o.cluster.Status.VolumeLocks[0].Volumes = nil
	for _, i := range compared(make([]agentapi.UpgradeInspection, 3)...) {
		o.cluster.Status.VolumeLocks[0].Volumes = append(o.cluster.Status.VolumeLocks[0].Volumes, i.volume)
	}
	return o
}

func TestWhatLeadsBackIsRecordedBeforeAnythingIsLinked(t *testing.T) {
	o := granted()
	passes(t, o)
	if link := o.upgrade.Status.Link; link == nil || len(link.Volumes) != 2 || link.Volumes[0].Instance != "shop-0" || link.Volumes[1].Instance != "shop-1" {
		t.Fatalf("%+v", link)
	}
	if o.upgrade.Status.Previous != nil {
		t.Fatal("what leads back is recorded, and nobody has looked")
	}
	o.inspections = compared(ended("shut down", "0/5", 2), ended("shut down in recovery", "0/5", 2))
	passes(t, o)
	status := o.upgrade.Status
	if p := status.Previous; p == nil || p.Instance != "shop-1" || p.VolumeUID != "uid of shop-1" || p.DataGeneration != "g1" || status.PreviousBytes != 5 {
		t.Errorf("%+v, %d bytes", p, status.PreviousBytes)
	}
	if link := o.link(); link.Checkpoint != "0/5" || link.Timeline != 2 || link.SystemIdentifier != "7" {
		t.Errorf("the Job is told %+v", link)
	}
}

func TestALinkedUpgradeThatFailsLeadsBackToTheReplica(t *testing.T) {
	o := granted()
	o.upgrade.Status.Link = &v1alpha1.LinkStatus{Volumes: o.cluster.Status.VolumeLocks[0].Volumes[:2]}
	o.inspections = compared(ended("shut down", "0/5", 2), ended("shut down in recovery", "0/5", 2))
	passes(t, o)
	o.inspections = nil
	o.work = workload.State{Exists: true, Failed: true, Outcome: &agentapi.Outcome{Error: &agentapi.JobError{Reason: "UpgradeFailed", Message: "x"}}}
	passes(t, o)
	o.work = workload.State{}
	passes(t, o)
	back := o.upgrade.Status.Handover
	if back == nil || back.DataGeneration != "g1" || back.Instance != "shop-1" || back.VolumeUID == "" || o.upgrade.Status.VolumeLockRequest == nil {
		t.Fatalf("%+v", back)
	}
	lock := &o.cluster.Status.VolumeLocks[0]
	lock.State, lock.AdoptedGeneration, lock.Volumes = v1alpha1.VolumeLockAdopted, "g1", nil
	passes(t, o)
	o.cluster.Status.VolumeLocks = nil
	passes(t, o)
	o.cluster.Status.ReleasedDataGenerations = []string{"g2"}
	if rested := passes(t, o); rested.Reason != v1alpha1.ReasonRolledBack || !strings.Contains(rested.Message, "that of shop-1") {
		t.Errorf("%+v", rested)
	}
}

// TestTheStoppedClusterDoesNotWaitForAWatchThatTellsNothing: a pod on a node that doesn't respond changes no more, and is lost only by the clock.
func TestTheStoppedClusterDoesNotWaitForAWatchThatTellsNothing(t *testing.T) {
	o := granted()
	o.upgrade.Status.Link = &v1alpha1.LinkStatus{Volumes: o.cluster.Status.VolumeLocks[0].Volumes[:2]}
	o.inspections = compared(agentapi.UpgradeInspection{}, ended("shut down in recovery", "0/5", 2))
	if rested := passes(t, o); rested.Reason != v1alpha1.ReasonUpgrading || rested.After != 0 {
		t.Errorf("a pod that works tells when it is done: %+v", rested)
	}
	o.inspections[0].state.Overdue = o.now
	if rested := passes(t, o); rested.Reason != v1alpha1.ReasonUpgrading || rested.After == 0 {
		t.Errorf("nobody looks again at the pod that was told to go: %+v", rested)
	}
	o.inspections[0].lost = true
	passes(t, o)
	if f := o.upgrade.Status.Failure; f == nil || f.Reason != v1alpha1.ReasonNoWayBack {
		t.Errorf("the node is lost: %+v", f)
	}
}

func TestAPodWakesTheUpgradeThatItWorksFor(t *testing.T) {
	for job, want := range map[string]string{
		"up-upgrade": "up", "up-data-0": "up", "new-data-center-data-1": "new-data-center", "new-data-center-upgrade": "new-data-center", "up-upgrade-check": "", "other": "",
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Labels: map[string]string{
			batchv1.JobNameLabel: job, v1alpha1.LabelComponent: workload.ComponentUpgrade,
		}}}
		woken := ""
		for _, request := range worksFor(t.Context(), pod) {
			woken += request.Name
		}
		if woken != want {
			t.Errorf("%s wakes %q, want %q", job, woken, want)
		}
	}
}

func TestWithoutAWayBackNothingIsLinkedAndThePrimaryStartsAgain(t *testing.T) {
	o := granted()
	o.upgrade.Status.Link = &v1alpha1.LinkStatus{Volumes: o.cluster.Status.VolumeLocks[0].Volumes[:2]}
	o.inspections = compared(ended("shut down", "0/5", 2), ended("shut down in recovery", "0/4", 2))
	passes(t, o)
	o.inspections = nil
	passes(t, o)
	status := o.upgrade.Status
	if status.Failure == nil || status.Failure.Reason != v1alpha1.ReasonNoWayBack || status.Previous != nil || status.Handover != nil || status.VolumeLockRequest != nil {
		t.Errorf("failure %+v, previous %+v, handed over %+v, requested %+v", status.Failure, status.Previous, status.Handover, status.VolumeLockRequest)
	}
}
