package workload

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
)

// refusedLook is how soon to look again at a Job that has no pod: nothing that is watched changes when it gets one, or is refused one again.
const refusedLook = 10 * time.Second

// Resources is where a person sets the resources of a pod.
type Resources struct {
	Field string // such as spec.resources
	Of    string // the object; empty: the one that says it
}

// OfCluster are the resources of a Job that come from its PostgresCluster.
var OfCluster = Resources{Field: "spec.resources", Of: "the PostgresCluster"}

// Explain has a Job that has no pod say why, and what to do: a quota, an admission policy or a webhook refuses it, which Kubernetes says in an
// event of the Job and nowhere else. live reads from the API server itself: a cache would keep all events. What can't be read is not said, and
// nothing depends on it.
func (s *State) Explain(ctx context.Context, live client.Reader, namespace string) {
	s.ExplainBy(ctx, live, namespace, OfCluster)
}

// ExplainBy is Explain of a Job whose resources are set elsewhere.
func (s *State) ExplainBy(ctx context.Context, live client.Reader, namespace string, resources Resources) {
	if s.Podless() {
		why := ReadRefusals(ctx, live, namespace, s.UID).Of("")
		s.Refuse(why, jobRemedy(why, s.fixedUser, resources))
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
	return shortened(why)
}

func shortened(why string) string {
	if characters := []rune(why); len(characters) > longestRefusal {
		return string(characters[:longestRefusal-1]) + "…"
	}
	return why
}

// Remedy is what a person does about a pod that is refused. forNamespaceUsers is that where OpenShift refuses the pod for its user.
func Remedy(why, forNamespaceUsers string) string {
	return remedy(why, forNamespaceUsers, Resources{Field: "spec.resources"})
}

// jobRemedy is Remedy for the pod of a Job. With a fixed user it doesn't run as one of its namespace.
func jobRemedy(why string, fixedUser bool, resources Resources) string {
	if strings.Contains(strings.ToLower(why), "error looking up service account") {
		return "Delete the Job: it is created again, with its ServiceAccount."
	}
	users := "Give the ServiceAccount of the pod security context constraints that allow it (docs/openshift.md)."
	if fixedUser {
		users = "On OpenShift, the PostgresCluster needs spec.runAs: {fromNamespace: true}, which can't be set later: see docs/openshift.md."
	}
	return remedy(why, users, resources)
}

func remedy(why, forNamespaceUsers string, resources Resources) string {
	of := ""
	if resources.Of != "" {
		of = " of " + resources.Of
	}
	switch why = strings.ToLower(why); {
	case strings.Contains(why, "security context constraint"):
		return forNamespaceUsers
	case strings.Contains(why, "exceeded quota"):
		return fmt.Sprintf("Raise the quota, or lower what counts against it, such as %s%s.", resources.Field, of)
	case strings.Contains(why, "must specify"):
		return fmt.Sprintf("Set %s.limits (cpu and memory)%s, or give the namespace a LimitRange with default limits.", resources.Field, of)
	case strings.Contains(why, "per container is"), strings.Contains(why, "per pod is"):
		return fmt.Sprintf("Set %s%s to what the LimitRange of the namespace allows, or change the LimitRange.", resources.Field, of)
	case strings.Contains(why, "no priorityclass with name"):
		return "Create the PriorityClass, or change spec.scheduling.priorityClassName of the PostgresCluster."
	case strings.Contains(why, "runtimeclass"):
		return "Create the RuntimeClass, or change spec.pods.runtimeClassName of the PostgresCluster."
	case strings.Contains(why, "violates podsecurity"):
		return "Remove from spec.pods of the PostgresCluster what the Pod Security level of the namespace does not allow, or have the level changed."
	case strings.Contains(why, "failed calling webhook"):
		return "Have the webhook repaired, or have it leave out this namespace."
	}
	return "Change the spec so that the pod is accepted, or have the policy of the namespace changed."
}

// Reason of a condition while a Job runs: the given one, unless its pod is refused.
func (s State) Reason(running string) string {
	if s.PodRefused() {
		return v1alpha1.ReasonPodRefused
	}
	return running
}

// Await waits for a Job that runs. No watch tells when a pod that was told to go is Lost.
func (s State) Await(reason, message string) flow.Outcome {
	reason = s.Reason(reason)
	if s.podless || !s.Overdue.IsZero() {
		return flow.Poll(refusedLook, reason, message)
	}
	return flow.Wait(reason, message)
}
