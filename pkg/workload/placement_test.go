package workload

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
)

var (
	dedicated = corev1.Toleration{Key: "dedicated", Operator: corev1.TolerationOpExists}
	former    = corev1.Toleration{Key: "former", Operator: corev1.TolerationOpExists}
)

var stays = corev1.Toleration{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, TolerationSeconds: ptr.To[int64](900)}

func leaves(key string) corev1.Toleration {
	return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](30)}
}

// picky is the spec of a cluster on nodes of its own.
func picky() *v1alpha1.PostgresClusterSpec {
	return &v1alpha1.PostgresClusterSpec{ImagePullSecrets: []v1alpha1.LocalReference{{Name: "registry"}}, Scheduling: v1alpha1.Scheduling{
		NodeSelector: map[string]string{"disk": "fast"}, Tolerations: []corev1.Toleration{dedicated}, PriorityClassName: "high",
		NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "rack", Operator: corev1.NodeSelectorOpExists}}}},
		}},
	}}
}

func TestAJobRunsWhereItsClusterDoes(t *testing.T) {
	spec := picky()
	instance := &corev1.Pod{Spec: corev1.PodSpec{Tolerations: []corev1.Toleration{dedicated, former}}}
	pull := []corev1.LocalObjectReference{{Name: "registry"}}
	affinity := &corev1.Affinity{NodeAffinity: spec.Scheduling.NodeAffinity}
	for name, c := range map[string]struct {
		job  Job
		want corev1.PodSpec
	}{
		"the scheduler chooses the node": {Job{ClusterSpec: spec}, corev1.PodSpec{
			NodeSelector: spec.Scheduling.NodeSelector, Affinity: affinity, Tolerations: []corev1.Toleration{dedicated}, PriorityClassName: "high", ImagePullSecrets: pull,
		}},
		"beside an instance": {Job{ClusterSpec: spec, Node: "w1", Beside: instance}, corev1.PodSpec{
			Affinity: onNode("w1"), Tolerations: []corev1.Toleration{dedicated, former}, PriorityClassName: "high", ImagePullSecrets: pull,
		}},
		"beside an instance that is gone": {Job{ClusterSpec: spec, Node: "w1"}, corev1.PodSpec{
			Affinity: onNode("w1"), Tolerations: []corev1.Toleration{dedicated}, PriorityClassName: "high", ImagePullSecrets: pull,
		}},
		"its cluster is gone": {Job{}, corev1.PodSpec{}},
		"it can be replaced":  {Job{Replaceable: true}, corev1.PodSpec{Tolerations: []corev1.Toleration{leaves(corev1.TaintNodeNotReady), leaves(corev1.TaintNodeUnreachable)}}},
		"it can be replaced, and its cluster stays longer": {Job{Replaceable: true, ClusterSpec: &v1alpha1.PostgresClusterSpec{Scheduling: v1alpha1.Scheduling{
			Tolerations: []corev1.Toleration{stays},
		}}}, corev1.PodSpec{Tolerations: []corev1.Toleration{stays, leaves(corev1.TaintNodeNotReady)}}},
	} {
		c.job.Owner = &v1alpha1.Backup{}
		if got := fitting(c.job.pod()); !equality.Semantic.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	if len(spec.Scheduling.Tolerations) != 1 {
		t.Errorf("the cluster itself tolerates %v now", spec.Scheduling.Tolerations)
	}
}

func TestAJobThatWaitsForANodeIsMisplacedOnceItsClusterRunsElsewhere(t *testing.T) {
	job := Job{Owner: &v1alpha1.PostgresCluster{}, Image: "postgres", ClusterSpec: picky()}
	moved := Job{Owner: job.Owner, Image: "postgres", ClusterSpec: picky()}
	moved.ClusterSpec.Scheduling.Tolerations = nil
	larger := job
	larger.Resources = corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}
	pending := corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}}
	bound := corev1.Pod{Spec: corev1.PodSpec{NodeName: "w1"}, Status: corev1.PodStatus{Phase: corev1.PodPending}}
	retried, deleting, formerly := job.job(), job.job(), job.job()
	retried.Status.Failed = 1
	deleting.DeletionTimestamp = ptr.To(metav1.Now())
	delete(formerly.Annotations, annotationPlacement)
	for name, test := range map[string]struct {
		live *batchv1.Job
		pods []corev1.Pod
		now  Job
		want bool
	}{
		"it waits, and nothing has changed":     {job.job(), []corev1.Pod{pending}, job, false},
		"it waits, and the cluster moves":       {job.job(), []corev1.Pod{pending}, moved, true},
		"it has no pod, and needs another room": {job.job(), nil, larger, true},
		"its pod has a node":                    {job.job(), []corev1.Pod{bound}, moved, false},
		"a former pod of it had one":            {retried, []corev1.Pod{pending}, moved, false},
		"it is being deleted":                   {deleting, []corev1.Pod{pending}, moved, false},
		"an earlier version has created it":     {formerly, []corev1.Pod{pending}, moved, false},
	} {
		if got := test.now.Misplaced(stateOf(test.live, test.pods)); got != test.want {
			t.Errorf("%s: misplaced is %t", name, got)
		}
	}
}

