package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StorageSpec describes a volume.
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",message="spec.storage.storageClassName can't be changed: restore a backup into a new PostgresCluster with the other class"
// +kubebuilder:validation:XValidation:rule="!has(self.autoGrow) || quantity(self.autoGrow.limit).compareTo(quantity(self.size)) >= 0",message="spec.storage.autoGrow.limit must be at least spec.storage.size, from where the volume grows; for example: size: 10Gi, autoGrow: {limit: 50Gi}"
type StorageSpec struct {
	// Size of the volume, such as 10Gi. It may grow, without a restart, where the StorageClass allows that; a volume
	// never shrinks.
	// +kubebuilder:validation:XValidation:rule="quantity(self).compareTo(quantity('256Mi')) >= 0",message="spec.storage.size must be at least 256Mi: an empty PostgreSQL with its WAL needs that much; for example: 10Gi"
	// +kubebuilder:validation:XValidation:rule="quantity(self).compareTo(quantity(oldSelf)) >= 0",message="spec.storage.size can't become less, for no volume can shrink: write the size of before or a larger one; for a smaller one restore a backup into a new PostgresCluster"
	Size resource.Quantity `json:"size"`
	// StorageClassName of the volume. Left out: the default class.
	// +optional
	// +kubebuilder:validation:MinLength=1
	StorageClassName *string `json:"storageClassName,omitempty"`
	// AutoGrow lets volumes grow by themselves when they fill. How large they are to be is then in status.storage.size.
	// Left out: they grow only with size.
	// +optional
	AutoGrow *AutoGrow `json:"autoGrow,omitempty"`
}

// AutoGrow says when volumes grow by themselves, and how far.
type AutoGrow struct {
	// Limit that they never grow beyond, such as 100Gi.
	Limit resource.Quantity `json:"limit"`
	// AtPercent of use of any instance's volume all of them grow.
	// +optional
	// +kubebuilder:default=80
	// +kubebuilder:validation:XValidation:rule="self >= 50 && self <= 95",message="spec.storage.autoGrow.atPercent must be from 50 to 95: with less a volume would always grow, with more it may be full before it has grown; for example: 80"
	AtPercent int32 `json:"atPercent,omitempty"`
	// StepPercent of its size a volume grows by each time.
	// +optional
	// +kubebuilder:default=20
	// +kubebuilder:validation:XValidation:rule="self >= 5 && self <= 100",message="spec.storage.autoGrow.stepPercent must be from 5 to 100; for example: 20"
	StepPercent int32 `json:"stepPercent,omitempty"`
}

// StorageStatus is what was decided by spec.storage.autoGrow.
type StorageStatus struct {
	// Size that each volume is to have, where that is more than spec.storage.size.
	Size resource.Quantity `json:"size"`
	// GrownAt is when this size was decided.
	GrownAt metav1.Time `json:"grownAt"`
	// Message says why.
	// +optional
	Message string `json:"message,omitempty"`
}

// InstanceStorage is what is known of the volume of an instance. Sizes are rounded to about a percent; metrics have
// them by the byte.
type InstanceStorage struct {
	// Capacity of the volume, as Kubernetes says.
	// +optional
	Capacity *resource.Quantity `json:"capacity,omitempty"`
	// Used of its file system.
	// +optional
	Used *resource.Quantity `json:"used,omitempty"`
	// Percent of the file system that is used.
	// +optional
	Percent int32 `json:"percent,omitempty"`
	// State of the file system as the agent sees it: AlmostFull, or Full, when a primary takes no writes. Left out:
	// there is space.
	// +optional
	State SpaceState `json:"state,omitempty"`
	// Message says what takes the space, when there is little.
	// +optional
	Message string `json:"message,omitempty"`
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
