package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Autoscale says which sizes of the instances follow the load.
type Autoscale struct {
	// Resources has requests recommended for the PostgreSQL container, within bounds.
	// +optional
	Resources *AutoscaleResources `json:"resources,omitempty"`
}

// AutoscaleResources are the bounds of recommended requests. Nothing is changed by itself.
// +kubebuilder:validation:XValidation:rule="has(self.cpu) || has(self.memory)",message="spec.autoscale.resources needs cpu or memory, such as memory: {min: 1Gi, max: 8Gi}"
type AutoscaleResources struct {
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
