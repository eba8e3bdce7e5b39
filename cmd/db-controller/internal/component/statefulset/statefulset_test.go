package statefulset

import (
	"cmp"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/workload"
)

var update = flag.Bool("update", false, "write testdata anew")

func shop() *v1alpha1.PostgresCluster {
	return &v1alpha1.PostgresCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "shop", UID: "6ab0"},
		Spec: v1alpha1.PostgresClusterSpec{
			Version: 17, Storage: v1alpha1.StorageSpec{Size: resource.MustParse("10Gi")},
			Resources:       v1alpha1.Resources{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}},
			SuperuserAccess: true,
		},
		Status: v1alpha1.PostgresClusterStatus{Image: "postgres:17", DataGeneration: "g1", MajorVersion: 17},
	}
}

var inputs = Inputs{Replicas: 1, Agent: workload.Agent{Image: "agent:1"}, ConfigHash: "c1", PasswordRevision: "p1", S3Secret: "s3"}

// mounting is inputs with the agent as a volume.
func mounting() Inputs {
	in := inputs
	in.Agent.Mounted = true
	return in
}

func TestTheStatefulSetIsAsItIsWrittenDown(t *testing.T) {
	for file, in := range map[string]Inputs{"testdata/shop.yaml": inputs, "testdata/shop-agent-mounted.yaml": mounting()} {
		compare(t, file, in)
	}
}

func TestDatabasePodsCopyAnAgentThatOnlyJobsMount(t *testing.T) {
	in := inputs
	in.Agent.MountedInJobs = true
	compare(t, "testdata/shop.yaml", in)
}

func compare(t *testing.T, file string, in Inputs) {
	t.Helper()
	got, err := yaml.Marshal(Build(shop(), in))
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("it differs from %s (go test -update writes it anew, and the difference is yours to judge):\n%s", file, got)
	}
}

func TestOnlyWhatAPersonDecidesTakesANewPod(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.PostgresCluster, *Inputs)
		new    bool
	}{
		"another image":           {func(c *v1alpha1.PostgresCluster, _ *Inputs) { c.Status.Image = "postgres:17.6" }, true},
		"another data generation": {func(c *v1alpha1.PostgresCluster, _ *Inputs) { c.Status.DataGeneration = "g2" }, true},
		"other resources": {func(c *v1alpha1.PostgresCluster, _ *Inputs) {
			c.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi")}
		}, true},
		"the same memory in other words": {func(c *v1alpha1.PostgresCluster, _ *Inputs) {
			c.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1024Mi")}
		}, false},
		"no superuser any more":    {func(c *v1alpha1.PostgresCluster, _ *Inputs) { c.Spec.SuperuserAccess = false }, true},
		"other credentials":        {func(_ *v1alpha1.PostgresCluster, in *Inputs) { in.S3Secret = "s4" }, true},
		"an encrypted archive":     {func(_ *v1alpha1.PostgresCluster, in *Inputs) { in.KeysSecret = "keys" }, true},
		"a newer agent":            {func(_ *v1alpha1.PostgresCluster, in *Inputs) { in.Agent.Image = "agent:2" }, false},
		"an agent that is mounted": {func(_ *v1alpha1.PostgresCluster, in *Inputs) { in.Agent.Mounted = true }, false},
		"another configuration":    {func(_ *v1alpha1.PostgresCluster, in *Inputs) { in.ConfigHash = "c2" }, false},
		"being stopped":            {func(_ *v1alpha1.PostgresCluster, in *Inputs) { in.Replicas = 0 }, false},
		"a higher version":         {func(c *v1alpha1.PostgresCluster, _ *Inputs) { c.Spec.Version = 18 }, false},
		"declared roles":           {func(_ *v1alpha1.PostgresCluster, in *Inputs) { in.Declaring = true }, false},
		"more instances":           {func(c *v1alpha1.PostgresCluster, in *Inputs) { c.Spec.Instances, in.Electing = 3, true }, false},
		"another place": {func(c *v1alpha1.PostgresCluster, _ *Inputs) {
			c.Spec.Scheduling = v1alpha1.Scheduling{PriorityClassName: "high", Spread: v1alpha1.SpreadRequired}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			template := Build(shop(), inputs).Spec.Template
			pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
			pod.Spec.NodeName = "w1"
			cluster, in := shop(), inputs
			c.change(cluster, &in)
			if got := Changes(pod, cluster, in); (got != "") != c.new {
				t.Errorf("changes: %q", got)
			}
		})
	}
}

