package statefulset

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func list(cpu, memory string) corev1.ResourceList {
	all := corev1.ResourceList{}
	for name, value := range map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory} {
		if value != "" {
			all[name] = resource.MustParse(value)
		}
	}
	return all
}

// sized is a cluster with such resources, and a pod of it that runs.
func sized(requests, limits corev1.ResourceList) (*v1alpha1.PostgresCluster, *corev1.Pod) {
	cluster := shop()
	cluster.Spec.Resources = v1alpha1.Resources{Requests: requests, Limits: limits}
	template := Build(cluster, inputs).Spec.Template
	pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	pod.Spec.NodeName, pod.Status.Phase = "w1", corev1.PodRunning
	postgresOf(pod).Resources = Resources(cluster)
	return cluster, pod
}

func TestARunningPodIsResizedWhereNothingElseWasChanged(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.PostgresCluster, *corev1.Pod)
		state  ResizeState
		why    string
	}{
		"nothing was changed": {func(*v1alpha1.PostgresCluster, *corev1.Pod) {}, ResizeNot, ""},
		"more memory":         {func(c *v1alpha1.PostgresCluster, _ *corev1.Pod) { c.Spec.Resources.Limits = list("", "3Gi") }, ResizeDue, ""},
		"less cpu":            {func(c *v1alpha1.PostgresCluster, _ *corev1.Pod) { c.Spec.Resources.Requests = list("100m", "1Gi") }, ResizeDue, ""},
		"less of a request":   {func(c *v1alpha1.PostgresCluster, _ *corev1.Pod) { c.Spec.Resources.Requests = list("500m", "512Mi") }, ResizeDue, ""},
		"another limit":       {func(c *v1alpha1.PostgresCluster, _ *corev1.Pod) { c.Spec.Resources.Limits = list("2", "2Gi") }, ResizeDue, ""},
		"less memory":         {func(c *v1alpha1.PostgresCluster, _ *corev1.Pod) { c.Spec.Resources.Limits = list("", "1Gi") }, ResizeNot, "gives memory back only"},
		"a limit taken away": {func(c *v1alpha1.PostgresCluster, _ *corev1.Pod) {
			c.Spec.Resources.Limits = nil
			c.Spec.Resources.Requests = list("500m", "4Gi")
		}, ResizeNot, "keeps each request and limit"},
		"another image too": {func(c *v1alpha1.PostgresCluster, _ *corev1.Pod) {
			c.Spec.Resources.Limits, c.Status.Image = list("", "3Gi"), "postgres:17.9"
		}, ResizeNot, ""},
		"another Secret too": {func(c *v1alpha1.PostgresCluster, _ *corev1.Pod) {
			c.Spec.Resources.Limits = list("", "3Gi")
			c.Spec.SuperuserAccess = !c.Spec.SuperuserAccess
		}, ResizeNot, ""},
		"a pod that doesn't run": {func(c *v1alpha1.PostgresCluster, p *corev1.Pod) {
			c.Spec.Resources.Limits = list("", "3Gi")
			p.Status.Phase = corev1.PodPending
		}, ResizeNot, ""},
		"a pod that goes for less memory": {func(c *v1alpha1.PostgresCluster, p *corev1.Pod) {
			c.Spec.Resources.Limits = list("", "1Gi")
			p.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		}, ResizeNot, "gives memory back only"},
		"a pod that goes for something else": {func(c *v1alpha1.PostgresCluster, p *corev1.Pod) {
			c.Spec.Resources.Limits = list("", "3Gi")
			p.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		}, ResizeNot, ""},
		"Kubernetes has refused": {func(c *v1alpha1.PostgresCluster, p *corev1.Pod) {
			c.Spec.Resources.Limits = list("", "3Gi")
			p.Annotations[AnnotationResizeRefused] = Hash(c, inputs) + " no way"
		}, ResizeNot, "no way"},
		"it has refused other ones": {func(c *v1alpha1.PostgresCluster, p *corev1.Pod) {
			c.Spec.Resources.Limits = list("", "3Gi")
			p.Annotations[AnnotationResizeRefused] = "0 no way"
		}, ResizeDue, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, pod := sized(list("500m", "1Gi"), list("", "2Gi"))
			c.change(cluster, pod)
			if state, why := Resize(pod, cluster, inputs, noon); state != c.state || !strings.Contains(why, c.why) {
				t.Errorf("%d: %s", state, why)
			}
		})
	}
}

func TestAPodKeepsItsQualityOfService(t *testing.T) {
	cluster, pod := sized(nil, list("1", "1Gi"))
	pod.Spec.InitContainers = nil
	cluster.Spec.Resources.Limits = list("2", "2Gi")
	if state, why := Resize(pod, cluster, inputs, noon); state != ResizeDue {
		t.Errorf("guaranteed as before: %d %s", state, why)
	}
	cluster.Spec.Resources.Requests = list("1", "2Gi")
	if state, why := Resize(pod, cluster, inputs, noon); state != ResizeNot || why != "its quality of service class would be Burstable instead of Guaranteed" {
		t.Errorf("burstable: %d %s", state, why)
	}
}

func TestWhatTheNodeSaysDecidesHowItGoesOn(t *testing.T) {
	condition := func(kind corev1.PodConditionType, reason string, age time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{
				Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: "too big", LastTransitionTime: metav1.NewTime(noon.Add(-age)),
			}}
		}
	}
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		state  ResizeState
		why    string
	}{
		"it has said nothing yet":      {func(*corev1.Pod) {}, ResizeRunning, ""},
		"it continues saying nothing":  {func(p *corev1.Pod) { p.Annotations[AnnotationResized] = "2026-03-01T11:59:00Z" }, ResizeDone, ""},
		"it is at it":                  {condition(corev1.PodResizeInProgress, "", time.Hour), ResizeRunning, ""},
		"it lacks room for a moment":   {condition(corev1.PodResizePending, "Deferred", time.Second), ResizeRunning, ""},
		"it lacks room for long":       {condition(corev1.PodResizePending, "Deferred", time.Hour), ResizeNot, "node w1 says Deferred: too big"},
		"it is too small":              {condition(corev1.PodResizePending, "Infeasible", 0), ResizeNot, "node w1 says Infeasible: too big"},
		"it fails":                     {condition(corev1.PodResizeInProgress, "Error", time.Hour), ResizeNot, "node w1 says Error: too big"},
		"the container has them":       {func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Resources = &postgresOf(p).Resources }, ResizeDone, ""},
		"the container has other ones": {func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Resources = &corev1.ResourceRequirements{} }, ResizeRunning, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, pod := sized(list("500m", "1Gi"), list("", "2Gi"))
			cluster.Spec.Resources.Limits = list("", "3Gi")
			postgresOf(pod).Resources = Resources(cluster)
			pod.Annotations[v1alpha1.AnnotationTemplateHash] = "resizing"
			pod.Annotations[AnnotationResized] = "2026-03-01T11:59:59Z"
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: ContainerName}}
			c.change(pod)
			if state, why := Resize(pod, cluster, inputs, noon); state != c.state || why != c.why {
				t.Errorf("%d: %s", state, why)
			}
		})
	}
}
