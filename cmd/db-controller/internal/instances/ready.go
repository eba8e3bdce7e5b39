package instances

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/howdah/cmd/db-controller/internal/availability"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/pace"
	"howdah.dev/howdah/pkg/flow"
)

// AwaitReady waits until the cluster accepts connections, and clients are led to it.
func AwaitReady(_ context.Context, o *observed.Cluster) flow.Outcome {
	reason, message := availability.NotServing(o)
	if o.Serving(o.Primary()) {
		if availability.Reachable(o) {
			return flow.Next
		}
		reason, message = availability.Unreachable(o)
	}
	return flow.Poll(readyInterval(o), reason, message)
}

// readyInterval is how soon to look again whether the cluster accepts connections. A pod that begins to run wakes us; what
// its agent says does not.
func readyInterval(o *observed.Cluster) time.Duration {
	if slices.ContainsFunc(o.Pods, func(pod corev1.Pod) bool { return observed.PodRuns(&pod) }) {
		return pace.BusyInterval
	}
	return pace.UnknownInterval
}
