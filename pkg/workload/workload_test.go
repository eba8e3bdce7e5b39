package workload

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
)

func ended(minute int, message string) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(time.Unix(int64(60*minute), 0))},
		Status: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: message}},
		}}},
	}
}

func job(conditions ...batchv1.JobConditionType) *batchv1.Job {
	j := &batchv1.Job{}
	for _, c := range conditions {
		j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: c, Status: corev1.ConditionTrue})
	}
	return j
}

func TestAJobHasEndedOnlyWhenItsPodsHave(t *testing.T) {
	running := corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	for name, c := range map[string]struct {
		job   *batchv1.Job
		pods  []corev1.Pod
		ended bool
	}{
		"it runs":                         {job(), []corev1.Pod{running}, false},
		"it failed, and no pod runs":      {job(batchv1.JobFailed), []corev1.Pod{ended(1, "")}, true},
		"it failed, but a pod still runs": {job(batchv1.JobFailed), []corev1.Pod{ended(1, ""), running}, false},
		"it is complete":                  {job(batchv1.JobComplete), []corev1.Pod{ended(1, "")}, true},
	} {
		if got := stateOf(c.job, c.pods).Ended(); got != c.ended {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestAJobIsDoneWhenTheContainersOfItsPodHaveEndedWell(t *testing.T) {
	pod := func(phase corev1.PodPhase, codes ...int32) corev1.Pod {
		p := corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever}, Status: corev1.PodStatus{Phase: phase}}
		for _, code := range codes {
			state := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
			if code >= 0 {
				state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}
			}
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{})
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{State: state})
		}
		return p
	}
	silent := pod(corev1.PodRunning, 0)
	silent.Status.ContainerStatuses = nil
	again := pod(corev1.PodRunning, 0)
	again.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	for name, c := range map[string]struct {
		pods []corev1.Pod
		done bool
	}{
		"it has no pod":                                {nil, false},
		"its pod runs":                                 {[]corev1.Pod{pod(corev1.PodRunning, -1)}, false},
		"nothing is known of its containers":           {[]corev1.Pod{silent}, false},
		"its container has ended, and its pod not yet": {[]corev1.Pod{pod(corev1.PodRunning, 0)}, true},
		"its pod has ended, too":                       {[]corev1.Pod{pod(corev1.PodSucceeded, 0)}, true},
		"its container has failed":                     {[]corev1.Pod{pod(corev1.PodRunning, 1)}, false},
		"one of two containers runs":                   {[]corev1.Pod{pod(corev1.PodRunning, 0, -1)}, false},
		"its container may be started again":           {[]corev1.Pod{again}, false},
		"one has failed before":                        {[]corev1.Pod{pod(corev1.PodFailed, 1), pod(corev1.PodRunning, 0)}, true},
		"another runs":                                 {[]corev1.Pod{pod(corev1.PodRunning, 0), pod(corev1.PodRunning, -1)}, false},
		"another is of unknown fate":                   {[]corev1.Pod{pod(corev1.PodUnknown, -1), pod(corev1.PodSucceeded, 0)}, false},
	} {
		if got := stateOf(job(), c.pods).Done; got != c.done {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestWhatAPodHasSaidIsHeardBeforeKubernetesSaysThatItsJobHasEnded(t *testing.T) {
	says := func(message string, code int32) corev1.Pod {
		pod := ended(1, message)
		pod.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{}}}
		pod.Status.Phase = corev1.PodRunning
		pod.Status.ContainerStatuses[0].State.Terminated.ExitCode = code
		return pod
	}
	const result = `{"result":{"dataGeneration":"g2"}}`
	for name, c := range map[string]struct {
		pod  corev1.Pod
		said bool
	}{
		"it has done its work": {says(result, 0), true},
		"nothing can be read":  {says("", 0), false},
		"it has failed":        {says(result, 1), false},
	} {
		state := stateOf(job(), []corev1.Pod{c.pod})
		if state.Said() != c.said || state.Ended() {
			t.Errorf("%s: %+v", name, state)
		}
		state.Deleting = true
		if state.Said() {
			t.Errorf("%s: a Job that is going away has said something", name)
		}
	}
}

