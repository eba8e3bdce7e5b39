package cluster

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"howdah.dev/howdah/cmd/db-controller/internal/agents"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
)

// readAgents asks the agents of all running pods at once. One that doesn't answer is unknown, which is no error: what
// Kubernetes knows of its pod counts then.
func (r *Reconciler) readAgents(ctx context.Context, w *world) error {
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range w.pods {
		target, ok := w.target(&w.pods[i])
		if !ok {
			continue
		}
		name := w.pods[i].Name
		all.Go(func() {
			status, err := r.Agents.Status(ctx, target)
			if err != nil {
				log.FromContext(ctx).V(1).Info("An agent doesn't answer", "pod", name, "reason", err.Error())
				return
			}
			mu.Lock()
			defer mu.Unlock()
			w.agents[name] = status
		})
	}
	all.Wait()
	return nil
}

// target is the agent of a pod that may answer.
func (w *world) target(pod *corev1.Pod) (agents.Target, bool) {
	if w.authority == nil || pod.Status.PodIP == "" || pod.Status.Phase != corev1.PodRunning {
		return agents.Target{}, false
	}
	return agents.Target{IP: pod.Status.PodIP, Host: component.PodHost(w.cluster, pod.Name), Authority: w.authority}, true
}
