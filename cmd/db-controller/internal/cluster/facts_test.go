package cluster

import (
	"context"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
	"howdah.dev/howdah/cmd/db-controller/internal/component/service"
	"howdah.dev/howdah/cmd/db-controller/internal/component/statefulset"
	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/cmd/db-controller/internal/ownwrites"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/workload"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// running is a world in which all is well; change makes it otherwise.
func running(change func(*world)) *world {
	cluster := &v1alpha1.PostgresCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "shop", UID: "u1", Generation: 3},
		Spec:       v1alpha1.PostgresClusterSpec{Version: 17, Instances: 1},
		Status: v1alpha1.PostgresClusterStatus{
			DataGeneration: "g1", MajorVersion: 17, Image: "postgres:17", SystemIdentifier: "7", AgentImage: "agent:1",
		},
	}
	w := &world{
		now: noon, cluster: cluster, own: &ownwrites.View{}, names: component.NamesOf(cluster), live: map[string]client.Object{},
		agents: map[string]*agentapi.Status{}, agentOfPods: workload.Agent{Image: "agent:1"},
	}
	set := statefulset.Build(cluster, w.inputs(1))
	set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(cluster, v1alpha1.GroupVersion.WithKind("PostgresCluster"))}
	w.live[key("StatefulSet", "shop")] = set
	w.live[key("PersistentVolumeClaim", "data-shop-0")] = volume.Claim(cluster, 0)
	pod := corev1.Pod{ObjectMeta: *set.Spec.Template.ObjectMeta.DeepCopy(), Spec: *set.Spec.Template.Spec.DeepCopy()}
	pod.Name, pod.UID, pod.Spec.NodeName = "shop-0", "p1", "w1"
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: "10.0.0.7",
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	w.pods = []corev1.Pod{pod}
	leadTo(w, "10.0.0.7", nil)
	w.agents["shop-0"] = &agentapi.Status{
		Pod: "shop-0", DataGeneration: "g1", SystemIdentifier: "7", State: agentapi.StateRunning, Role: "primary", Timeline: 1,
		Version: "17.5", ConfigHash: w.agentConfig().Hash(),
	}
	if change != nil {
		change(w)
	}
	return w
}

// leadTo has the EndpointSlice of the primary say where clients shall go.
func leadTo(w *world, address string, ready *bool) {
	slice := service.PrimarySlice(w.cluster)
	slice.OwnerReferences = w.statefulSet().OwnerReferences
	slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ready}}}
	w.live[key("EndpointSlice", "shop-rw")] = slice
}

func archiving17(w *world) {
	w.cluster.Spec.Archive = &v1alpha1.ArchiveSpec{Repository: v1alpha1.LocalReference{Name: "minio"}}
	w.repository = &v1alpha1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Name: "minio"}}
	w.agents["shop-0"].Archive = &agentapi.ArchiveStatus{LastWAL: "000000010000000000000004", LastTime: noon.Add(-time.Hour)}
}

func notReady(w *world) { w.pods[0].Status.Conditions[0].Status = corev1.ConditionFalse }

func waiting(reason, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: "postgres", Image: "postgres:17", State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message},
	}}
}