func TestAPodStaysAsItWasCreatedWhenTheAgentComesAnotherWayIntoNewOnes(t *testing.T) {
	for name, c := range map[string]struct{ before, after Inputs }{
		"mounted from now on": {inputs, mounting()}, "copied from now on": {mounting(), inputs},
	} {
		template := Build(shop(), c.before).Spec.Template
		pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
		pod.Spec.NodeName, pod.Status.Phase = "w1", corev1.PodRunning
		in := c.after
		in.Electing, in.Declaring = true, true
		if got := Changes(pod, shop(), in); got != "" {
			t.Errorf("%s: it is replaced for %s", name, got)
		}
		cluster := shop()
		cluster.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi")}
		pod.Spec.Containers[0].Resources = Resources(shop()) // as Kubernetes completes them
		if state, why := Resize(pod, cluster, in, time.Now()); state != ResizeDue {
			t.Errorf("%s: it isn't given more memory while it runs: %d %s", name, state, why)
		}
		if got := workload.AgentImage(pod); got != "agent:1" {
			t.Errorf("%s: it has the agent of %q", name, got)
		}
	}
}

func TestTheKeysOfAnEncryptedRepositoryAreMounted(t *testing.T) {
	in := inputs
	in.KeysSecret = "keys"
	set := Build(shop(), in)
	if got := KeysSecret(set); got != "keys" {
		t.Errorf("got %q", got)
	}
	for _, mount := range set.Spec.Template.Spec.Containers[0].VolumeMounts {
		if mount.Name == "keys" && mount.MountPath == agentapi.KeysDir && mount.ReadOnly {
			return
		}
	}
	t.Error("they are not mounted")
}

func TestTheSecretOfTheRepositoryIsFoundAgain(t *testing.T) {
	if got := S3Secret(Build(shop(), inputs)); got != "s3" {
		t.Errorf("got %q", got)
	}
	if got := S3Secret(nil); got != "" {
		t.Errorf("of none: %q", got)
	}
}

func TestTheHashOfWhatRunsNeverChanges(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.PostgresCluster)
		want   string
	}{
		"as little as possible": {func(c *v1alpha1.PostgresCluster) { c.Spec = v1alpha1.PostgresClusterSpec{} }, "3aff3b1f5162bc93"},
		"with resources":        {func(*v1alpha1.PostgresCluster) {}, "5b0605a54cb7e758"},
		"with replicas": {func(c *v1alpha1.PostgresCluster) {
			c.Spec.Instances, c.Spec.Synchronous = 3, &v1alpha1.Synchronous{Number: 1}
			c.Spec.Scheduling.Spread = v1alpha1.SpreadRequired
		}, "5b0605a54cb7e758"},
	} {
		cluster := shop()
		c.change(cluster)
		for _, in := range []Inputs{inputs, mounting()} {
			if got := Hash(cluster, in); got != c.want {
				t.Errorf("%s: %s: a suite that computes it otherwise restarts every database", name, got)
			}
		}
	}
}

func TestAPodThatNoNodeTakesIsCreatedAgainWhereItMayRunNow(t *testing.T) {
	template := Build(shop(), inputs).Spec.Template
	pod, cluster := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}, shop()
	if got := Changes(pod, cluster, inputs); got != "" {
		t.Errorf("for nothing: %q", got)
	}
	cluster.Spec.Scheduling.Tolerations = []corev1.Toleration{{Key: "database"}}
	if got := Changes(pod, cluster, inputs); got != "where it may run" {
		t.Errorf("got %q", got)
	}
}

func TestThePasswordsOfRolesAreAlwaysMountedSoThatTheFirstRestartsNothing(t *testing.T) {
	template := Build(shop(), inputs).Spec.Template
	pod, in := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}, inputs
	pod.Spec.NodeName, in.Declaring = "w1", true
	if got := Changes(pod, shop(), in); got != "" {
		t.Errorf("it is replaced for %s", got)
	}
	pod.Spec.Volumes = nil
	if got := Changes(pod, shop(), in); got == "" {
		t.Error("a pod of an older suite stays, whose agent knows nothing of roles")
	}
}