func TestTheLastPodsWordCounts(t *testing.T) {
	state := stateOf(job(batchv1.JobFailed), []corev1.Pod{
		ended(2, `{"error":{"reason":"DataCorrupt","message":"object x"}}`),
		ended(1, `{"error":{"reason":"JobFailed","message":"store away"}}`),
	})
	if reason, message := state.FailureReason(); reason != "DataCorrupt" || message != "Object x." {
		t.Errorf("got %s: %s", reason, message)
	}
	if reason, _ := stateOf(job(batchv1.JobFailed), []corev1.Pod{ended(1, "Killed")}).FailureReason(); reason != v1alpha1.ReasonJobFailed {
		t.Errorf("a pod that said nothing gives %s", reason)
	}
	var result agentapi.UpgradeResult
	if !stateOf(job(batchv1.JobComplete), []corev1.Pod{ended(1, `{"result":{"dataGeneration":"g2"}}`)}).Result(&result) || result.DataGeneration != "g2" {
		t.Errorf("the result is %+v", result)
	}
	if stateOf(job(batchv1.JobComplete), nil).Result(&result) {
		t.Error("a result was read of no pod")
	}
}

func TestAPodThatTheCacheDoesNotShowYetIsHeard(t *testing.T) {
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner", UID: "o"}}
	done := job(batchv1.JobComplete)
	done.Name, done.UID = "work", "j"
	done.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}
	pod := ended(1, `{"result":{"dataGeneration":"g2"}}`)
	pod.Name, pod.Labels = "work-1", map[string]string{batchv1.ControllerUidLabel: "j"}
	running := pod.DeepCopy()
	running.Status = corev1.PodStatus{Phase: corev1.PodRunning}
	for name, cached := range map[string]client.Reader{
		"it is not there": holds(t, done), "it still runs there": holds(t, done, running), "the cache is up to date": holds(t, done, &pod),
	} {
		state, err := Observe(context.Background(), cached, holds(t, done, &pod), owner, "work")
		if err != nil || !state.Ended() || state.Outcome == nil {
			t.Errorf("%s: %+v, %v", name, state, err)
		}
	}
}

func holds(t *testing.T, objects ...client.Object) client.Reader {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

func TestAPodThatCannotStartSaysWhy(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	if got := PodWaitingFor(pod); got != "" {
		t.Errorf("got %q", got)
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"},
	}}}
	if got := PodWaitingFor(pod); got != "Pod p is waiting: ImagePullBackOff: no such image." {
		t.Errorf("got %q", got)
	}
}

func TestEveryPodKeepsToTheRestrictedProfile(t *testing.T) {
	pod := Job{Name: "j", Owner: &v1alpha1.Backup{}, Image: "postgres", Agent: Agent{Image: "agent"}, DataClaim: "d", DataReadOnly: true}.pod()
	if s := pod.SecurityContext; !*s.RunAsNonRoot || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("the pod has %+v", s)
	}
	for _, c := range append(pod.InitContainers, pod.Containers...) {
		s := c.SecurityContext
		if s == nil || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || len(s.Capabilities.Drop) != 1 {
			t.Errorf("container %s has %+v", c.Name, s)
		}
	}
	if *pod.AutomountServiceAccountToken {
		t.Error("a pod that reports no progress gets a token")
	}
	for _, mount := range pod.Containers[0].VolumeMounts {
		if mount.MountPath == agentapi.VolumeDir && !mount.ReadOnly {
			t.Error("the volume is mounted for writing")
		}
	}
}

