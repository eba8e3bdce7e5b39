package volumegrant

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/statefulset"
	"howdah.dev/howdah/cmd/db-controller/internal/desired"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
)

func TestDataThatIsHandedOverBeginsWhereItLies(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		want   string
	}{
		"on the first volume that was granted": {func(o *observed.Cluster) {
			observedtest.HandsOver(o, "g2", v1alpha1.VolumeLockGranted, "shop-2", "shop-0", "shop-1")
		}, "shop-2"},
		"taken back, where it was before": {func(o *observed.Cluster) {
			observedtest.HandsOver(o, "g0", v1alpha1.VolumeLockAdopted)
			o.Cluster.Status.DataInstance, o.Cluster.Status.Primary = "shop-2", "shop-1"
			observedtest.AllGone(o)
		}, "shop-2"},
		"taken back in a cluster of an older suite, at the primary": {func(o *observed.Cluster) {
			observedtest.HandsOver(o, "g0", v1alpha1.VolumeLockAdopted)
			o.Cluster.Status.Primary = "shop-1"
			observedtest.AllGone(o)
		}, "shop-1"},
	} {
		t.Run(name, func(t *testing.T) {
			o := observedtest.Trio(c.change)
			outcome := AdoptHandover(t.Context(), o)
			status := o.Cluster.Status
			if outcome.Kind != flow.KindSave || status.DataInstance != c.want || status.Primary != c.want {
				t.Errorf("%+v: begins on %s, primary %s", outcome, status.DataInstance, status.Primary)
			}
			if told := desired.AgentConfig(o).DataInstance; told != c.want {
				t.Errorf("the agents are told %q", told)
			}
		})
	}
}

func TestWhatRunsIsNotTakenBackBeforeItIsStopped(t *testing.T) {
	o := observedtest.Trio(func(o *observed.Cluster) { observedtest.HandsOver(o, "g0", v1alpha1.VolumeLockAdopted, "shop-0") })
	if outcome := AdoptHandover(t.Context(), o); !outcome.Finished() || o.Cluster.Status.DataGeneration != "g1" || !MustBeStopped(o) {
		t.Errorf("%+v: it runs on %s", outcome, o.Cluster.Status.DataGeneration)
	}
}

func TestServingClientsIsRecordedOnce(t *testing.T) {
	adopts := func(o *observed.Cluster) {
		observedtest.HandsOver(o, "g1", v1alpha1.VolumeLockAdopted)
		o.Cluster.Status.VolumeLocks[0].AdoptedGeneration = "g1"
	}
	led := func(generation string) func(*observed.Cluster) {
		return func(o *observed.Cluster) {
			observedtest.LeadTo(o, "10.0.0.7", ptr.To(false))
			o.Live[observed.Key("EndpointSlice", "shop-rw")].SetAnnotations(map[string]string{agentapi.AnnotationDataGeneration: generation})
		}
	}
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		served bool
	}{
		"clients are led to it":              {adopts, true},
		"it is not ready":                    {observedtest.All(adopts, observedtest.NotReady), false},
		"it was led to, and is down":         {observedtest.All(adopts, observedtest.NotReady, led("g1")), true},
		"the previous data was led to":       {observedtest.All(adopts, observedtest.NotReady, led("g0")), false},
		"ready, and nobody is led to it yet": {observedtest.All(adopts, led("g0")), false},
		"the same, and it is to be taken back": {observedtest.All(adopts, led("g0"), func(o *observed.Cluster) {
			o.Requests[0].Handover.DataGeneration = "g0"
		}), true},
		"another lock's data": {func(o *observed.Cluster) { observedtest.HandsOver(o, "g1", v1alpha1.VolumeLockAdopted) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := observedtest.Running(c.change)
			RecordServed(t.Context(), o)
			since := o.Cluster.Status.VolumeLocks[0].ServedSince
			if (since != nil) != c.served {
				t.Fatalf("since %v", since)
			}
			o.Now = o.Now.Add(time.Hour)
			if again := RecordServed(t.Context(), o); !again.Finished() || !o.Cluster.Status.VolumeLocks[0].ServedSince.Equal(since) {
				t.Errorf("an hour later: %+v, since %v", again, o.Cluster.Status.VolumeLocks[0].ServedSince)
			}
		})
	}
}