func TestAJobFitsUntilItsClusterIsToRunElsewhere(t *testing.T) {
	job := Job{Owner: &v1alpha1.PostgresCluster{}, Image: "postgres", ClusterSpec: picky()}
	live := job.job()
	if !job.Fits(live) {
		t.Error("it doesn't fit itself")
	}
	for name, change := range map[string]func(*v1alpha1.Scheduling){
		"another toleration": func(s *v1alpha1.Scheduling) { s.Tolerations = nil },
		"another label":      func(s *v1alpha1.Scheduling) { s.NodeSelector = nil },
		"another affinity":   func(s *v1alpha1.Scheduling) { s.NodeAffinity = nil },
		"another priority":   func(s *v1alpha1.Scheduling) { s.PriorityClassName = "" },
	} {
		job.ClusterSpec = picky()
		change(&job.ClusterSpec.Scheduling)
		if job.Fits(live) {
			t.Errorf("%s: it still fits", name)
		}
	}
	job.ClusterSpec = picky()
	job.ClusterSpec.ImagePullSecrets = nil
	if job.Fits(live) {
		t.Error("other Secrets for its image: it still fits")
	}
	for name, change := range map[string]func(*v1alpha1.Pods){
		"another pod label":      func(p *v1alpha1.Pods) { p.Labels = map[string]v1alpha1.LabelValue{"team": "b"} },
		"another pod annotation": func(p *v1alpha1.Pods) { p.Annotations = map[string]string{"example.com/a": "c"} },
		"another runtime":        func(p *v1alpha1.Pods) { p.RuntimeClassName = "kata" },
	} {
		job.ClusterSpec = picky()
		if change(&job.ClusterSpec.Pods); job.Fits(live) {
			t.Errorf("%s: it still fits", name)
		}
	}
	job.ClusterSpec, job.Image = picky(), "postgres:2"
	if job.Fits(live) {
		t.Error("another image: it still fits")
	}
}

// mutated is a Job as webhooks may leave it: with what GKE's Autopilot sets, and with what policies of Kyverno write into templates.
func mutated(job *batchv1.Job) *batchv1.Job {
	pod := &job.Spec.Template.Spec
	for _, list := range []*corev1.ResourceList{&pod.Containers[0].Resources.Requests, &pod.Containers[0].Resources.Limits} {
		*list = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("2Gi"), corev1.ResourceEphemeralStorage: resource.MustParse("1Gi"),
		}
	}
	pod.Containers[0].Image = "mirror.example/" + pod.Containers[0].Image
	pod.Tolerations = append(pod.Tolerations, corev1.Toleration{Key: "kubernetes.io/arch", Operator: corev1.TolerationOpEqual, Value: "amd64"})
	pod.ImagePullSecrets = append(pod.ImagePullSecrets, corev1.LocalObjectReference{Name: "mirror"})
	job.Spec.Template.Labels["team"] = "platform"
	return job
}

