package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Autoscale says which sizes of the instances follow the load.
type Autoscale struct {
	// Resources has requests recommended for the PostgreSQL container, or applied to it, within bounds.
	// +optional
	Resources *AutoscaleResources `json:"resources,omitempty"`
}

// AutoscaleMode says what becomes of a recommendation.
// +kubebuilder:validation:XValidation:rule="self in ['Recommend','Apply']",message="spec.autoscale.resources.mode must be Recommend, which only shows requests in status.autoscale, or Apply, which gives them to running pods"
type AutoscaleMode string

// The modes.
const (
	// AutoscaleRecommend only shows it.
	AutoscaleRecommend AutoscaleMode = "Recommend"
	// AutoscaleApply gives it to running pods.
	AutoscaleApply AutoscaleMode = "Apply"
)

// AutoscaleResources are the bounds of recommended requests, and what becomes of these.
// +kubebuilder:validation:XValidation:rule="has(self.cpu) || has(self.memory)",message="spec.autoscale.resources needs cpu or memory, such as memory: {min: 1Gi, max: 8Gi}"
type AutoscaleResources struct {
	// Mode is Recommend, which only shows requests in status.autoscale, or Apply, which gives them to running pods without
	// a restart. The default is Recommend.
	// +optional
	Mode AutoscaleMode `json:"mode,omitempty"`
	// CPU of each instance.
	// +optional
	CPU *ResourceBounds `json:"cpu,omitempty"`
	// Memory of each instance.
	// +optional
	Memory *ResourceBounds `json:"memory,omitempty"`
}

// ResourceBounds are the least and the most that is recommended.
// +kubebuilder:validation:XValidation:rule="quantity(string(self.min)).isGreaterThan(quantity('0')) && quantity(string(self.min)).compareTo(quantity(string(self.max))) <= 0",message="spec.autoscale.resources: min must be more than 0 and not more than max, such as {min: 500m, max: '4'} for cpu and {min: 1Gi, max: 8Gi} for memory"
type ResourceBounds struct {
	// Min is the least, such as 1Gi.
	Min resource.Quantity `json:"min"`
	// Max is the most, such as 8Gi.
	Max resource.Quantity `json:"max"`
}

// AutoscaleStatus is what the load of the instances asks for.
type AutoscaleStatus struct {
	// CPU that is recommended for spec.resources.requests.
	// +optional
	CPU *ResourceRecommendation `json:"cpu,omitempty"`
	// Memory that is recommended for spec.resources.requests.
	// +optional
	Memory *ResourceRecommendation `json:"memory,omitempty"`
	// Applied are the requests that the instances have instead of those of spec.resources, with spec.autoscale.resources.mode: Apply. They are
	// recorded before a pod gets them.
	// +optional
	Applied *AppliedRequests `json:"applied,omitempty"`
	// Waiting says why recommended requests are not applied now.
	// +optional
	Waiting string `json:"waiting,omitempty"`
}

// AppliedRequests are requests that were decided automatically.
type AppliedRequests struct {
	// Requests of CPU and memory. Those that are not here are as spec.resources.requests says.
	// +optional
	Requests corev1.ResourceList `json:"requests,omitempty"`
	// Previous are the requests from before, to which the instances return if a node has no room.
	// +optional
	Previous corev1.ResourceList `json:"previous,omitempty"`
	// Reason has the numbers that they follow from.
	Reason string `json:"reason"`
	// Since when they were decided.
	Since metav1.Time `json:"since"`
	// Refused is what a node or Kubernetes said against the last change, which was taken back. The next one is tried a day later.
	// +optional
	Refused string `json:"refused,omitempty"`
}

// AppliedRequests are the requests that were decided automatically; nil: none were.
func (s *PostgresClusterStatus) AppliedRequests() *AppliedRequests {
	if s.Autoscale == nil {
		return nil
	}
	return s.Autoscale.Applied
}

// ResourceRecommendation is a request that fits the load.
type ResourceRecommendation struct {
	// Request that is recommended.
	Request resource.Quantity `json:"request"`
	// Reason has the numbers that it follows from, as they were when it changed.
	Reason string `json:"reason"`
	// Since when it is recommended.
	Since metav1.Time `json:"since"`
	// NeededAt is when the load last asked for about as much. It becomes less only a day after that.
	NeededAt metav1.Time `json:"neededAt"`
}