func TestTheVolumeWithTheDataIsHandedOverFirst(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		want   string
	}{
		"of who is primary":                        {nil, "data-shop-0"},
		"of who became it":                         {func(o *observed.Cluster) { observedtest.SwitchedTo(o, "shop-2") }, "data-shop-2"},
		"of who was when all were stopped":         {observedtest.All(observedtest.AllGone, func(o *observed.Cluster) { o.Cluster.Status.Primary = "shop-1" }), "data-shop-1"},
		"of who was last, as the Lease says":       {observedtest.All(observedtest.AllGone, observedtest.LeaseOf("g1", "shop-2")), "data-shop-2"},
		"not of who was last on the data before":   {observedtest.All(observedtest.AllGone, observedtest.LeaseOf("g0", "shop-2")), "data-shop-0"},
		"of the first, before there was a primary": {observedtest.All(observedtest.AllGone, func(o *observed.Cluster) { o.Cluster.Status.Primary = "" }), "data-shop-0"},
	} {
		o := observedtest.Trio(c.change)
		if facts := facts(o); len(facts.Volumes) != 3 || facts.Volumes[0].ClaimName != c.want || "data-"+facts.Volumes[0].Instance != c.want {
			t.Errorf("%s: %+v", name, facts.Volumes)
		}
	}
}

// status.primary may be older than the last failover. The volume that it names would be upgraded or restored, and all others rebuilt from it.
func TestNothingIsGrantedWhileNobodyKnowsWhoWasPrimaryLast(t *testing.T) {
	fenced := func(o *observed.Cluster) {
		observedtest.AllGone(o)
		observedtest.HandsOver(o, "", v1alpha1.VolumeLockQueued)
		o.Requests[0].Handover, o.Cluster.Status.VolumeLocks[0].AdoptedGeneration = nil, ""
		o.Cluster.Status.VolumeLocks[0].StoppingSince = &metav1.Time{Time: observedtest.Noon}
		o.StatefulSet().Annotations = map[string]string{statefulset.AnnotationVolumeLock: "t"}
	}
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		want   v1alpha1.VolumeLockState
	}{
		"the Lease says who was":              {observedtest.LeaseOf("g1", "shop-2"), v1alpha1.VolumeLockGranted},
		"the Lease can't be read":             {observedtest.DamagedLease, v1alpha1.VolumeLockRefused},
		"the Lease names no instance of ours": {observedtest.LeaseOf("g1", "other-0"), v1alpha1.VolumeLockRefused},
	} {
		o := observedtest.Trio(observedtest.All(fenced, c.change))
		Respond(t.Context(), o)
		lock := o.Cluster.Status.VolumeLocks[0]
		if lock.State != c.want || c.want == v1alpha1.VolumeLockRefused && !strings.Contains(lock.Message, "it isn't known which instance was primary last") {
			t.Errorf("%s: %+v", name, lock)
		}
	}
	if facts := facts(observedtest.Trio(observedtest.DamagedLease)); !strings.Contains(facts.Obstacle, "it isn't known which instance was primary last") {
		t.Errorf("it would be stopped: %+v", facts)
	}
}