func TestOnlyAPodWithTheCertificateOfReplicationElects(t *testing.T) {
	template := Build(shop(), inputs).Spec.Template
	pod, in := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}, inputs
	pod.Spec.NodeName, pod.Spec.Volumes = "w1", nil
	if got := Changes(pod, shop(), in); got != "" {
		t.Errorf("a single instance: %q", got)
	}
	in.Electing = true
	if got := Changes(pod, shop(), in); got == "" {
		t.Error("it stays")
	}
}

func TestInstancesAreKeptApartAsStrictlyAsIsAsked(t *testing.T) {
	cluster := shop()
	cluster.Spec.Scheduling = v1alpha1.Scheduling{
		NodeAffinity: &corev1.NodeAffinity{}, PriorityClassName: "high", Spread: v1alpha1.SpreadRequired,
	}
	got := Build(cluster, inputs).Spec.Template.Spec
	if got.Affinity.NodeAffinity == nil || got.PriorityClassName != "high" {
		t.Errorf("got %+v", got)
	}
	zone, node := got.TopologySpreadConstraints[0], got.TopologySpreadConstraints[1]
	if zone.WhenUnsatisfiable != corev1.ScheduleAnyway || node.WhenUnsatisfiable != corev1.DoNotSchedule || node.TopologyKey != "kubernetes.io/hostname" {
		t.Errorf("zone: %+v, node: %+v", zone, node)
	}
}

func TestAConstraintOfSpecReplacesOursForTheSameTopologyAndCountsInstances(t *testing.T) {
	cluster, others := shop(), &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}
	cluster.Spec.Scheduling.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
		{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule},
		{MaxSkew: 2, TopologyKey: "rack", WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: others},
	}
	got := Build(cluster, inputs).Spec.Template.Spec.TopologySpreadConstraints
	if len(got) != 3 || got[0].TopologyKey != corev1.LabelHostname || got[1].WhenUnsatisfiable != corev1.DoNotSchedule || got[2].MaxSkew != 2 {
		t.Fatalf("got %+v", got)
	}
	if got[1].LabelSelector.MatchLabels[v1alpha1.LabelCluster] != cluster.Name || got[2].LabelSelector.MatchLabels["app"] != "x" {
		t.Errorf("they count %v and %v", got[1].LabelSelector, got[2].LabelSelector)
	}
	if cluster.Spec.Scheduling.TopologySpreadConstraints[0].LabelSelector != nil {
		t.Error("spec was changed")
	}
}

func TestTheSecretsForImagesReachPodsThatStartFromThenOn(t *testing.T) {
	cluster := shop()
	cluster.Spec.ImagePullSecrets = []v1alpha1.LocalReference{{Name: "registry"}}
	if got := Build(cluster, inputs).Spec.Template.Spec.ImagePullSecrets; len(got) != 1 || got[0].Name != "registry" {
		t.Errorf("got %v", got)
	}
	if Hash(cluster, inputs) != Hash(shop(), inputs) {
		t.Error("running pods are replaced for them")
	}
	template := Build(shop(), inputs).Spec.Template
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Spec.NodeName = "w1"
	for phase, want := range map[corev1.PodPhase]string{corev1.PodPending: "the Secrets that its images are pulled with", corev1.PodRunning: ""} {
		pod.Status.Phase = phase
		if got := Changes(pod, cluster, inputs); got != want {
			t.Errorf("a pod that is %s is replaced for %q", phase, got)
		}
	}
}

func TestPodsMayTakeAsLongToStopAsIsAskedAndThoseOfNobodyWhoAskedStayAsTheyAre(t *testing.T) {
	before := Build(shop(), inputs).Spec.Template
	for asked, want := range map[int64]string{0: "run", 120: "run", 300: "run --grace-period=300s"} {
		cluster := shop()
		cluster.Spec.StopTimeoutSeconds = asked
		template := Build(cluster, inputs).Spec.Template
		if got := strings.Join(template.Spec.Containers[0].Command[1:], " "); got != want {
			t.Errorf("%d: the agent is told %q, not %q", asked, got, want)
		}
		if got, want := *template.Spec.TerminationGracePeriodSeconds, cmp.Or(asked, 120); got != want {
			t.Errorf("%d: the grace period is %d s", asked, got)
		}
		if same := reflect.DeepEqual(template, before); same != (asked != 300) {
			t.Errorf("%d: the pods stay as they are: %v", asked, same)
		}
		if Hash(cluster, inputs) != Hash(shop(), inputs) {
			t.Errorf("%d: running pods are replaced", asked)
		}
	}
}
