package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Autoscale says which sizes of the instances follow the load.
type Autoscale struct {
	// Resources recommends requests for the PostgreSQL container, or applies them, within bounds.
	// +optional
	Resources *AutoscaleResources `json:"resources,omitempty"`
	// Replicas recommends a number of replicas, or applies it, within bounds. Don't use a HorizontalPodAutoscaler as well.
	// +optional
	Replicas *AutoscaleReplicas `json:"replicas,omitempty"`
}

// AutoscaleMode says whether a recommendation is only shown, or applied.
type AutoscaleMode string

// The modes.
const (
	// AutoscaleRecommend only shows it.
	AutoscaleRecommend AutoscaleMode = "Recommend"
	// AutoscaleApply has it take effect.
	AutoscaleApply AutoscaleMode = "Apply"
)

// AutoscaleResources are the bounds of recommended requests, and whether these are applied.
// +kubebuilder:validation:XValidation:rule="has(self.cpu) || has(self.memory)",message="spec.autoscale.resources needs cpu or memory, such as memory: {min: 1Gi, max: 8Gi}"
type AutoscaleResources struct {
	// Mode is Recommend, which only shows requests in status.autoscale, or Apply, which gives them to running pods without
	// a restart. The default is Recommend.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self in ['Recommend','Apply']",message="spec.autoscale.resources.mode must be Recommend, which only shows requests in status.autoscale, or Apply, which gives them to running pods"
	Mode AutoscaleMode `json:"mode,omitempty"`
	// CPU of each instance.
	// +optional
	CPU *ResourceBounds `json:"cpu,omitempty"`
	// Memory of each instance.
	// +optional
	Memory *ResourceBounds `json:"memory,omitempty"`
}

// AutoscaleReplicas says how many replicas there are for the load that they have.
// +kubebuilder:validation:XValidation:rule="has(self.cpuPercent) || has(self.sessionsPercent)",message="spec.autoscale.replicas needs cpuPercent or sessionsPercent, such as cpuPercent: 60"
// +kubebuilder:validation:XValidation:rule="self.min <= self.max",message="spec.autoscale.replicas.min must not be more than max, such as {min: 1, max: 4}"
type AutoscaleReplicas struct {
	// Mode is Recommend, which only shows a number in status.autoscale, or Apply, which adds and removes replicas, one at a time. The
	// default is Recommend.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self in ['Recommend','Apply']",message="spec.autoscale.replicas.mode must be Recommend, which only shows a number in status.autoscale, or Apply, which adds and removes replicas"
	Mode AutoscaleMode `json:"mode,omitempty"`
	// Min is the lowest number of replicas, not counting the primary. There are never fewer than spec.synchronous
	// needs.
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 8",message="spec.autoscale.replicas.min must be from 1 to 8, because the primary is one of at most nine instances"
	Min int32 `json:"min"`
	// Max is the highest number of replicas.
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 8",message="spec.autoscale.replicas.max must be from 1 to 8, because the primary is one of at most nine instances"
	Max int32 `json:"max"`
	// CPUPercent is the average CPU usage of the replicas to aim for, such as 60: in percent of
	// spec.resources.limits.cpu or, without it, of requests.cpu.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 10 && self <= 100",message="spec.autoscale.replicas.cpuPercent must be from 10 to 100, such as 60"
	CPUPercent *int32 `json:"cpuPercent,omitempty"`
	// SessionsPercent is the average share of a replica's sessions to aim for, such as 70: in percent of those that it
	// can have.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 10 && self <= 95",message="spec.autoscale.replicas.sessionsPercent must be from 10 to 95, such as 70"
	SessionsPercent *int32 `json:"sessionsPercent,omitempty"`
	// ShrinkAfter is how long fewer replicas must have been enough for the load before one is removed, such as 4h. The
	// default is 1h.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= duration('10m') && self <= duration('168h')",message="spec.autoscale.replicas.shrinkAfter must be from 10m to 168h, such as 1h: a replica that comes back is cloned"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:MaxLength=32
	ShrinkAfter *metav1.Duration `json:"shrinkAfter,omitempty"`
}

