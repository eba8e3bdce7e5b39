package cluster

import (
	"fmt"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
)

// reachable: clients that connect to the Service of the primary come to it. Its agent says so in the EndpointSlice; what it
// wrote stays when the agent goes away, so this alone doesn't say that the primary serves.
func (w *world) reachable() bool {
	pod, slice := w.primaryPod(), w.primarySlice()
	if pod == nil || pod.Status.PodIP == "" || slice == nil {
		return false
	}
	return slices.ContainsFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool {
		return ptr.Deref(e.Conditions.Ready, true) && slices.Contains(e.Addresses, pod.Status.PodIP)
	})
}

func (w *world) primarySlice() *discoveryv1.EndpointSlice {
	slice, _ := w.live[key("EndpointSlice", w.names.Primary())].(*discoveryv1.EndpointSlice)
	return slice
}

// unreachable says why clients can't write yet, though the primary serves.
func unreachable(w *world) (reason, message string) {
	name := w.names.Instance(w.primary())
	if !w.electing() {
		return v1alpha1.ReasonStarting, fmt.Sprintf(
			"PostgreSQL in pod %s takes connections; its agent has yet to write its address into the EndpointSlice %s.", name, w.names.Primary())
	}
	return v1alpha1.ReasonElecting, fmt.Sprintf(
		"%s is primary; its agent has yet to write its address into the EndpointSlice %s, to which clients are led.", name, w.names.Primary())
}
