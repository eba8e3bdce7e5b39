package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StorageSpec describes a volume.
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",message="spec.storage.storageClassName can't be changed: restore a backup into a new PostgresCluster with the other class"
// +kubebuilder:validation:XValidation:rule="!has(self.autoGrow) || quantity(self.autoGrow.limit).compareTo(quantity(self.size)) >= 0",message="spec.storage.autoGrow.limit must be at least spec.storage.size, from which the volume grows; for example: size: 10Gi, autoGrow: {limit: 50Gi}"
type StorageSpec struct {
	// Size of the volume, such as 10Gi. It may be increased, without a restart, if the StorageClass allows that. A volume
	// never shrinks.
	// +kubebuilder:validation:XValidation:rule="quantity(self).compareTo(quantity('256Mi')) >= 0",message="spec.storage.size must be at least 256Mi: an empty PostgreSQL with its WAL needs that much; for example: 10Gi"
	// +kubebuilder:validation:XValidation:rule="quantity(self).compareTo(quantity(oldSelf)) >= 0",message="spec.storage.size can't be reduced, because volumes can't shrink: use the previous size or a larger one; for a smaller one, restore a backup into a new PostgresCluster"
	Size resource.Quantity `json:"size"`
	// StorageClassName of the volume. By default, the default class of the Kubernetes cluster.
	// +optional
	// +kubebuilder:validation:MinLength=1
	StorageClassName *string `json:"storageClassName,omitempty"`
	// AutoGrow lets volumes grow automatically when they fill. The size that was decided is in status.storage.size. By
	// default, volumes grow only with size.
	// +optional
	AutoGrow *AutoGrow `json:"autoGrow,omitempty"`
}

// AutoGrow says when volumes grow automatically, and how far.
type AutoGrow struct {
	// Limit beyond which volumes never grow, such as 100Gi.
	Limit resource.Quantity `json:"limit"`
	// AtPercent is the usage of any instance's volume at which all volumes grow.
	// +optional
	// +kubebuilder:default=80
	// +kubebuilder:validation:XValidation:rule="self >= 50 && self <= 95",message="spec.storage.autoGrow.atPercent must be from 50 to 95: with less, a volume would always grow; with more, it may be full before it has grown; for example: 80"
	AtPercent int32 `json:"atPercent,omitempty"`
	// StepPercent is how much a volume grows each time, in percent of its size.
	// +optional
	// +kubebuilder:default=20
	// +kubebuilder:validation:XValidation:rule="self >= 5 && self <= 100",message="spec.storage.autoGrow.stepPercent must be from 5 to 100; for example: 20"
	StepPercent int32 `json:"stepPercent,omitempty"`
}

// StorageStatus is what spec.storage.autoGrow has decided.
type StorageStatus struct {
	// Size that each volume should have, if that is more than spec.storage.size.
	Size resource.Quantity `json:"size"`
	// GrownAt is when this size was decided.
	GrownAt metav1.Time `json:"grownAt"`
	// Message says why.
	// +optional
	Message string `json:"message,omitempty"`
}

// InstanceStorage is the state of the volume of an instance. Sizes are rounded to about a percent; metrics have the exact
// bytes.
type InstanceStorage struct {
	// Capacity of the volume, as Kubernetes reports it.
	// +optional
	Capacity *resource.Quantity `json:"capacity,omitempty"`
	// Used space of its filesystem.
	// +optional
	Used *resource.Quantity `json:"used,omitempty"`
	// Percent of the filesystem that is used.
	// +optional
	Percent int32 `json:"percent,omitempty"`
	// State of the filesystem as the agent sees it: AlmostFull; or Full, when a primary accepts no writes. Empty while
	// there is enough space.
	// +optional
	State SpaceState `json:"state,omitempty"`
	// Message says what uses the space, when there is little left.
	// +optional
	Message string `json:"message,omitempty"`
	// StalledSince is since when a small write to the volume has not ended. The instance does not take over, and hands over
	// if it is the primary. Empty while the disk answers.
	// +optional
	StalledSince *metav1.Time `json:"stalledSince,omitempty"`
}

// SpaceState says how full a volume is.
// +kubebuilder:validation:Enum=AlmostFull;Full
type SpaceState string

const (
	// SpaceAlmostFull has little space left.
	SpaceAlmostFull SpaceState = "AlmostFull"
	// SpaceFull has so little that a primary takes no writes.
	SpaceFull SpaceState = "Full"
)
