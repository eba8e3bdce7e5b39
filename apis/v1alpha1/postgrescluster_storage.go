package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// StorageSpec describes a volume.
// +kubebuilder:validation:XValidation:rule="has(self.move) || (has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName))",message="spec.storage.storageClassName can be changed only together with spec.storage.move, which moves the instances to new volumes: set move: {}, and status.storageMove shows the plan before anything happens"
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) || !has(oldSelf.storageClassName)",message="spec.storage.storageClassName can't be removed: name the class that the volumes are to have, such as standard"
// +kubebuilder:validation:XValidation:rule="has(self.move) || quantity(self.size).compareTo(quantity(oldSelf.size)) >= 0",message="spec.storage.size can be reduced only together with spec.storage.move, because volumes can't shrink: use the previous size or a larger one, or set move: {}, and status.storageMove shows the plan for a move to smaller volumes before anything happens"
// +kubebuilder:validation:XValidation:rule="!has(self.autoGrow) || quantity(self.autoGrow.limit).compareTo(quantity(self.size)) >= 0",message="spec.storage.autoGrow.limit must be at least spec.storage.size, from which the volume grows; for example: size: 10Gi, autoGrow: {limit: 50Gi}"
// +kubebuilder:validation:XValidation:rule="has(self.wal) == has(oldSelf.wal)",message="spec.storage.wal can't be added to a cluster that exists, or removed from one: create another PostgresCluster with or without it, and restore a backup into that, or set spec.bootstrap.clone there"
// +kubebuilder:validation:XValidation:rule="!has(self.wal) || !has(self.move)",message="spec.storage.move can't be combined with spec.storage.wal yet, because instances with a WAL volume can't be moved: remove move, and restore a backup into another PostgresCluster for other volumes"
type StorageSpec struct {
	// Size of the volume, such as 10Gi. It may be increased, without a restart, if the StorageClass allows that. A volume
	// never shrinks; move replaces it by a smaller one.
	// +kubebuilder:validation:XValidation:rule="quantity(self).compareTo(quantity('256Mi')) >= 0",message="spec.storage.size must be at least 256Mi: an empty PostgreSQL with its WAL needs that much; for example: 10Gi"
	Size resource.Quantity `json:"size"`
	// StorageClassName of the volume. By default, the default class of the Kubernetes cluster. It can be changed together with move.
	// +optional
	// +kubebuilder:validation:MinLength=1
	StorageClassName *string `json:"storageClassName,omitempty"`
	// AutoGrow lets volumes grow automatically when they fill. The resulting size is in status.storage.size. By
	// default, volumes grow only with size.
	// +optional
	AutoGrow *AutoGrow `json:"autoGrow,omitempty"`
	// Move moves instances whose volumes are larger than size, or of another StorageClass, to new volumes, one after
	// the other. The plan is in status.storageMove, and nothing happens until plan here names it. It takes at least two
	// instances.
	// +optional
	Move *StorageMove `json:"move,omitempty"`
	// WAL puts the WAL of each instance on a volume of its own, so that it neither takes space from the data nor waits for the same disk. By default, WAL is
	// on the volume with the data. It can be set when the cluster is created only.
	// +optional
	WAL *WALStorage `json:"wal,omitempty"`
}

// WALStorage describes the volume for the WAL of an instance.
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",message="spec.storage.wal.storageClassName can't be changed: use the previous class, or restore a backup into another PostgresCluster with another one"
// +kubebuilder:validation:XValidation:rule="quantity(self.size).compareTo(quantity(oldSelf.size)) >= 0",message="spec.storage.wal.size can't be reduced, because volumes can't shrink: use the previous size or a larger one"
// +kubebuilder:validation:XValidation:rule="!has(self.autoGrow) || quantity(self.autoGrow.limit).compareTo(quantity(self.size)) >= 0",message="spec.storage.wal.autoGrow.limit must be at least spec.storage.wal.size, from which the volume grows; for example: size: 4Gi, autoGrow: {limit: 20Gi}"
type WALStorage struct {
	// Size of the volume, such as 4Gi. It may be increased, without a restart, if the StorageClass allows that. While WAL can't be archived, or a replica
	// needs it, this is what there is room for; when it is full, clients may only read.
	// +kubebuilder:validation:XValidation:rule="quantity(self).compareTo(quantity('256Mi')) >= 0",message="spec.storage.wal.size must be at least 256Mi, which the WAL of an idle PostgreSQL and the reserve for recovery need; for example: 4Gi"
	Size resource.Quantity `json:"size"`
	// StorageClassName of the volume. By default, the default class of the Kubernetes cluster. It can't be changed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	StorageClassName *string `json:"storageClassName,omitempty"`
	// AutoGrow lets WAL volumes grow automatically when they fill. The size that was decided is in status.walStorage.size. By
	// default, they grow only with size.
	// +optional
	AutoGrow *AutoGrow `json:"autoGrow,omitempty"`
}