func TestEveryPodHasTheAgentInTheSamePlaceHoweverItComesThere(t *testing.T) {
	copied, mounted, mountedInJobs := Agent{Image: "agent"}, Agent{Image: "agent", Mounted: true}, Agent{Image: "agent", MountedInJobs: true}
	upgrade := Job{Owner: &v1alpha1.Upgrade{}, Image: "postgres:18", OldImage: "postgres:17"}
	restore := Job{Owner: &v1alpha1.Restore{}, Image: "postgres:18"}
	backup := Job{Owner: &v1alpha1.Backup{}, Image: "agent"}
	for name, c := range map[string]struct {
		job    Job
		agent  Agent
		inits  int
		images map[string]string
		path   string
	}{
		"it is copied":                   {restore, copied, 1, map[string]string{}, agentapi.AgentPath},
		"it is mounted":                  {restore, mounted, 0, map[string]string{agentapi.BinDir: "agent"}, agentapi.AgentPath},
		"it is mounted in Jobs":          {restore, mountedInJobs, 0, map[string]string{agentapi.BinDir: "agent"}, agentapi.AgentPath},
		"an upgrade copies both":         {upgrade, copied, 2, map[string]string{}, agentapi.AgentPath},
		"an upgrade mounts both":         {upgrade, mountedInJobs, 0, map[string]string{agentapi.OldImageDir: "postgres:17", agentapi.BinDir: "agent"}, agentapi.AgentPath},
		"it is told to":                  {upgrade, mounted, 0, map[string]string{agentapi.OldImageDir: "postgres:17", agentapi.BinDir: "agent"}, agentapi.AgentPath},
		"its own image has it":           {backup, copied, 0, map[string]string{}, "/agent"},
		"its own image needs no other's": {backup, mounted, 0, map[string]string{}, "/agent"},
	} {
		c.job.Name, c.job.Args, c.job.Agent = "j", []string{"work"}, c.agent
		spec := c.job.pod()
		if len(spec.InitContainers) != c.inits {
			t.Errorf("%s: it starts %d containers before its own", name, len(spec.InitContainers))
		}
		if got := imagesOf(spec); !maps.Equal(got, c.images) {
			t.Errorf("%s: it has the images %v", name, got)
		}
		if got := spec.Containers[0].Command; !slices.Equal(got, []string{c.path, "work"}) {
			t.Errorf("%s: it runs %v", name, got)
		}
		want := "agent"
		if c.path != agentapi.AgentPath {
			want = ""
		}
		if got := AgentImage(&corev1.Pod{Spec: spec}); got != want {
			t.Errorf("%s: it is said to have the agent of %q", name, got)
		}
	}
	// An image has its programs in its root.
	for _, program := range []string{agentapi.AgentPath, agentapi.WALPath} {
		if filepath.Dir(program) != agentapi.BinDir {
			t.Errorf("%s is not where the image is mounted", program)
		}
	}
}

// imagesOf a pod's first container, by where they are mounted, all of them for reading only.
func imagesOf(spec corev1.PodSpec) map[string]string {
	images := map[string]string{}
	for _, mount := range spec.Containers[0].VolumeMounts {
		for _, v := range spec.Volumes {
			if v.Name == mount.Name && v.Image != nil && mount.ReadOnly {
				images[mount.MountPath] = v.Image.Reference
			}
		}
	}
	return images
}

func TestAJobInPostgreSQLsImageHasTheImagesOfExtensionsAndIsMadeAnewForOthers(t *testing.T) {
	spec := &v1alpha1.PostgresClusterSpec{}
	spec.PostgreSQL.ExtensionImages = []v1alpha1.ExtensionImage{{Name: "pgvector", Image: "pgvector:1"}}
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "owner"}}
	j := Job{Name: "shop-init", Owner: owner, Image: "postgres:18", Agent: Agent{Image: "agent:1", MountedInJobs: true}, ClusterSpec: spec, Spec: 1}
	pod := j.pod()
	if got := ExtensionImages(&pod); !slices.Equal(got, spec.PostgreSQL.ExtensionImages) {
		t.Errorf("it mounts %v", got)
	}
	live := j.job()
	if !j.Fits(live) {
		t.Error("it doesn't fit itself")
	}
	spec.PostgreSQL.ExtensionImages = []v1alpha1.ExtensionImage{{Name: "pgvector", Image: "pgvector:2"}}
	if j.Fits(live) {
		t.Error("another tag fits")
	}
	j.Image = j.Agent.Image // a backup needs no server
	pod = j.pod()
	if got := ExtensionImages(&pod); len(got) > 0 {
		t.Errorf("a Job in the agent's image mounts %v", got)
	}
}

