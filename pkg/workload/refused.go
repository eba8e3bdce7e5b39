package workload

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/howdah/pkg/flow"
)

// refusedLook is how soon to look again at a Job that has no pod: nothing that is watched changes when it gets one, or is refused one again.
const refusedLook = 10 * time.Second

// Explain has a Job that has no pod say why: a quota, an admission policy or a webhook refuses it, which Kubernetes says in an event of
// the Job and nowhere else. live reads from the API server itself: a cache would keep all events. What can't be read is not said, and
// nothing depends on it.
func (s *State) Explain(ctx context.Context, live client.Reader, namespace string) {
	if s.Podless() {
		s.Refuse(ReadRefusals(ctx, live, namespace, s.UID).Of(""), "")
	}
}

// Podless says that the Job runs, has no pod, and doesn't say why.
func (s *State) Podless() bool { return s.podless && s.Message == "" }

// PodRefused says that the Job has no pod because Kubernetes refuses to create one.
func (s State) PodRefused() bool { return s.podless && s.Message != "" }

// Refuse has a Job that has no pod say why Kubernetes creates none, and what a person does about that; nothing, if it isn't refused.
func (s *State) Refuse(why, remedy string) {
	if s.Podless() && why != "" {
		s.Message = strings.TrimSpace(flow.Sentence("Kubernetes refuses to create the pod of the Job: "+why) + " " + remedy)
	}
}

// The reasons of events that tell whether Kubernetes could create a pod.
const (
	eventFailed  = "FailedCreate"
	eventCreated = "SuccessfulCreate"
)

// Refusals are the events in which Kubernetes says whether it could create the pods of an object, the oldest first.
type Refusals []corev1.Event

// ReadRefusals reads those of a Job or a StatefulSet from the API server itself.
func ReadRefusals(ctx context.Context, live client.Reader, namespace string, owner types.UID) (all Refusals) {
	events := &corev1.EventList{}
	if live.List(ctx, events, client.InNamespace(namespace), client.MatchingFields{"involvedObject.uid": string(owner)}) != nil {
		return nil
	}
	for i := range events.Items {
		if reason := events.Items[i].Reason; reason == eventFailed || reason == eventCreated {
			all = append(all, events.Items[i])
		}
	}
	slices.SortStableFunc(all, func(a, b corev1.Event) int { return said(&a).Compare(said(&b)) })
	return all
}

// said is when an event was said last. One of the newer kind has the time in other fields.
func said(event *corev1.Event) time.Time {
	switch {
	case !event.LastTimestamp.IsZero():
		return event.LastTimestamp.Time
	case event.Series != nil:
		return event.Series.LastObservedTime.Time
	}
	return event.EventTime.Time
}

// longestRefusal is how many characters of a refusal are quoted: what to do comes after it, and a condition has room for 1,024.
const longestRefusal = 500

// Of says why Kubernetes does not create the pod of that name; empty: it has not said so, or has created it since. Without a name it is
// about the last pod that was to be created, and so it is where nothing is known of that very pod: a StatefulSet ends its round with the first
// pod that is refused.
func (r Refusals) Of(pod string) string {
	about := slices.DeleteFunc(slices.Clone(r), func(e corev1.Event) bool { return !strings.Contains(e.Message, "Pod "+pod+" in StatefulSet ") })
	if pod == "" || len(about) == 0 {
		about = r
	}
	if len(about) == 0 || about[len(about)-1].Reason != eventFailed {
		return ""
	}
	why := about[len(about)-1].Message
	for _, before := range []string{"Error creating: ", " failed error: "} {
		if _, rest, found := strings.Cut(why, before); found {
			why = rest
		}
	}
	if characters := []rune(why); len(characters) > longestRefusal {
		return string(characters[:longestRefusal-1]) + "…"
	}
	return why
}

// Remedy is what a person does about a pod that is refused. forNamespaceUsers is that where OpenShift refuses the pod for its user.
func Remedy(why, forNamespaceUsers string) string {
	switch why = strings.ToLower(why); {
	case strings.Contains(why, "security context constraint"):
		return forNamespaceUsers
	case strings.Contains(why, "exceeded quota"):
		return "Raise the quota, or lower what counts against it, such as spec.resources."
	case strings.Contains(why, "must specify"):
		return "Set spec.resources.limits (cpu and memory), or give the namespace a LimitRange with default limits."
	case strings.Contains(why, "per container is"), strings.Contains(why, "per pod is"):
		return "Set spec.resources to what the LimitRange of the namespace allows, or change the LimitRange."
	}
	return "Change the spec so that the pod is accepted, or have the policy of the namespace changed."
}

// Await waits for a Job that runs. No watch tells when a pod that was told to go is Lost.
func (s State) Await(reason, message string) flow.Outcome {
	if s.podless || !s.Overdue.IsZero() {
		return flow.Poll(refusedLook, reason, message)
	}
	return flow.Wait(reason, message)
}
