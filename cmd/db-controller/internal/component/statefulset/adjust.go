package statefulset

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/apis/v1alpha1"
)

// Requests are those of spec, with what was decided automatically instead where spec has a request. They never exceed a limit, with which
// Kubernetes would refuse the pod. The hash of the template knows nothing of them: no pod is replaced for them.
func Requests(cluster *v1alpha1.PostgresCluster) corev1.ResourceList {
	requests, applied := cluster.Spec.Resources.Requests.DeepCopy(), cluster.Status.AppliedRequests()
	if applied == nil {
		return requests
	}
	for name, request := range applied.Requests {
		if _, has := requests[name]; !has {
			continue
		}
		if limit, limited := cluster.Spec.Resources.Limits[name]; limited && request.Cmp(limit) > 0 {
			request = limit
		}
		requests[name] = request.DeepCopy()
	}
	return requests
}

// Adjust says whether a pod that is not to be replaced has to be given other requests while it runs, and why it can't have them: then the state
// is ResizeNot. Less memory is fine, because PostgreSQL's own follows spec.resources.
func Adjust(pod *corev1.Pod, cluster *v1alpha1.PostgresCluster, now time.Time) (ResizeState, string) {
	container, wanted := postgresOf(pod), Resources(cluster)
	switch {
	case container == nil || pod.Status.Phase != corev1.PodRunning || !pod.DeletionTimestamp.IsZero():
		return ResizeRunning, ""
	case has(container.Resources, wanted):
		return progress(pod, wanted, now)
	case qosWith(pod, container.Resources) != qosWith(pod, wanted):
		return ResizeNot, fmt.Sprintf("its quality of service class would be %s instead of %s", qosWith(pod, wanted), qosWith(pod, container.Resources))
	}
	return ResizeDue, ""
}