func TestConditionsSayWhatIsSeen(t *testing.T) {
	type says struct {
		status  metav1.ConditionStatus
		reason  string
		message string // in it
	}
	for name, c := range map[string]struct {
		kind    string
		change  func(*world)
		outcome flow.Outcome
		says
	}{
		"a serving cluster is ready":          {v1alpha1.ConditionReady, nil, flow.Next, says{"True", "Running", "shop-rw.demo.svc:5432"}},
		"an address that is said to be ready": {v1alpha1.ConditionReady, func(w *world) { leadTo(w, "10.0.0.7", ptr.To(true)) }, flow.Next, says{"True", "Running", ""}},
		"one that is not":                     {v1alpha1.ConditionReady, func(w *world) { leadTo(w, "10.0.0.7", ptr.To(false)) }, flow.Next, says{"False", "Starting", "has yet to write its address into the EndpointSlice shop-rw"}},
		"one of a pod that is gone":           {v1alpha1.ConditionReady, func(w *world) { leadTo(w, "10.0.0.6", nil) }, flow.Wait("Applying", "z"), says{"False", "Starting", "has yet to write its address"}},
		"no EndpointSlice at all":             {v1alpha1.ConditionReady, func(w *world) { delete(w.live, key("EndpointSlice", "shop-rw")) }, flow.Next, says{"False", "Starting", "has yet to write"}},
		"one of a primary before": {v1alpha1.ConditionReady, func(w *world) {
			*w = *trio(func(w *world) { leadTo(w, "10.0.0.6", nil) })
		}, flow.Next, says{"False", "Electing", "shop-0 is primary; its agent has yet to write"}},
		"the word of an agent that is away doesn't count": {v1alpha1.ConditionReady, notReady, flow.Next, says{"False", "Starting", "Kubernetes has yet to see"}},
		"an error elsewhere leaves it ready":              {v1alpha1.ConditionReady, nil, flow.Stop("NameConflict", "x"), says{"True", "Running", ""}},
		"an error elsewhere shows in up to date":          {v1alpha1.ConditionUpToDate, nil, flow.Stop("NameConflict", "x"), says{"False", "NameConflict", "x"}},
		"a cluster without a pod starts":                  {v1alpha1.ConditionReady, func(w *world) { w.pods = nil }, flow.Next, says{"False", "Starting", "shop-0 is being created"}},
		"what a step waits for is why":                    {v1alpha1.ConditionReady, notReady, flow.Wait("AwaitingRestore", "y"), says{"False", "AwaitingRestore", "y"}},
		"a pod on another data generation is none":        {v1alpha1.ConditionReady, func(w *world) { w.cluster.Status.DataGeneration = "g2" }, flow.Next, says{"False", "Starting", ""}},
		"an unschedulable pod says why": {v1alpha1.ConditionReady, func(w *world) {
			w.pods[0].Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/4 nodes are available",
			}}}
		}, flow.Next, says{"False", "Unschedulable", "0/4 nodes are available"}},
		"an image that can't be pulled is named": {v1alpha1.ConditionReady, func(w *world) {
			notReady(w)
			w.pods[0].Status.ContainerStatuses = []corev1.ContainerStatus{waiting("ImagePullBackOff", "not found")}
		}, flow.Next, says{"False", "ImageUnavailable", "postgres:17: ImagePullBackOff: not found"}},
		"a container that crashes says with what": {v1alpha1.ConditionReady, func(w *world) {
			notReady(w)
			status := waiting("CrashLoopBackOff", "back-off")
			status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 2, Message: "no space"}
			w.pods[0].Status.ContainerStatuses = []corev1.ContainerStatus{status}
		}, flow.Next, says{"False", "Unavailable", "exit status 2: no space"}},
		"a PostgreSQL that can't be started says why": {v1alpha1.ConditionReady, func(w *world) {
			notReady(w)
			w.agents["shop-0"].State, w.agents["shop-0"].Message = agentapi.StateFailed, "the disk is full"
		}, flow.Next, says{"False", "Unavailable", "the disk is full"}},
		"an agent that doesn't answer yet": {v1alpha1.ConditionReady, func(w *world) { notReady(w); w.agents = nil }, flow.Next,
			says{"False", "Starting", "its agent doesn't answer yet"}},
		"a deletion that waits keeps it ready": {v1alpha1.ConditionReady, nil, flow.Wait("AwaitingFinalBackup", "z"), says{"True", "AwaitingFinalBackup", "z"}},

		"all is current":                    {v1alpha1.ConditionUpToDate, nil, flow.Next, says{"True", "Current", ""}},
		"a higher version waits":            {v1alpha1.ConditionUpToDate, func(w *world) { w.cluster.Spec.Version = 18 }, flow.Next, says{"False", "VersionPending", "kind: Upgrade, metadata: {name: shop-to-18, namespace: demo}, spec: {cluster: {name: shop}, version: 18}"}},
		"a lower version is not acted on":   {v1alpha1.ConditionUpToDate, func(w *world) { w.cluster.Spec.Version = 15 }, flow.Next, says{"False", "VersionBehind", "write version: 17"}},
		"another image waits for a new pod": {v1alpha1.ConditionUpToDate, func(w *world) { w.cluster.Status.Image = "postgres:17.6" }, flow.Next, says{"False", "Applying", "the image postgres:17.6 instead of postgres:17"}},
		"parameters are on their way": {v1alpha1.ConditionUpToDate, func(w *world) {
			w.cluster.Spec.PostgreSQL.Parameters = map[string]v1alpha1.ParameterValue{"work_mem": "8MB"}
		}, flow.Next, says{"False", "Applying", "has yet to apply"}},
		"a refused parameter": {v1alpha1.ConditionUpToDate, func(w *world) {
			w.agents["shop-0"].ConfigError, w.agents["shop-0"].ConfigErrorHash = "no such parameter", w.agentConfig().Hash()
		}, flow.Next, says{"False", "ConfigurationInvalid", "The configuration of before stays: no such parameter"}},
		"an old refusal is forgotten": {v1alpha1.ConditionUpToDate, func(w *world) {
			w.agents["shop-0"].ConfigError, w.agents["shop-0"].ConfigErrorHash = "no such parameter", "older"
		}, flow.Next, says{"True", "Current", ""}},
		"a parameter that waits for a restart": {v1alpha1.ConditionUpToDate, func(w *world) {
			w.agents["shop-0"].PendingRestart = []string{"max_connections"}
		}, flow.Next, says{"False", "RestartPending", "max_connections"}},
		"an agent that is silent for a moment changes nothing": {v1alpha1.ConditionUpToDate, func(w *world) {
			report(w, flow.Next)
			w.agents = nil
		}, flow.Next, says{"True", "Current", ""}},

		"without an archive":     {v1alpha1.ConditionArchiving, nil, flow.Next, says{"False", "NotConfigured", "spec.archive.repository.name"}},
		"with a healthy archive": {v1alpha1.ConditionArchiving, archiving17, flow.Next, says{"True", "Archived", "minio"}},
		"before the first WAL":   {v1alpha1.ConditionArchiving, func(w *world) { archiving17(w); w.agents["shop-0"].Archive.LastWAL = "" }, flow.Next, says{"Unknown", "Starting", ""}},
		"a repository that is gone": {v1alpha1.ConditionArchiving, func(w *world) { archiving17(w); w.repository = nil }, flow.Next,
			says{"False", "RepositoryNotFound", "there is no BackupRepository minio"}},
		"a repository that can't be used": {v1alpha1.ConditionArchiving, func(w *world) {
			archiving17(w)
			w.repository.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "False", Reason: "AccessDenied", Message: "wrong key"}}
		}, flow.Next, says{"False", "AccessDenied", "wrong key"}},
		"a store that is away": {v1alpha1.ConditionArchiving, func(w *world) {
			archiving17(w)
			w.agents["shop-0"].Archive.FailingSince, w.agents["shop-0"].Archive.Error = noon, "connection refused"
		}, flow.Next, says{"False", "ArchiveFailing", "since 2026-03-01T12:00:00Z, and waits on the volume: connection refused"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := running(c.change)
			report(w, c.outcome)
			for _, condition := range w.cluster.Status.Conditions {
				if condition.Type != c.kind {
					continue
				}
				if condition.Status != c.status || condition.Reason != c.reason || !strings.Contains(condition.Message, c.message) || condition.ObservedGeneration != 3 {
					t.Errorf("got %s %s %q", condition.Status, condition.Reason, condition.Message)
				}
				return
			}
			t.Error("the condition is missing")
		})
	}
}

