package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DeepChecks says how the agents look for damage, and for what is out of reach.
type DeepChecks struct {
	// Suspend stops the checks while it is true. The check of a large index ends within seconds, and any other within a
	// minute. Damaged replicas are then not cloned automatically, and the finding ChecksSuspended says so.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// Interval is how long after a round through all indexes the next one begins, such as 168h. After a round that missed something, it
	// is an eighth of that. The default is 24h.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= duration('1h') && self <= duration('720h')",message="spec.deepChecks.interval must be from 1h to 720h, such as 24h: a round reads every index"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:MaxLength=32
	Interval *metav1.Duration `json:"interval,omitempty"`
	// IndexTimeout is how long the check of one index may take, such as 1h. Indexes that take longer than 10 s are
	// checked alone, at a low priority, once the others are checked; that ends if somebody waits for it or the instance
	// is busy. An index that takes longer than this is not checked, and while there is one, damaged replicas are not
	// cloned automatically. The default is 10m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= duration('10s') && self <= duration('4h')",message="spec.deepChecks.indexTimeout must be from 10s to 4h, such as 30m: while an index is checked, VACUUM keeps rows that were deleted meanwhile"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:MaxLength=32
	IndexTimeout *metav1.Duration `json:"indexTimeout,omitempty"`
}
