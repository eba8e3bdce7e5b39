package workload

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"howdah.dev/apis/v1alpha1"
)

// Bounds of the limits that a Job gets where it sets none itself. What isn't named has none.
type Bounds struct{ Least, Most corev1.ResourceList }

// usualRequests of a Job that sets none itself, at most.
var usualRequests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")}

// Limit are the resources of a Job, with a limit of whatever the instances of its cluster have one of: where a quota wants that, it wants
// it of every pod. What the Job sets itself stays, and no limit is below its request. A limit comes with a request, which would be as
// large otherwise; so does a request of the instances.
func (b Bounds) Limit(own corev1.ResourceRequirements, cluster *v1alpha1.PostgresClusterSpec) corev1.ResourceRequirements {
	if cluster == nil {
		return own
	}
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	for name := range usualRequests {
		if limit, is := cluster.Resources.Limits[name]; is {
			limits[name] = b.bound(name, limit, own.Requests[name])
		}
	}
	own.Limits = complete(own.Limits, limits)
	for name, request := range usualRequests {
		theirs, requested := cluster.Resources.Requests[name]
		if requested {
			request = lesser(request, theirs)
		}
		if limit, is := own.Limits[name]; is {
			request = lesser(request, limit)
		}
		if _, limited := limits[name]; limited || requested {
			requests[name] = request
		}
	}
	own.Requests = complete(own.Requests, requests)
	return own
}

// bound is the limit of the instances, within the bounds, and not below a request.
func (b Bounds) bound(name corev1.ResourceName, limit, request resource.Quantity) resource.Quantity {
	if most, is := b.Most[name]; is {
		limit = lesser(limit, most)
	}
	for _, least := range []resource.Quantity{b.Least[name], request} {
		if limit.Cmp(least) < 0 {
			limit = least
		}
	}
	return limit
}

func lesser(a, b resource.Quantity) resource.Quantity {
	if a.Cmp(b) <= 0 {
		return a
	}
	return b
}

// complete adds what a list lacks. The list itself may be somebody else's.
func complete(list, more corev1.ResourceList) corev1.ResourceList {
	if len(more) == 0 {
		return list
	}
	all := maps.Clone(more)
	maps.Copy(all, list)
	return all
}
