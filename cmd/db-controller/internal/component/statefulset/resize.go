package statefulset

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/workload"
)

const (
	// AnnotationResized on a database pod is when it was given other resources while it ran.
	AnnotationResized = "howdah.dev/resized"
	// AnnotationResizeRefused is what Kubernetes said against it, after the hash of the template.
	AnnotationResizeRefused = "howdah.dev/resize-refused"
)

// ResizeState is how far a running pod is with other resources.
type ResizeState int

// The states.
const (
	// ResizeNot: it can't be, or nothing is to be resized.
	ResizeNot ResizeState = iota
	// ResizeDue: Kubernetes has to be asked.
	ResizeDue
	// ResizeRunning: Kubernetes is at it.
	ResizeRunning
	// ResizeDone: the pod has what is wanted; only its annotation says otherwise.
	ResizeDone
)

const (
	deferTime  = time.Minute      // that a node may lack room until the pod is replaced instead
	silentTime = 30 * time.Second // after which a node that says nothing has nothing left to do
)

// Resize says how a pod that differs from the template in its cpu and memory alone gets them while it runs, and why it
// doesn't: then it has to be replaced. A pod on its way out says still why it goes.
func Resize(pod *corev1.Pod, cluster *v1alpha1.PostgresCluster, in Inputs, now time.Time) (ResizeState, string) {
	if !resourcesOnly(pod, cluster, in) {
		return ResizeNot, ""
	}
	state, why := resizeRunning(pod, cluster, in, now)
	if pod.Status.Phase != corev1.PodRunning || !pod.DeletionTimestamp.IsZero() {
		state = ResizeNot
	}
	return state, why
}

func resizeRunning(pod *corev1.Pod, cluster *v1alpha1.PostgresCluster, in Inputs, now time.Time) (ResizeState, string) {
	container := postgresOf(pod)
	wanted := Resources(cluster)
	if hash, why, refused := strings.Cut(pod.Annotations[AnnotationResizeRefused], " "); refused && hash == Hash(cluster, in) {
		return ResizeNot, why
	}
	if !has(container.Resources, wanted) {
		return allowed(pod, container.Resources, wanted)
	}
	return progress(pod, wanted, now)
}

// Resources are those of the container, with the requests that Kubernetes derives from limits.
func Resources(cluster *v1alpha1.PostgresCluster) corev1.ResourceRequirements {
	wanted := corev1.ResourceRequirements{Limits: cluster.Spec.Resources.Limits.DeepCopy(), Requests: Requests(cluster)}
	for name, limit := range wanted.Limits {
		if _, asked := wanted.Requests[name]; !asked {
			if wanted.Requests == nil {
				wanted.Requests = corev1.ResourceList{}
			}
			wanted.Requests[name] = limit
		}
	}
	return wanted
}

// resourcesOnly: of what takes a new pod nothing else was changed.
func resourcesOnly(pod *corev1.Pod, cluster *v1alpha1.PostgresCluster, in Inputs) bool {
	container := postgresOf(pod)
	return container != nil && len(outgrown(pod, cluster, in)) == 0 && pod.Annotations[v1alpha1.AnnotationTemplateHash] != Hash(cluster, in) &&
		container.Image == cluster.Status.Image && pod.Annotations[AnnotationDataGeneration] == cluster.Status.DataGeneration &&
		pod.Annotations[annotationPods] == podsHash(cluster) && slices.Equal(workload.ExtensionImages(&pod.Spec), extensionsOf(cluster)) && mounts(pod, superuserVolume) == cluster.Spec.SuperuserAccess &&
		secretOf(pod.Spec.Volumes, s3Volume) == in.S3Secret && secretOf(pod.Spec.Volumes, keysVolume) == in.KeysSecret
}

func postgresOf(pod *corev1.Pod) *corev1.Container {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == ContainerName {
			return &pod.Spec.Containers[i]
		}
	}
	return nil
}

// has: the container has just what is wanted.
func has(got, wanted corev1.ResourceRequirements) bool {
	return sameList(got.Requests, wanted.Requests) && sameList(got.Limits, wanted.Limits)
}

func sameList(a, b corev1.ResourceList) bool {
	if len(a) != len(b) {
		return false
	}
	for name, quantity := range a {
		if other, there := b[name]; !there || quantity.Cmp(other) != 0 {
			return false
		}
	}
	return true
}

// allowed says whether a running pod may be given other resources. Less memory is not for PostgreSQL to give back while it
// runs, and what Kubernetes always refuses needn't be requested.
func allowed(pod *corev1.Pod, got, wanted corev1.ResourceRequirements) (ResizeState, string) {
	before, after := memoryOf(got), memoryOf(wanted)
	_, limited := got.Limits[corev1.ResourceMemory]
	_, limits := wanted.Limits[corev1.ResourceMemory]
	switch {
	case after.Cmp(before) < 0, limits && !limited:
		return ResizeNot, "PostgreSQL gives memory back only when it is restarted"
	case lacks(wanted.Requests, got.Requests), lacks(wanted.Limits, got.Limits):
		return ResizeNot, "a running pod keeps each request and limit that it has"
	case qosWith(pod, got) != qosWith(pod, wanted):
		return ResizeNot, fmt.Sprintf("its quality of service class would be %s instead of %s", qosWith(pod, wanted), qosWith(pod, got))
	}
	return ResizeDue, ""
}

// memoryOf the container, as the agent is told.
func memoryOf(resources corev1.ResourceRequirements) resource.Quantity {
	if limit, found := resources.Limits[corev1.ResourceMemory]; found {
		return limit
	}
	return resources.Requests[corev1.ResourceMemory]
}

// lacks: a list has not all that another has.
func lacks(list, other corev1.ResourceList) bool {
	for name := range other {
		if _, found := list[name]; !found {
			return true
		}
	}
	return false
}

// qosWith is the class of a pod whose PostgreSQL has these resources.
func qosWith(pod *corev1.Pod, resources corev1.ResourceRequirements) corev1.PodQOSClass {
	all := []corev1.ResourceRequirements{resources}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if c.Name != ContainerName {
			all = append(all, c.Resources)
		}
	}
	nothing, guaranteed := true, true
	for _, r := range all {
		nothing = nothing && len(r.Requests) == 0 && len(r.Limits) == 0
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			limit, limited := r.Limits[name]
			request, requested := r.Requests[name]
			guaranteed = guaranteed && limited && (!requested || limit.Cmp(request) == 0)
		}
	}
	switch {
	case nothing:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}

// progress is how far the node is with what was requested of it.
func progress(pod *corev1.Pod, wanted corev1.ResourceRequirements, now time.Time) (ResizeState, string) {
	said := false
	for _, c := range pod.Status.Conditions {
		if c.Status != corev1.ConditionTrue || c.Type != corev1.PodResizePending && c.Type != corev1.PodResizeInProgress {
			continue
		}
		said = true
		late := now.Sub(c.LastTransitionTime.Time) > deferTime
		if c.Reason == corev1.PodReasonInfeasible || late && (c.Reason == corev1.PodReasonDeferred || c.Reason == corev1.PodReasonError) {
			return ResizeNot, fmt.Sprintf("node %s says %s: %s", pod.Spec.NodeName, c.Reason, c.Message)
		}
	}
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == ContainerName && status.Resources != nil && has(*status.Resources, wanted) && !said {
			return ResizeDone, ""
		}
	}
	asked, err := time.Parse(time.RFC3339, pod.Annotations[AnnotationResized])
	if !said && (err != nil || now.Sub(asked) > silentTime) {
		return ResizeDone, ""
	}
	return ResizeRunning, ""
}
