package instances

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/howdah/cmd/db-controller/internal/component/disruption"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/flow"
)

// EnsureDisruptionBudget creates it once it protects something: Kubernetes complains of one without a pod, and writes its status
// for each pod that starts. It is never deleted.
func (s *Steps) EnsureDisruptionBudget(ctx context.Context, o *observed.Cluster) flow.Outcome {
	isNew := o.Live[observed.Key("PodDisruptionBudget", o.Names.DisruptionBudget())] == nil
	if len(o.Pods) == 0 || isNew && !Protectable(o) {
		return flow.Next
	}
	return s.PutAll(ctx, o, disruption.Budget(o.Cluster))
}

// startTime is how long the first instance may be ready before others are, until it counts for what there will be for a while.
const startTime = time.Minute

// Protectable says whether there is something to keep from evictions. All instances are ready, or one has been so for a while and the
// others may take hours, for a clone or a node with room.
func Protectable(o *observed.Cluster) bool {
	ready := 0
	for i := range o.Pods {
		condition := observed.ReadyCondition(&o.Pods[i])
		if condition == nil || condition.Status != corev1.ConditionTrue {
			continue
		}
		if o.Now.Sub(condition.LastTransitionTime.Time) > startTime {
			return true
		}
		ready++
	}
	return ready >= o.Wanted()
}
