package observed

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"howdah.dev/apis/v1alpha1"
)

// Conflict says of an object, by its key, that it is somebody else's and in the way; empty: it isn't. A cluster continues without what is
// Dispensable.
func Conflict(o *Cluster, key string) string {
	object := o.Live[key]
	if object == nil || !Foreign(object, o.Cluster) {
		return ""
	}
	kind, name, _ := strings.Cut(key, "/")
	taken := fmt.Sprintf("%s %s already exists and belongs to somebody else, so it is not touched. ", kind, name)
	switch {
	case kind == "Service" && additional(o, name):
		return taken + "Delete it, or use another name in spec.services.additional; everything else continues without it."
	case Dispensable(o, key):
		return taken + "Delete it; everything else continues without it."
	}
	return taken + "Delete it, or create the cluster under another name."
}

// Dispensable says whether a cluster continues without an object where its name is taken. One that has not begun yet does so only without an
// additional Service, whose name is easily changed, and without a PodMonitor.
func Dispensable(o *Cluster, key string) bool {
	kind, name, _ := strings.Cut(key, "/")
	switch n := o.Names; {
	case kind == "Service" && additional(o, name), kind == "PodMonitor":
		return true
	case !o.Begun():
		return false
	case kind == "Service":
		return name != n.Primary()
	case kind == "ConfigMap":
		return name == n.Connection()
	case kind == "Secret":
		return name == n.Pooler() || name == n.FailoverDrill() || name == n.Metrics()
	}
	return kind == "NetworkPolicy" || kind == "PodDisruptionBudget"
}

// PassedOver are the objects that the cluster continues without, as somebody else has their names: a sentence for each, in order.
func PassedOver(o *Cluster) (conflicts []string) {
	for _, key := range slices.Sorted(maps.Keys(o.Live)) {
		if Passes(o, key) && !strings.HasPrefix(key, "PodMonitor/") { // that has a condition of its own
			conflicts = append(conflicts, Conflict(o, key))
		}
	}
	return conflicts
}

// Passes says that the cluster continues without an object, as somebody else has its name.
func Passes(o *Cluster, key string) bool {
	object := o.Live[key]
	return object != nil && Foreign(object, o.Cluster) && Dispensable(o, key)
}

// additional says that spec.services.additional names the Service.
func additional(o *Cluster, service string) bool {
	return slices.ContainsFunc(o.Cluster.Spec.Services.Additional, func(s v1alpha1.AdditionalService) bool { return o.Names.Additional(s.Name) == service })
}