func TestASpecThatIsInlineNeedsNoConfigMapAndStandsInTheSameFile(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "owner", UID: "o"}}
	writer := fake.NewClientBuilder().WithScheme(scheme).Build()
	j := Job{Name: "shop-init", Owner: owner, Image: "agent:1", Agent: Agent{Image: "agent:1"}, Spec: map[string]int{"majorVersion": 17}, Inline: true}
	if err := j.Ensure(t.Context(), writer); err != nil {
		t.Fatal(err)
	}
	configMaps, made := &corev1.ConfigMapList{}, &batchv1.Job{}
	if err := writer.List(t.Context(), configMaps); err != nil || len(configMaps.Items) > 0 {
		t.Errorf("%d ConfigMaps, %v", len(configMaps.Items), err)
	}
	if err := writer.Get(t.Context(), client.ObjectKey{Namespace: "demo", Name: "shop-init"}, made); err != nil {
		t.Fatal(err)
	}
	pod := made.Spec.Template
	volume := pod.Spec.Volumes[slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == "job" })]
	mount := pod.Spec.Containers[0].VolumeMounts[slices.IndexFunc(pod.Spec.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "job" })]
	item := volume.DownwardAPI.Items[0]
	if filepath.Join(mount.MountPath, item.Path) != agentapi.JobFile {
		t.Errorf("it stands in %s/%s", mount.MountPath, item.Path)
	}
	key, _ := strings.CutPrefix(item.FieldRef.FieldPath, "metadata.annotations['")
	if got := pod.Annotations[strings.TrimSuffix(key, "']")]; got != `{"majorVersion":17}` {
		t.Errorf("%s is %q", item.FieldRef.FieldPath, got)
	}
}

func TestAPodThatWasToldToGoAndIsStillThereIsLost(t *testing.T) {
	noon := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	running := corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	told := running
	told.DeletionTimestamp = &metav1.Time{Time: noon}
	for name, c := range map[string]struct {
		pods  []corev1.Pod
		after time.Duration
		lost  bool
	}{
		"it runs":                           {[]corev1.Pod{running}, time.Hour, false},
		"it was told to go a moment ago":    {[]corev1.Pod{told}, time.Minute, false},
		"it was told to go and is there":    {[]corev1.Pod{told}, time.Minute + time.Second, true},
		"another one runs":                  {[]corev1.Pod{told, running}, time.Hour, false},
		"it has ended":                      {[]corev1.Pod{ended(1, "")}, time.Hour, false},
		"one has ended, the other was lost": {[]corev1.Pod{ended(1, ""), told}, time.Hour, true},
		"there is none":                     {nil, time.Hour, false},
	} {
		if got := stateOf(job(), c.pods).Lost(noon.Add(c.after)); got != c.lost {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestAPodThatHasNoNodeForLongIsUnscheduled(t *testing.T) {
	noon := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	pending := corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Time{Time: noon}}, Status: corev1.PodStatus{Phase: corev1.PodPending}}
	placed := pending
	placed.Spec.NodeName = "w1"
	for name, c := range map[string]struct {
		pods        []corev1.Pod
		after       time.Duration
		unscheduled bool
	}{
		"a moment ago":             {[]corev1.Pod{pending}, time.Minute, false},
		"for long":                 {[]corev1.Pod{pending}, time.Minute + time.Second, true},
		"one before it has failed": {[]corev1.Pod{ended(1, ""), pending}, time.Hour, true},
		"it has a node":            {[]corev1.Pod{placed}, time.Hour, false},
		"another one has a node":   {[]corev1.Pod{pending, placed}, time.Hour, false},
		"all have ended":           {[]corev1.Pod{ended(1, "")}, time.Hour, false},
		"there is none":            {nil, time.Hour, false},
	} {
		if got := stateOf(job(), c.pods).Unscheduled(noon.Add(c.after)); got != c.unscheduled {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestAJobWhosePodWasToldToGoIsLookedAtAgain(t *testing.T) {
	pod := corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	if after := stateOf(job(), []corev1.Pod{pod}).Await("Running", "It runs.").After; after != 0 {
		t.Errorf("one that runs is looked at after %s", after)
	}
	pod.DeletionTimestamp = &metav1.Time{Time: time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)}
	if after := stateOf(job(), []corev1.Pod{pod}).Await("Running", "It runs.").After; after == 0 {
		t.Error("nobody looks whether its pod is lost")
	}
}

func TestAPodOnANodeThatDoesNotAnswerIsNamed(t *testing.T) {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "up-upgrade-x"}, Spec: corev1.PodSpec{NodeName: "w1"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	says := func(ready, containers corev1.ConditionStatus) string {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}, {Type: corev1.ContainersReady, Status: containers}}
		return stateOf(job(), []corev1.Pod{pod}).Trouble()
	}
	if got := says(corev1.ConditionFalse, corev1.ConditionTrue); !strings.Contains(got, "Node w1 of pod up-upgrade-x doesn't respond") || !strings.Contains(got, corev1.TaintNodeOutOfService) {
		t.Errorf("it says %q", got)
	}
	if got := says(corev1.ConditionTrue, corev1.ConditionTrue) + says(corev1.ConditionFalse, corev1.ConditionFalse); got != "" {
		t.Errorf("it says %q", got)
	}
}

func TestAPodThatWasPlacedOnADeadNodeNamesIt(t *testing.T) {
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "up-upgrade-check-x"}, Spec: corev1.PodSpec{NodeName: "w1"},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}},
	}
	if got := stateOf(job(), []corev1.Pod{pod}).Trouble(); got != "" {
		t.Errorf("before its node has had time to start it, it says %q", got)
	}
	pod.DeletionTimestamp = &metav1.Time{Time: time.Now()} // Kubernetes tells it to go when its node has been silent for long
	if got := stateOf(job(), []corev1.Pod{pod}).Trouble(); !strings.Contains(got, "node w1 has never reported it") {
		t.Errorf("it says %q", got)
	}
	pod.Status.StartTime = &metav1.Time{Time: time.Now()}
	if got := stateOf(job(), []corev1.Pod{pod}).Trouble(); got != "" {
		t.Errorf("of a node that has seen the pod it says %q", got)
	}
}