func TestThePositionOfTheArchiveIsPublishedOnceAMinuteAtMost(t *testing.T) {
	at := func(d time.Duration) time.Time { return noon.Add(d) }
	for name, c := range map[string]struct {
		published time.Duration
		seen      time.Duration
		now       time.Duration
		want      bool
	}{
		"a segment seconds after the last is not": {0, 10 * time.Second, 15 * time.Second, false},
		"one a minute after the last is":          {0, time.Minute, 61 * time.Second, true},
		"the last of a burst is, a minute later":  {0, 10 * time.Second, 70 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			archive := &v1alpha1.ArchiveStatus{LastArchivedWAL: "A", LastArchivedTime: timeOf(at(c.published))}
			reportPushed(archive, &agentapi.ArchiveStatus{LastWAL: "B", LastTime: at(c.seen)}, at(c.now))
			if (archive.LastArchivedWAL == "B") != c.want {
				t.Errorf("published %s", archive.LastArchivedWAL)
			}
		})
	}
	first := &v1alpha1.ArchiveStatus{}
	reportPushed(first, &agentapi.ArchiveStatus{LastWAL: "A", LastTime: noon}, noon)
	if first.LastArchivedWAL != "A" {
		t.Error("the very first is not published at once")
	}
}

func TestPoliciesRefuseWithASentence(t *testing.T) {
	images := manager.Images{15: "a", 17: "b"}
	for name, c := range map[string]struct {
		change          func(*world)
		reason, message string
	}{
		"an unknown version": {func(w *world) { w.cluster.Status.DataGeneration = ""; w.cluster.Spec.Version = 99 }, "UnknownVersion",
			"PostgreSQL 99 is not known here; known are 15, 17: write one of them in spec.version, or set spec.image"},
		"an unknown version later on is no reason": {func(w *world) { w.cluster.Spec.Version = 99 }, "", ""},
		"an unknown version with an image is none": {func(w *world) {
			w.cluster.Status.DataGeneration = ""
			w.cluster.Spec.Version, w.cluster.Spec.Image = 99, "x"
		}, "", ""},
		"a repository that is read-only": {func(w *world) {
			w.cluster.Status.DataGeneration = ""
			archiving17(w)
			w.repository.Spec.ReadOnly = true
		}, "ReadOnly", "BackupRepository minio is read-only (spec.readOnly), so nothing can be archived to it: name another in spec.archive.repository.name"},
		"a repository that is not there":          {func(w *world) { w.cluster.Status.DataGeneration = ""; archiving17(w); w.repository = nil }, "RepositoryNotFound", "there is no BackupRepository minio in namespace demo: make it, or name another in spec.archive.repository.name"},
		"a repository that is lost later is none": {func(w *world) { archiving17(w); w.repository = nil }, "", ""},
		"a Service of somebody else":              {func(w *world) { w.live["Service/shop-rw"] = named(&corev1.Service{}, "shop-rw") }, "NameConflict", "Service shop-rw is there and belongs to somebody else, so it is not touched: delete it, or make the cluster under another name"},
		"a volume that was left behind":           {func(w *world) { w.claim(0).Labels = map[string]string{component.LabelRetainedFrom: "shop"} }, "NameConflict", "PersistentVolumeClaim data-shop-0 was left behind by a PostgresCluster shop that was deleted, and may hold its data: delete the claim, or make the cluster under another name"},
		"a volume that is lost":                   {func(w *world) { delete(w.live, "PersistentVolumeClaim/data-shop-0") }, "Unavailable", "PersistentVolumeClaim data-shop-0, which held the data, is gone: restore a backup into a new PostgresCluster with a Restore, and delete this one"},
		"nothing, when all is well":               {nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			outcome := (&Reconciler{Images: images}).admit(context.Background(), running(c.change))
			if outcome.Reason != c.reason || outcome.Message != c.message {
				t.Errorf("got %q: %q", outcome.Reason, outcome.Message)
			}
		})
	}
}