func TestAJobThatAWebhookHasChangedFitsUntilSpecChanges(t *testing.T) {
	wanted := func(changes ...func(*Job)) Job {
		j := Job{Owner: &v1alpha1.PostgresCluster{}, Image: "postgres", ClusterSpec: picky(), Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
		}}
		j.ClusterSpec.Pods.Labels = map[string]v1alpha1.LabelValue{"team": "a"}
		for _, change := range changes {
			change(&j)
		}
		return j
	}
	live := mutated(wanted().job())
	if !wanted().Fits(live) {
		t.Error("it doesn't fit, so that it is created again for ever")
	}
	for name, change := range map[string]func(*Job){
		"another image": func(j *Job) { j.Image = "postgres:2" },
		"other resources": func(j *Job) {
			j.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1536Mi")}
		},
		"a limit":            func(j *Job) { j.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")} },
		"other nodes":        func(j *Job) { j.ClusterSpec.Scheduling.NodeSelector = nil },
		"another toleration": func(j *Job) { j.ClusterSpec.Scheduling.Tolerations = []corev1.Toleration{former} },
		"other pull Secrets": func(j *Job) { j.ClusterSpec.ImagePullSecrets = nil },
		"another runtime":    func(j *Job) { j.ClusterSpec.Pods.RuntimeClassName = "kata" },
		"another label":      func(j *Job) { j.ClusterSpec.Pods.Labels["team"] = "b" },
		"an annotation":      func(j *Job) { j.ClusterSpec.Pods.Annotations = map[string]string{"example.com/a": "b"} },
		"another extension": func(j *Job) {
			j.ClusterSpec.PostgreSQL.ExtensionImages = []v1alpha1.ExtensionImage{{Name: "a", Image: "a:1"}}
		},
		"what a webhook made": func(j *Job) { j.Image = "mirror.example/postgres" },
	} {
		if wanted(change).Fits(live) {
			t.Errorf("%s: it still fits", name)
		}
	}
	// One that an earlier version has created has no digest; one whose digest says what this one would not, was created for something else,
	// or a version ago.
	for name, annotations := range map[string]map[string]string{"no digest": nil, "another digest": {annotationPodDigest: "0123456789abcdef"}} {
		plain, changed := wanted().job(), mutated(wanted().job())
		plain.Spec.Template.Annotations, changed.Spec.Template.Annotations = annotations, annotations
		if !wanted().Fits(plain) || wanted().Fits(changed) {
			t.Errorf("%s: as created it fits: %t; changed it fits: %t", name, wanted().Fits(plain), wanted().Fits(changed))
		}
	}
	// The same amount in other words is the same.
	if !wanted(func(j *Job) {
		j.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1024Mi")}
	}).Fits(live) {
		t.Error("1024Mi is not 1Gi")
	}
	if own := wanted(func(j *Job) { j.ClusterSpec.Pods.Annotations = map[string]string{annotationPodDigest: "x"} }); own.job().Spec.Template.Annotations[annotationPodDigest] != own.podDigest() {
		t.Error("spec.pods says what the digest is")
	}
}

func TestAJobHasTheLabelsAnnotationsAndRuntimeOfItsCluster(t *testing.T) {
	spec := picky()
	spec.Pods = v1alpha1.Pods{
		PodMetadata: v1alpha1.PodMetadata{
			Labels: map[string]v1alpha1.LabelValue{"team": "a", v1alpha1.LabelCluster: "other"}, Annotations: map[string]string{"example.com/a": "b"},
			ServiceAccountAnnotations: map[string]string{"example.com/role": "backup"}, RuntimeClassName: "gvisor",
		},
		Env: []v1alpha1.EnvVar{{Name: "A", Value: "b"}}, Containers: []v1alpha1.PodContainer{{Name: "metrics", Image: "exporter:1"}},
	}
	job := Job{Owner: &v1alpha1.Backup{}, Cluster: "shop", Image: "postgres", ClusterSpec: spec, Progress: &agentapi.Object{Resource: "backups", Name: "b"}}
	template := job.job().Spec.Template
	if template.Labels["team"] != "a" || template.Labels[v1alpha1.LabelCluster] != "shop" || template.Annotations["example.com/a"] != "b" ||
		ptr.Deref(template.Spec.RuntimeClassName, "") != "gvisor" {
		t.Errorf("%+v, runtime class %v", template.ObjectMeta, template.Spec.RuntimeClassName)
	}
	if containers := template.Spec.Containers; len(containers) != 1 || len(containers[0].Env) != len(PodIdentity())+1 {
		t.Errorf("containers of instances came along, or variables didn't: %+v", containers)
	}
	if account := job.identity()[0]; account.GetAnnotations()["example.com/role"] != "backup" || account.GetLabels()["team"] != "" {
		t.Errorf("the account has %v and %v", account.GetAnnotations(), account.GetLabels())
	}
	if job.ClusterSpec = nil; len(job.template().Annotations) > 0 {
		t.Error("annotations of no cluster")
	}
}

// A proxy on the way to the object store is one for Jobs as well.
func TestAJobHasTheEnvironmentOfItsCluster(t *testing.T) {
	spec := picky()
	spec.Pods.Env = []v1alpha1.EnvVar{
		{Name: "HTTPS_PROXY", Value: "http://proxy.example:3128"},
		{Name: "TOKEN", ValueFrom: &v1alpha1.EnvSource{SecretKeyRef: &v1alpha1.KeyReference{Name: "proxy", Key: "token"}}},
	}
	job := Job{Owner: &v1alpha1.PostgresCluster{}, Image: "postgres", ClusterSpec: spec}.job()
	env := job.Spec.Template.Spec.Containers[0].Env
	if len(env) != len(PodIdentity())+2 || env[len(env)-2].Value != "http://proxy.example:3128" || env[len(env)-1].ValueFrom.SecretKeyRef.Name != "proxy" {
		t.Errorf("%+v", env)
	}
}