// StorageMove is a person's consent to a move to new volumes.
type StorageMove struct {
	// Plan that is approved: status.storageMove.plan. While it is empty, or names another plan, no further instance is moved.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Plan string `json:"plan,omitempty"`
	// AllowFewerReplicas lets a replica be moved although no other one streams, as in a cluster of two instances: until its new copy
	// follows, the primary's volume is the only copy of the data.
	// +optional
	AllowFewerReplicas bool `json:"allowFewerReplicas,omitempty"`
}

// StorageMoveStatus is a move of the instances to new volumes.
type StorageMoveStatus struct {
	// Plan identifies the move. spec.storage.move.plan approves it by this.
	Plan string `json:"plan"`
	// State of the move.
	State StorageMoveState `json:"state"`
	// From describes the present volumes, and To the new ones.
	From VolumeShape `json:"from"`
	To   VolumeShape `json:"to"`
	// Used is how much of its volume the primary used when the plan was last computed, and Needed how large a new volume must be at least.
	// +optional
	Used *resource.Quantity `json:"used,omitempty"`
	// +optional
	Needed *resource.Quantity `json:"needed,omitempty"`
	// Instances of the cluster, and which of them have a volume as in To.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=9
	Instances []StorageMoveInstance `json:"instances,omitempty"`
	// Current is the instance that is being moved.
	// +optional
	Current *CurrentStorageMove `json:"current,omitempty"`
	// Message says what happens, what is waited for, or why the move can't begin.
	// +optional
	Message string `json:"message,omitempty"`
	// StartedAt is when the first instance could be moved, CompletedAt when the last one was.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`
}

// VolumeShape is the size and the StorageClass of a volume.
type VolumeShape struct {
	// Size of the volume.
	Size resource.Quantity `json:"size"`
	// StorageClassName of the volume; empty: the default class.
	// +optional
	StorageClassName string `json:"storageClassName,omitempty"`
}

// StorageMoveInstance is the state of one instance.
type StorageMoveInstance struct {
	// Name of the instance.
	Name string `json:"name"`
	// State of the instance.
	State InstanceMoveState `json:"state"`
}

// CurrentStorageMove is the instance that is being moved.
type CurrentStorageMove struct {
	// Instance that is being moved.
	Instance string `json:"instance"`
	// VolumeUID of the PersistentVolumeClaim that it leaves.
	VolumeUID types.UID `json:"volumeUID"`
	// State of the instance: Leaving or Cloning.
	State InstanceMoveState `json:"state"`
}

// StorageMoveState is the state of a move.
// +kubebuilder:validation:Enum=Planned;Moving;Completed
type StorageMoveState string

const (
	// StorageMovePlanned means that nothing has been done: the plan can't be carried out as things are, or waits for approval.
	StorageMovePlanned StorageMoveState = "Planned"
	// StorageMoveMoving means that it was approved, and some instances still have their previous volumes.
	StorageMoveMoving StorageMoveState = "Moving"
	// StorageMoveCompleted means that all instances have new volumes.
	StorageMoveCompleted StorageMoveState = "Completed"
)

// InstanceMoveState is what has become of one instance in a move.
// +kubebuilder:validation:Enum=Pending;Leaving;Cloning;Moved
type InstanceMoveState string

const (
	// InstanceMovePending means that the instance has its previous volume.
	InstanceMovePending InstanceMoveState = "Pending"
	// InstanceMoveLeaving means that its PostgreSQL is stopped; its previous volume is deleted once the primary no longer counts on it.
	InstanceMoveLeaving InstanceMoveState = "Leaving"
	// InstanceMoveCloning means that it is copied from the primary to its new volume.
	InstanceMoveCloning InstanceMoveState = "Cloning"
	// InstanceMoveMoved means that it has its new volume.
	InstanceMoveMoved InstanceMoveState = "Moved"
)

// Leaving is the instance whose PostgreSQL is stopped because it is about to leave its volume; empty: none.
func (m *StorageMoveStatus) Leaving() string {
	if m == nil || m.Current == nil || m.Current.State != InstanceMoveLeaving {
		return ""
	}
	return m.Current.Instance
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

// StorageStatus is what spec.storage.autoGrow, or that of spec.storage.wal, has decided.
type StorageStatus struct {
	// Size that each volume should have, if that is more than the spec requests.
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
	// StalledSince is when a small write to the volume began that has not ended. The instance does not take over, and
	// hands over if it is the primary. Empty while the disk answers.
	// +optional
	StalledSince *metav1.Time `json:"stalledSince,omitempty"`
	// WAL is the state of the WAL volume; empty without spec.storage.wal.
	// +optional
	WAL *WALVolume `json:"wal,omitempty"`
}

// WALVolume is the state of the WAL volume of an instance.
type WALVolume struct {
	// Name of the PersistentVolumeClaim.
	Name string `json:"name"`
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
