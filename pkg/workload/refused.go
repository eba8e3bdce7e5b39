package workload

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/howdah/pkg/flow"
)

// refusedLook is how soon to look again at a Job that has no pod: nothing that is watched changes when it gets one, or is refused one again.
const refusedLook = 10 * time.Second

// Explain has a Job that has no pod say why: a quota, an admission policy or a webhook refuses it, which Kubernetes says in an event of
// the Job and nowhere else. live reads from the API server itself: a cache would keep all events. What can't be read is not said, and
// nothing depends on it.
func (s *State) Explain(ctx context.Context, live client.Reader, namespace string) {
	if !s.podless || s.Message != "" {
		return
	}
	events := &corev1.EventList{}
	err := live.List(ctx, events, client.InNamespace(namespace), client.MatchingFields{"involvedObject.uid": string(s.UID), "reason": "FailedCreate"})
	if err != nil {
		return
	}
	var last *corev1.Event
	for i := range events.Items {
		if event := &events.Items[i]; last == nil || last.LastTimestamp.Before(&event.LastTimestamp) {
			last = event
		}
	}
	if last != nil {
		s.Message = flow.Sentence(fmt.Sprintf("Kubernetes refuses to create the pod of the Job: %s", last.Message))
	}
}

// Await waits for a Job that runs. No watch tells when a pod that was told to go is Lost.
func (s State) Await(reason, message string) flow.Outcome {
	if s.podless || !s.Overdue.IsZero() {
		return flow.Poll(refusedLook, reason, message)
	}
	return flow.Wait(reason, message)
}