func TestWhatBelongsToSomebodyElseIsNeverUsedByAJob(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "owner", UID: "o"}}
	by := func(uid types.UID) []metav1.OwnerReference {
		controller := owner.DeepCopy()
		controller.UID = uid
		return []metav1.OwnerReference{*metav1.NewControllerRef(controller, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}
	}
	meta := metav1.ObjectMeta{Namespace: "demo", Name: "r-restore"}
	for kind, object := range map[string]client.Object{
		"ConfigMap": &corev1.ConfigMap{ObjectMeta: meta}, "ServiceAccount": &corev1.ServiceAccount{ObjectMeta: meta},
		"Role": &rbacv1.Role{ObjectMeta: meta}, "RoleBinding": &rbacv1.RoleBinding{ObjectMeta: meta}, "Job": &batchv1.Job{ObjectMeta: meta},
	} {
		for whose, c := range map[string]struct {
			owners []metav1.OwnerReference
			taken  string
			ends   bool
		}{
			"nobody's":                     {nil, kind + " r-restore already exists and belongs to somebody else", false},
			"its own":                      {by("o"), "", true},
			"a former owner's of its name": {by("former"), "", false},
		} {
			there := object.DeepCopyObject().(client.Object)
			there.SetOwnerReferences(c.owners)
			writer := fake.NewClientBuilder().WithScheme(scheme).WithObjects(there).Build()
			j := Job{Name: "r-restore", Owner: owner, Image: "agent:1", Agent: Agent{Image: "agent:1"}, Progress: &agentapi.Object{Resource: "restores", Name: "r"}}
			err := j.Ensure(t.Context(), writer)
			if !strings.HasPrefix(Taken(err), c.taken) || c.taken == "" && Taken(err) != "" || (err == nil) != c.ends {
				t.Errorf("%s, %s: %v", kind, whose, err)
			}
			job := &batchv1.Job{}
			if made := writer.Get(t.Context(), client.ObjectKey{Namespace: "demo", Name: "r-restore"}, job) == nil; made && !c.ends && kind != "Job" {
				t.Errorf("%s, %s: the Job was created", kind, whose)
			}
		}
	}
}

func TestSQLOfAJobIsMountedWhereTheAgentReadsIt(t *testing.T) {
	file := agentapi.SQLFile{ConfigMap: "shop", Key: "schema.sql"}
	pod := Job{Name: "shop-init", Spec: agentapi.InitJob{}, Inline: true, SQL: []agentapi.SQLFile{file}}.pod()
	for _, mount := range pod.Containers[0].VolumeMounts {
		if mount.Name != "sql-0" {
			continue
		}
		if mount.MountPath+"/schema.sql" != agentapi.SQLPath(0, file) || !mount.ReadOnly {
			t.Errorf("%+v", mount)
		}
		return
	}
	t.Error("it isn't mounted")
}
