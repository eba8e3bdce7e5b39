package reading

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/howdah/cmd/db-controller/internal/agentclient"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
)

// readAgents looks at what the agents of all running pods answered last. One that didn't is unknown, which is no error: what
// Kubernetes knows of its pod counts then. Its error is ErrNotAsked where one has yet to be asked for the first time.
func (r *Reader) readAgents(_ context.Context, o *observed.Cluster) error {
	instances := map[string]agentclient.Instance{}
	for i := range o.Pods {
		pod := &o.Pods[i]
		if target, ok := o.AgentTarget(pod); ok {
			instances[pod.Name] = agentclient.Instance{Target: target, Incarnation: incarnation(pod), Doubtful: !observed.PodReady(pod)}
		}
	}
	answers := r.Agents.Look(client.ObjectKeyFromObject(o.Cluster), instances)
	o.Agents, o.Silent, o.AgentsOld = answers.ByPod, answers.Silent, !answers.Live
	if !answers.Known {
		return agentclient.ErrNotAsked
	}
	return nil
}

// incarnation of a pod, in which nothing counts that its agent, or nobody, has answered in another.
func incarnation(pod *corev1.Pod) string {
	text := fmt.Sprint(pod.UID, pod.Status.PodIP, observed.PodReady(pod))
	for i := range pod.Status.ContainerStatuses {
		status := &pod.Status.ContainerStatuses[i]
		text += fmt.Sprint(" ", status.Name, status.RestartCount, status.State.Running != nil)
	}
	return text
}