// ResourceBounds are the least and the most that is recommended.
// +kubebuilder:validation:XValidation:rule="quantity(string(self.min)).isGreaterThan(quantity('0')) && quantity(string(self.min)).compareTo(quantity(string(self.max))) <= 0",message="spec.autoscale.resources: min must be more than 0 and not more than max, such as {min: 500m, max: '4'} for cpu and {min: 1Gi, max: 8Gi} for memory"
type ResourceBounds struct {
	// Min is the lower bound, such as 500m for CPU or 1Gi for memory.
	Min resource.Quantity `json:"min"`
	// Max is the upper bound, such as 4 for CPU or 8Gi for memory.
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
	// Replicas is what spec.autoscale.replicas has recommended and applied.
	// +optional
	Replicas *AutoscaleReplicasStatus `json:"replicas,omitempty"`
}

// AutoscaleReplicasStatus is how many replicas the load asks for, and how many there are to be.
type AutoscaleReplicasStatus struct {
	// Recommended number of replicas.
	// +optional
	Recommended *ReplicasRecommendation `json:"recommended,omitempty"`
	// Applied is the number of instances that the cluster is to have instead of spec.instances, with spec.autoscale.replicas.mode: Apply.
	// It is recorded before an instance is added or removed.
	// +optional
	Applied *AppliedReplicas `json:"applied,omitempty"`
	// Waiting says why the recommended number is not applied now, or why there is none.
	// +optional
	Waiting string `json:"waiting,omitempty"`
}

// ReplicasRecommendation is a number of replicas that fits the load.
type ReplicasRecommendation struct {
	// Replicas beside the primary.
	Replicas int32 `json:"replicas"`
	// Reason has the numbers on which it is based, as they were when it changed.
	Reason string `json:"reason"`
	// Since is when it was first recommended.
	Since metav1.Time `json:"since"`
	// NeededAt is when the load last needed this many, or was not known. The number decreases only a while after that.
	NeededAt metav1.Time `json:"neededAt"`
}

// AppliedReplicas is a number of instances that was decided automatically.
type AppliedReplicas struct {
	// Instances that the cluster is to have, the primary among them.
	Instances int32 `json:"instances"`
	// SpecInstances is the value of spec.instances when it was decided. Once spec.instances changes, it applies again.
	SpecInstances int32 `json:"specInstances"`
	// Previous number of instances, to which the cluster returns if no node has room for the one that was added last.
	// +optional
	Previous *int32 `json:"previous,omitempty"`
	// Refused is why the instance that was added last was removed again. The next one is tried a day later.
	// +optional
	Refused string `json:"refused,omitempty"`
	// Reason has the numbers on which it is based.
	Reason string `json:"reason"`
	// Since is when it was decided.
	Since metav1.Time `json:"since"`
}

// DesiredInstances is how many instances the cluster is to have: what spec.autoscale.replicas has decided, or else spec.instances.
func (c *PostgresCluster) DesiredInstances() int32 {
	if c.Spec.Autoscale == nil || c.Spec.Autoscale.Replicas == nil || c.Spec.Autoscale.Replicas.Mode != AutoscaleApply {
		return c.Spec.Instances
	}
	if applied := c.Status.AppliedReplicas(); applied != nil && applied.SpecInstances == c.Spec.Instances {
		return applied.Instances
	}
	return c.Spec.Instances
}

// AppliedReplicas is the number of instances that was decided automatically; nil: none was.
func (s *PostgresClusterStatus) AppliedReplicas() *AppliedReplicas {
	if s.Autoscale == nil || s.Autoscale.Replicas == nil {
		return nil
	}
	return s.Autoscale.Replicas.Applied
}

// AppliedRequests are requests that were decided automatically.
type AppliedRequests struct {
	// Requests of CPU and memory. For others, spec.resources.requests applies.
	// +optional
	Requests corev1.ResourceList `json:"requests,omitempty"`
	// Previous are the requests from before, to which the instances return if a node has no room.
	// +optional
	Previous corev1.ResourceList `json:"previous,omitempty"`
	// Reason has the numbers on which they are based.
	Reason string `json:"reason"`
	// Since is when they were decided.
	Since metav1.Time `json:"since"`
	// Refused is why a node or Kubernetes rejected the last change, which was reverted. The next change is tried a day
	// later.
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
	// Reason has the numbers on which it is based, as they were when it changed.
	Reason string `json:"reason"`
	// Since is when it was first recommended.
	Since metav1.Time `json:"since"`
	// NeededAt is when the load last needed about this much. The recommendation decreases only a day after that.
	NeededAt metav1.Time `json:"neededAt"`
}
