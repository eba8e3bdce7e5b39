package reading

import (
	"context"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"howdah.dev/howdah/cmd/db-controller/internal/observed"
)

// readAgents asks the agents of all running pods at once. One that doesn't answer is unknown, which is no error: what
// Kubernetes knows of its pod counts then.
func (r *Reader) readAgents(ctx context.Context, o *observed.Cluster) error {
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range o.Pods {
		target, ok := o.AgentTarget(&o.Pods[i])
		if !ok {
			continue
		}
		name := o.Pods[i].Name
		all.Go(func() {
			status, err := r.Agents.Status(ctx, target)
			if err != nil {
				log.FromContext(ctx).V(1).Info("An agent doesn't answer", "pod", name, "reason", err.Error())
				return
			}
			mu.Lock()
			defer mu.Unlock()
			o.Agents[name] = status
		})
	}
	all.Wait()
	return nil
}