// names of steps, without the package.
func names(plan steps) []string {
	var all []string
	for _, step := range plan {
		name := runtime.FuncForPC(reflect.ValueOf(step).Pointer()).Name()
		all = append(all, strings.TrimSuffix(name[strings.LastIndex(name, ".")+1:], "-fm"))
	}
	return all
}

func TestThePlanFollowsWhatWasSeen(t *testing.T) {
	r := &Reconciler{}
	deleted := func(w *world) { w.cluster.DeletionTimestamp = ptr.To(metav1.NewTime(noon)) }
	before := func(plan []string, first, second string) bool {
		a, b := slices.Index(plan, first), slices.Index(plan, second)
		return a >= 0 && b >= 0 && a < b
	}
	live := names(r.plan(running(nil)))
	for _, order := range [][2]string{
		{"ensureFinalizer", "admit"}, {"admit", "pinBeginning"}, {"pinBeginning", "ensureAuthority"},
		{"adoptHandover", "answerHolds"}, {"answerHolds", "ensureStatefulSet"}, {"initialize", "ensureStatefulSet"},
		{"ensureConfigMaps", "ensureStatefulSet"}, {"ensureStatefulSet", "awaitReady"},
	} {
		if !before(live, order[0], order[1]) {
			t.Errorf("%s has to come before %s: %v", order[0], order[1], live)
		}
	}
	gone := []string{"keepOrder", "answerHolds", "stopInitialization", "stopInstances", "releaseVolumes", "removeFinalizer"}
	if plan := names(r.plan(running(deleted))); !slices.Equal(plan, gone) {
		t.Errorf("without a final backup: %v", plan)
	}
	waits := names(r.plan(running(func(w *world) { deleted(w); archiving17(w) })))
	if !before(waits, "ensureStatefulSet", "askFinalBackup") || !before(waits, "awaitFinalBackup", "stopInstances") {
		t.Errorf("with a final backup: %v", waits)
	}
	never := names(r.plan(running(func(w *world) { deleted(w); archiving17(w); w.cluster.Status.SystemIdentifier = "" })))
	if !slices.Equal(never, gone) {
		t.Errorf("of a cluster that never ran: %v", never)
	}
}

