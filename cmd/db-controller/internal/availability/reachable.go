package availability

import (
	"encoding/json"
	"fmt"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/agentapi"
)

// Reachable says whether clients that connect to the Service of the primary come to it. Its agent says so in the EndpointSlice; what it
// wrote stays when the agent goes away, so this alone doesn't say that the primary serves. After a crash a primary may refuse clients.
func Reachable(o *observed.Cluster) bool {
	pod, slice := o.PrimaryPod(), primarySlice(o)
	if pod == nil || pod.Status.PodIP == "" || slice == nil || closed(o) != "" {
		return false
	}
	return slices.ContainsFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool {
		return ptr.Deref(e.Conditions.Ready, true) && slices.Contains(e.Addresses, pod.Status.PodIP)
	})
}

// closed says why the primary refuses clients; empty: it doesn't, or its agent doesn't respond.
func closed(o *observed.Cluster) string {
	if agent := o.PrimaryAgent(); agent != nil {
		return agent.Closed
	}
	return ""
}

// LedTo is the data generation that clients were led to last, as the agent wrote it; empty: not known.
func LedTo(o *observed.Cluster) string {
	slice := primarySlice(o)
	if slice == nil {
		return ""
	}
	return slice.Annotations[agentapi.AnnotationDataGeneration]
}

// Ended is how the server ended that clients were led to last, by the word of its agent; nil: it hasn't said, or another one came after it.
func Ended(o *observed.Cluster) *agentapi.Shutdown {
	slice, ended := primarySlice(o), &agentapi.Shutdown{}
	if slice == nil || json.Unmarshal([]byte(slice.Annotations[agentapi.AnnotationShutdown]), ended) != nil ||
		ended.DataGeneration != o.Cluster.Status.DataGeneration || ended.Instance != o.Names.Instance(o.LastPrimary()) {
		return nil
	}
	return ended
}

// MayHaveServed says whether clients may have written to the data of the cluster. That no agent has answered yet is no proof that nobody has: the
// agents need no controller to lead clients to their primary.
func MayHaveServed(o *observed.Cluster) bool {
	return o.HasRun() || o.Begun() && LedTo(o) == o.Cluster.Status.DataGeneration || o.Serving(o.Primary())
}

func primarySlice(o *observed.Cluster) *discoveryv1.EndpointSlice {
	slice, _ := o.Live[observed.Key("EndpointSlice", o.Names.Primary())].(*discoveryv1.EndpointSlice)
	return slice
}

// Unreachable says why clients can't write yet, though the primary serves.
func Unreachable(o *observed.Cluster) (reason, message string) {
	name := o.Names.Instance(o.Primary())
	if why := closed(o); why != "" {
		return v1alpha1.ReasonCommitsWaiting, name + ": " + why
	}
	if !o.Electing() {
		return v1alpha1.ReasonStarting, fmt.Sprintf(
			"PostgreSQL in pod %s accepts connections; its agent has yet to write its address into the EndpointSlice %s.", name, o.Names.Primary())
	}
	return v1alpha1.ReasonElecting, fmt.Sprintf(
		"%s is primary; its agent has yet to write its address into the EndpointSlice %s, which leads clients to it.", name, o.Names.Primary())
}
