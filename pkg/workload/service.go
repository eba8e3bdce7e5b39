package workload

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
)

// Expose has a Service be reachable from where its template says. What a type has no use for is left out, as the API server
// refuses it.
func Expose(spec *corev1.ServiceSpec, template v1alpha1.ServiceTemplate) {
	if template.Type == "" || corev1.ServiceType(template.Type) == corev1.ServiceTypeClusterIP {
		return
	}
	spec.Type = corev1.ServiceType(template.Type)
	spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicy(template.ExternalTrafficPolicy)
	if spec.Type != corev1.ServiceTypeLoadBalancer {
		return
	}
	if template.LoadBalancerClass != "" {
		spec.LoadBalancerClass = &template.LoadBalancerClass
	}
	for _, r := range template.LoadBalancerSourceRanges {
		spec.LoadBalancerSourceRanges = append(spec.LoadBalancerSourceRanges, string(r))
	}
}

// NextService is what a Service has to be now to become what is wanted. The class of a load balancer can't be changed, so a Service of
// another one becomes reachable within the cluster only first, which gives the load balancer up.
func NextService(live, wanted *corev1.Service) *corev1.Service {
	if live == nil || live.Spec.Type != corev1.ServiceTypeLoadBalancer || wanted.Spec.Type != corev1.ServiceTypeLoadBalancer ||
		ptr.Deref(live.Spec.LoadBalancerClass, "") == ptr.Deref(wanted.Spec.LoadBalancerClass, "") {
		return wanted
	}
	next := wanted.DeepCopy()
	next.Spec.Type = corev1.ServiceTypeClusterIP
	next.Spec.LoadBalancerClass, next.Spec.LoadBalancerSourceRanges, next.Spec.ExternalTrafficPolicy = nil, nil, ""
	return next
}