func TestStoppedTakesTheWordOfTheStatefulSetsController(t *testing.T) {
	none := func(w *world) *appsv1.StatefulSet {
		set := w.statefulSet()
		w.pods, set.Spec.Replicas, set.Generation, set.Status.ObservedGeneration = nil, ptr.To[int32](0), 2, 2
		return set
	}
	for name, c := range map[string]struct {
		change func(*world)
		want   bool
	}{
		"running":                       {nil, false},
		"scaled down and gone":          {func(w *world) { none(w) }, true},
		"scaled down, not yet seen":     {func(w *world) { none(w).Status.ObservedGeneration = 1 }, false},
		"gone, but it comes again":      {func(w *world) { none(w).Spec.Replicas = ptr.To[int32](1) }, false},
		"the pod is still going":        {func(w *world) { pods := w.pods; none(w); w.pods = pods }, false},
		"a worker still writes":         {func(w *world) { none(w); w.workers = make([]corev1.Pod, 1) }, false},
		"there never was a StatefulSet": {func(w *world) { w.pods, w.live = nil, nil }, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := running(c.change).stopped(); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestVolumesAreVacatedWhenAllContainersHaveEndedForGood(t *testing.T) {
	going := func(phase corev1.PodPhase) func(w *world) {
		return func(w *world) {
			set := w.statefulSet()
			set.Spec.Replicas, set.Generation, set.Status.ObservedGeneration, set.Status.Replicas = ptr.To[int32](0), 2, 2, 1
			w.pods[0].Status.Phase, w.pods[0].DeletionTimestamp = phase, &metav1.Time{Time: w.now}
		}
	}
	and := func(changes ...func(*world)) func(*world) {
		return func(w *world) {
			for _, change := range changes {
				change(w)
			}
		}
	}
	for name, c := range map[string]struct {
		change func(*world)
		want   bool
	}{
		"running":                              {nil, false},
		"going":                                {going(corev1.PodRunning), false},
		"going, its containers have ended":     {going(corev1.PodSucceeded), true},
		"going, they have ended with an error": {going(corev1.PodFailed), true},
		"they have ended, but nobody has told it to go": {
			and(going(corev1.PodFailed), func(w *world) { w.pods[0].DeletionTimestamp = nil }), false},
		"scaled down, not yet seen": {
			and(going(corev1.PodSucceeded), func(w *world) { w.statefulSet().Status.ObservedGeneration = 1 }), false},
		"there is another pod that isn't seen yet": {
			and(going(corev1.PodSucceeded), func(w *world) { w.statefulSet().Status.Replicas = 2 }), false},
		"a worker still writes": {and(going(corev1.PodSucceeded), func(w *world) { w.workers = make([]corev1.Pod, 1) }), false},
	} {
		t.Run(name, func(t *testing.T) {
			w := running(c.change)
			if got := w.vacated(); got != c.want {
				t.Errorf("got %v", got)
			}
			if w.stopped() {
				t.Error("the pod is still there")
			}
		})
	}
}

func TestPausesBetweenFinalBackupsGrow(t *testing.T) {
	for attempt, want := range map[int]time.Duration{1: time.Minute, 2: 2 * time.Minute, 6: 32 * time.Minute, 7: time.Hour, 1000: time.Hour} {
		if got := pauseBefore(attempt); got != want {
			t.Errorf("before attempt %d: %s, want %s", attempt, got, want)
		}
	}
	if attemptOf("some-uid.12") != 12 || attemptOf("nonsense") != 0 {
		t.Error("the attempt in a token is not read")
	}
}

func TestContainsLooksOnlyAtWhatIsWanted(t *testing.T) {
	type m = map[string]any
	type l = []any
	for name, c := range map[string]struct {
		live, wanted any
		want         bool
	}{
		"the same":                              {m{"a": "b"}, m{"a": "b"}, true},
		"more than is wanted":                   {m{"a": "b", "c": "d"}, m{"a": "b"}, true},
		"another value":                         {m{"a": "b"}, m{"a": "c"}, false},
		"nothing where something is wanted":     {m{}, m{"a": m{"b": "c"}}, false},
		"nothing where nothing is wanted":       {m{}, m{"a": m{}}, true},
		"a list with one more":                  {m{"a": l{"x", "y"}}, m{"a": l{"x"}}, false},
		"a list in another order":               {l{"x", "y"}, l{"y", "x"}, false},
		"named elements in another order":       {l{m{"name": "x"}, m{"name": "y", "z": "1"}}, l{m{"name": "y"}, m{"name": "x"}}, true},
		"a named element with another value":    {l{m{"name": "x", "z": "1"}}, l{m{"name": "x", "z": "2"}}, false},
		"one named element in place of another": {l{m{"name": "x"}}, l{m{"name": "y"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := contains(c.live, c.wanted); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestVolumesGoOnlyWhereABackupStaysOrSomebodySaysSo(t *testing.T) {
	archive := &v1alpha1.ArchiveSpec{}
	for name, c := range map[string]struct {
		spec v1alpha1.PostgresClusterSpec
		want v1alpha1.VolumePolicy
	}{
		"nothing said, no archive":      {v1alpha1.PostgresClusterSpec{}, v1alpha1.VolumesRetain},
		"nothing said, with an archive": {v1alpha1.PostgresClusterSpec{Archive: archive}, v1alpha1.VolumesDelete},
		"no final backup wanted":        {v1alpha1.PostgresClusterSpec{Archive: archive, DeletionPolicy: v1alpha1.DeletionPolicy{FinalBackup: ptr.To(false)}}, v1alpha1.VolumesRetain},
		"said":                          {v1alpha1.PostgresClusterSpec{DeletionPolicy: v1alpha1.DeletionPolicy{Volumes: v1alpha1.VolumesDelete}}, v1alpha1.VolumesDelete},
	} {
		if got := volumePolicy(&v1alpha1.PostgresCluster{Spec: c.spec}); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestWhereAnInstanceIsIsPublished(t *testing.T) {
	w := running(nil)
	report(w, flow.Next)
	if at := w.cluster.Status.Instances[0].Address; at != "10.0.0.7" {
		t.Errorf("it is at %q", at)
	}
	w.pods[0].Status.PodIP = "10.0.0.8"
	report(w, flow.Next)
	if at := w.cluster.Status.Instances[0].Address; at != "10.0.0.8" {
		t.Errorf("after a power cut it is at %q", at)
	}
	w.pods = nil
	report(w, flow.Next)
	if at := w.cluster.Status.Instances[0].Address; at != "" {
		t.Errorf("without a pod it is at %q", at)
	}
}
