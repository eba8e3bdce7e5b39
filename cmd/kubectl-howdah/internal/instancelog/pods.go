package instancelog

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/workload"
)

// defaultContainer is the annotation by which kubectl chooses a container, too.
const defaultContainer = "kubectl.kubernetes.io/default-container"

// PodsOf lists the pods of a cluster: those of its instances, or also those of its Jobs and Poolers.
func PodsOf(ctx context.Context, c client.Client, cluster client.ObjectKey, all bool) ([]Pod, error) {
	labels := client.MatchingLabels{v1alpha1.LabelCluster: cluster.Name}
	if !all {
		labels[v1alpha1.LabelComponent] = workload.ComponentInstance
	}
	pods := &corev1.PodList{}
	if err := c.List(ctx, pods, client.InNamespace(cluster.Namespace), labels); err != nil {
		return nil, err
	}
	var found []Pod
	for i := range pods.Items {
		found = append(found, Pod{Name: pods.Items[i].Name, Container: container(&pods.Items[i])})
	}
	slices.SortFunc(found, func(a, b Pod) int { return cmp.Compare(a.Name, b.Name) })
	return found, nil
}

// container is the one with the agent.
func container(pod *corev1.Pod) string {
	if name := pod.Annotations[defaultContainer]; name != "" {
		return name
	}
	return pod.Spec.Containers[0].Name
}