func TestAGrantSaysThatAllWALIsArchivedOnlyIfTheLastPrimarySaidSo(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		want   bool
	}{
		"it said so":                     {observedtest.Ended("shop-0", "g1"), true},
		"it said what is missing":        {observedtest.Ended("shop-0", "g1", "000000010000000000000007"), false},
		"it was killed":                  {nil, false},
		"another one said so":            {observedtest.Ended("shop-1", "g1"), false},
		"it said so of the data before":  {observedtest.Ended("shop-0", "g0"), false},
		"there is no data yet that ends": {observedtest.All(observedtest.Ended("shop-0", "g1"), func(o *observed.Cluster) { o.Cluster.Status.SystemIdentifier = "" }), false},
	} {
		if got := facts(observedtest.Trio(observedtest.All(observedtest.AllGone, observedtest.OrNothing(c.change)))).Archived; got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestAGrantSaysHowTheServerEndedAsFarAsThatWasSeen(t *testing.T) {
	pod := func(state corev1.ContainerState) *corev1.Pod {
		return &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
			{Name: "sidecar", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}}, {Name: "postgres", State: state},
		}}}
	}
	ended := func(code int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}
	}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want v1alpha1.ShutdownState
	}{
		"it was shut down":             {pod(ended(0)), v1alpha1.ShutdownClean},
		"it was killed":                {pod(ended(137)), v1alpha1.ShutdownUnclean},
		"the agent says so":            {pod(ended(1)), v1alpha1.ShutdownUnclean},
		"its container is not over":    {pod(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}), ""},
		"there is no pod to tell more": {nil, ""},
	} {
		if got := shutdown(c.pod); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestVolumesAreGrantedOnlyOnceTheStatefulSetCarriesTheToken(t *testing.T) {
	stopping := func(o *observed.Cluster) {
		observedtest.HandsOver(o, "g2", v1alpha1.VolumeLockQueued)
		o.Cluster.Status.VolumeLocks[0].StoppingSince = observed.TimeOf(observedtest.Noon)
		observedtest.AllGone(o)
	}
	carries := func(token string) func(*observed.Cluster) {
		return func(o *observed.Cluster) {
			o.StatefulSet().Annotations = map[string]string{statefulset.AnnotationVolumeLock: token}
		}
	}
	none := func(o *observed.Cluster) { delete(o.Live, observed.Key("StatefulSet", "shop")) }
	for name, c := range map[string]struct {
		change  func(*observed.Cluster)
		granted bool
	}{
		"it carries none":                 {stopping, false},
		"it carries that of another lock": {observedtest.All(stopping, carries("t0")), false},
		"it carries it":                   {observedtest.All(stopping, carries("t")), true},
		"there is no StatefulSet":         {observedtest.All(stopping, none), false},
		"there is none, and never was any data": {
			observedtest.All(stopping, none, func(o *observed.Cluster) { o.Cluster.Status.SystemIdentifier = "" }), true},
	} {
		t.Run(name, func(t *testing.T) {
			o := observedtest.Trio(c.change)
			Respond(t.Context(), o)
			if got := o.Cluster.Status.VolumeLocks[0]; (got.State == v1alpha1.VolumeLockGranted) != c.granted {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestAHandoverOfAVolumeThatWasDeletedIsRefusedAndTheClusterGoesOn(t *testing.T) {
	for name, c := range map[string]struct {
		uid     types.UID
		refused bool
	}{
		"the volume that it names":    {"v0", false},
		"another one of its name":     {"v9", true},
		"a requester that names none": {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			o := observedtest.Trio(func(o *observed.Cluster) {
				observedtest.HandsOver(o, "g0", v1alpha1.VolumeLockGranted, "shop-0")
				o.Requests[0].Handover.Instance, o.Requests[0].Handover.VolumeUID = "shop-0", c.uid
				observedtest.AllGone(o)
				o.Claim(0).UID = "v0"
			})
			outcome := AdoptHandover(t.Context(), o)
			status := o.Cluster.Status
			if outcome.Kind != flow.KindSave || (status.DataGeneration == "g1") != c.refused || (status.VolumeLocks[0].State == v1alpha1.VolumeLockRefused) != c.refused {
				t.Errorf("%+v: %s, %+v", outcome, status.DataGeneration, status.VolumeLocks[0])
			}
			if c.refused && MustBeStopped(o) {
				t.Error("it stays down for nothing")
			}
		})
	}
}

// asksReplicasLast has an Upgrade request the volumes of a cluster that runs, with the replicas stopped last.
func asksReplicasLast(o *observed.Cluster) {
	observedtest.HandsOver(o, "g2", v1alpha1.VolumeLockQueued)
	o.Requests[0].Handover, o.Requests[0].Request.ReplicasLast = nil, true
	o.Cluster.Status.VolumeLocks = nil
}

func TestNothingIsStoppedBeforeTheReplicasKnowThatTheyEndLast(t *testing.T) {
	o := observedtest.Trio(asksReplicasLast)
	Respond(t.Context(), o)
	lock := o.Cluster.Status.VolumeLocks[0]
	if lock.State != v1alpha1.VolumeLockQueued || !lock.ReplicasLast || lock.StoppingSince != nil || MustBeStopped(o) {
		t.Fatalf("nobody was told yet: %+v", lock)
	}
	if outcome := AwaitTold(t.Context(), o); outcome.After == 0 {
		t.Errorf("nobody looks again: %+v", outcome)
	}
	if told := desired.AgentConfig(o); !told.ReplicasLast {
		t.Fatalf("they are told %+v", told)
	}
	observedtest.Tell(o)
	o.Agents["shop-2"].ConfigHash = "before"
	Respond(t.Context(), o)
	if lock := o.Cluster.Status.VolumeLocks[0]; lock.StoppingSince != nil || !strings.Contains(lock.Message, "shop-2") {
		t.Fatalf("shop-2 was not told yet: %+v", lock)
	}
	o.Now = o.Now.Add(time.Hour)
	if Respond(t.Context(), o); MustBeStopped(o) {
		t.Fatal("it is stopped although shop-2 never said that it knows")
	}
	delete(o.Agents, "shop-2")
	o.Pod(2).Status.Conditions[0].Status = corev1.ConditionFalse
	Respond(t.Context(), o)
	if lock := o.Cluster.Status.VolumeLocks[0]; lock.StoppingSince == nil || !MustBeStopped(o) {
		t.Errorf("one that is down is waited for: %+v", lock)
	}
	if outcome := AwaitTold(t.Context(), o); !outcome.Finished() {
		t.Errorf("%+v", outcome)
	}
	if !desired.AgentConfig(o).ReplicasLast {
		t.Error("they are told otherwise while they end")
	}
	o.Cluster.Status.VolumeLocks[0].State = v1alpha1.VolumeLockAdopted
	if desired.AgentConfig(o).ReplicasLast {
		t.Error("who starts on the new data is told so as well")
	}
}

// Whoever can do without a replica that has everything doesn't wait for an agent that never says that it knows, as an older one's hash of
// the configuration is another, nor for what a replica has yet to replay.
func TestAnAgentThatKnowsNoOrderDelaysAStopForSecondsOnly(t *testing.T) {
	o := observedtest.Trio(asksReplicasLast)
	o.Requests[0].Request.ReplicasLast = false
	Respond(t.Context(), o)
	if told := desired.AgentConfig(o); MustBeStopped(o) || !told.ReplicasLast || told.ReplayLimitSeconds == 0 {
		t.Fatalf("%+v, told %+v", o.Cluster.Status.VolumeLocks[0], told)
	}
	o.Now = o.Now.Add(5 * time.Second)
	if Respond(t.Context(), o); MustBeStopped(o) {
		t.Fatal("no agent had the time to hear of it")
	}
	o.Now = o.Now.Add(time.Minute)
	if Respond(t.Context(), o); !MustBeStopped(o) {
		t.Errorf("%+v", o.Cluster.Status.VolumeLocks[0])
	}
	if outcome := AwaitTold(t.Context(), o); !outcome.Finished() {
		t.Errorf("%+v", outcome)
	}
}

// What a volume has seen is looked at before a cluster is stopped for somebody, as the status may be that of a restored etcd.
func TestNothingIsStoppedBeforeEachAgentHasAnswered(t *testing.T) {
	o := observedtest.Trio(asksReplicasLast)
	o.Requests[0].Request.ReplicasLast = false
	Respond(t.Context(), o)
	observedtest.Tell(o)
	silent := o.Agents["shop-2"]
	delete(o.Agents, "shop-2")
	o.Now = o.Now.Add(time.Minute)
	Respond(t.Context(), o)
	if lock := o.Cluster.Status.VolumeLocks[0]; MustBeStopped(o) || !strings.Contains(lock.Message, "shop-2") {
		t.Fatalf("%+v", lock)
	}
	o.Agents["shop-2"] = silent
	for range 2 { // it is told again in which order instances end
		Respond(t.Context(), o)
		observedtest.Tell(o)
	}
	if Respond(t.Context(), o); !MustBeStopped(o) {
		t.Errorf("%+v", o.Cluster.Status.VolumeLocks[0])
	}
}

// A linked upgrade that fails hands over the data that the cluster runs on, on the volume of a replica.
func TestTheSameDataBeginsOnTheReplicaThatLeadsBack(t *testing.T) {
	o := observedtest.Trio(func(o *observed.Cluster) {
		observedtest.HandsOver(o, "g1", v1alpha1.VolumeLockGranted, "shop-0", "shop-1", "shop-2")
		o.Requests[0].Handover.Instance, o.Cluster.Status.VolumeLocks[0].AdoptedGeneration = "shop-1", ""
		o.Cluster.Status.Adoptions, o.Cluster.Status.PreviousDataGeneration = 3, "g0"
		observedtest.AllGone(o)
	})
	outcome, status := AdoptHandover(t.Context(), o), &o.Cluster.Status
	if outcome.Kind != flow.KindSave || status.DataGeneration != "g1" || status.PreviousDataGeneration != "g0" || status.DataInstance != "shop-1" || status.Adoptions != 4 {
		t.Errorf("%+v: %+v", outcome, status)
	}
	if lock := status.VolumeLocks[0]; lock.State != v1alpha1.VolumeLockAdopted || lock.AdoptedGeneration != "g1" || MustBeStopped(o) {
		t.Errorf("%+v", lock)
	}
}

// After a restore of etcd, status may say that data can be brought back which was removed since.
func TestNothingIsStoppedToBringDataBackThatIsGone(t *testing.T) {
	for name, c := range map[string]struct {
		copies  []agentapi.Copy
		refused bool
	}{
		"it is there":              {[]agentapi.Copy{{ID: "g0", Of: "g0"}, {ID: "g1", Of: "g1"}}, false},
		"a clone of it is there":   {[]agentapi.Copy{{ID: "g0.c1", Of: "g0"}, {ID: "g1", Of: "g1"}}, false},
		"it was removed":           {[]agentapi.Copy{{ID: "g1", Of: "g1"}}, true},
		"the agent doesn't say so": {nil, false},
	} {
		o := observedtest.Trio(func(o *observed.Cluster) {
			observedtest.HandsOver(o, "g0", v1alpha1.VolumeLockQueued)
			o.Cluster.Status.VolumeLocks, o.Requests[0].Handover = nil, nil
			o.Requests[0].BringsBack = &v1alpha1.PreviousData{DataGeneration: "g0", Instance: "shop-1"}
			o.Agents["shop-1"].Copies = c.copies
		})
		Respond(t.Context(), o)
		lock := o.Cluster.Status.VolumeLocks[0]
		if refused := lock.State == v1alpha1.VolumeLockRefused; refused != c.refused || refused && MustBeStopped(o) || refused && !strings.Contains(lock.Message, "g0") {
			t.Errorf("%s: %+v", name, lock)
		}
	}
}
