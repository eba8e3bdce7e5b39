package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Backup is one backup of a PostgresCluster, in the cluster's BackupRepository.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=pgb,categories=howdah
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.cluster.name`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.status.type`
// +kubebuilder:printcolumn:name="Succeeded",type=string,JSONPath=`.status.conditions[?(@.type=="Succeeded")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Succeeded")].reason`
// +kubebuilder:printcolumn:name="Done",type=string,JSONPath=`.status.progress.percent`
// +kubebuilder:printcolumn:name="Size",type=integer,format=int64,JSONPath=`.status.logicalBytes`
// +kubebuilder:printcolumn:name="Stored",type=integer,format=int64,JSONPath=`.status.storedBytes`
// +kubebuilder:printcolumn:name="Verified",type=string,JSONPath=`.status.conditions[?(@.type=="Verified")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 56",message="metadata.name is too long: the Job of the backup is named after it; use at most 56 characters"
type Backup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec BackupSpec `json:"spec"`
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status BackupStatus `json:"status,omitempty"`
}

// BackupList is a list of Backups.
// +kubebuilder:object:root=true
type BackupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Backup `json:"items"`
}

// BackupSpec says what to back up.
// +kubebuilder:validation:XValidation:rule="has(self.requestedBy) == has(oldSelf.requestedBy) && (!has(self.requestedBy) || self.requestedBy == oldSelf.requestedBy)",message="spec.requestedBy can't be changed"
// +kubebuilder:validation:XValidation:rule="has(self.found) == has(oldSelf.found) && (!has(self.found) || self.found == oldSelf.found)",message="spec.found can't be changed: create another Backup"
type BackupSpec struct {
	// Cluster is the PostgresCluster to back up, in the same namespace.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.cluster can't be changed: create another Backup"
	Cluster LocalReference `json:"cluster"`
	// Type says how much is copied. An Incremental copies what has changed since the previous backup, and refers to older
	// backups for the rest. If there is none to build on, it becomes a Full one, and status.type says so.
	// +optional
	// +kubebuilder:default=Full
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.type can't be changed: create another Backup"
	Type BackupType `json:"type,omitempty"`
	// Compression says what matters more. Fast uses the least CPU and the most space, Small the least space. Balanced is
	// nearly as small, with two thirds of Small's CPU.
	// +optional
	// +kubebuilder:default=Balanced
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.compression can't be changed: create another Backup"
	Compression BackupCompression `json:"compression,omitempty"`
	// MaxBytesPerSecond limits what the Job reads from the volume, such as 100Mi, if others share the node. By default,
	// there is no limit. A change applies from the next attempt on.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1Mi')) >= 0",message="spec.maxBytesPerSecond is too little for a backup to finish: use 1Mi or more, or remove it for no limit"
	MaxBytesPerSecond *resource.Quantity `json:"maxBytesPerSecond,omitempty"`
	// Resources of the Job, instead of requests of 100m CPU and 128Mi memory, and a limit of 256Mi memory, which is enough for
	// about 200,000 files. A Job that finds more says how much it needs, and the next attempt gets that, up to 2Gi, unless a memory
	// limit is set here. A memory limit above 256Mi also applies to the Job of a verification. A change applies from the next
	// attempt on.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.limits) || !('memory' in self.limits) || quantity(string(self.limits['memory'])).compareTo(quantity('192Mi')) >= 0",message="spec.resources.limits.memory is too little for the Job: use 192Mi or more, or remove it for 256Mi"
	// +kubebuilder:validation:XValidation:rule="!has(self.limits) || !has(self.requests) || !('cpu' in self.limits) || !('cpu' in self.requests) || quantity(string(self.requests['cpu'])).compareTo(quantity(string(self.limits['cpu']))) <= 0",message="spec.resources requests more cpu than its limit: use a request that is at most the limit"
	// +kubebuilder:validation:XValidation:rule="!has(self.limits) || !has(self.requests) || !('memory' in self.limits) || !('memory' in self.requests) || quantity(string(self.requests['memory'])).compareTo(quantity(string(self.limits['memory']))) <= 0",message="spec.resources requests more memory than its limit: use a request that is at most the limit"
	Resources *Resources `json:"resources,omitempty"`
	// DamagedPages says what happens if pages of the database fail their checksum: with Fail the backup fails, with Report it
	// is taken with the pages as they are, and status.damagedPages lists them. A change applies from the next attempt on.
	// +optional
	// +kubebuilder:default=Fail
	DamagedPages DamagedPagesPolicy `json:"damagedPages,omitempty"`
	// DeletionPolicy says what happens to the data in the repository when the Backup is deleted. The data always stays when
	// the whole namespace is deleted.
	// +optional
	// +kubebuilder:default=Delete
	DeletionPolicy BackupDeletionPolicy `json:"deletionPolicy,omitempty"`
	// Hold keeps the backup: retention skips it, and deleting the Backup waits until hold is false.
	// +optional
	Hold bool `json:"hold,omitempty"`
	// Verify requests that every object of the backup is read and checked against its checksum, once, after the backup has
	// succeeded. The condition Verified reports the result.
	// +optional
	Verify *BackupVerify `json:"verify,omitempty"`
	// Cancel ends a backup that is waiting or running.
	// +optional
	Cancel bool `json:"cancel,omitempty"`
	// Found says that the backup already exists in a repository: nothing is copied, and status describes it. The
	// backup-controller creates such Backups for what it finds in a repository (spec.catalogue there), with deletionPolicy:
	// Retain.
	// +optional
	Found *FoundBackup `json:"found,omitempty"`
	// RequestedBy says which object requested this backup. Written by the backup-controller.
	// +optional
	RequestedBy *Requester `json:"requestedBy,omitempty"`
}

// FoundBackup says where a backup is stored.
type FoundBackup struct {
	// Repository is the name of the BackupRepository.
	// +kubebuilder:validation:MinLength=1
	Repository string `json:"repository"`
	// Lineage in the repository.
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._-]{0,126}$`
	Lineage string `json:"lineage"`
	// ID of the backup in the lineage.
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._-]{0,126}$`
	ID string `json:"id"`
}

// AnnotationExpired is on a Backup that the retention of its repository deletes: its data is deleted with it, whatever
// spec.deletionPolicy says. Its value is the name of the repository.
const AnnotationExpired = "howdah.dev/expired"

// BackupType says how much of a database a backup copies.
// +kubebuilder:validation:Enum=Full;Incremental
type BackupType string

const (
	// BackupFull copies everything.
	BackupFull BackupType = "Full"
	// BackupIncremental copies what changed.
	BackupIncremental BackupType = "Incremental"
)

// BackupCompression is the effort to make a backup small.
// +kubebuilder:validation:Enum=Balanced;Fast;Small
type BackupCompression string

const (
	// BackupBalanced is the default.
	BackupBalanced BackupCompression = "Balanced"
	// BackupFast uses the least CPU.
	BackupFast BackupCompression = "Fast"
	// BackupSmall uses the least space.
	BackupSmall BackupCompression = "Small"
)

// DamagedPagesPolicy says what a backup does about pages that fail their checksum.
// +kubebuilder:validation:Enum=Fail;Report
type DamagedPagesPolicy string

const (
	// DamagedPagesFail makes no backup.
	DamagedPagesFail DamagedPagesPolicy = "Fail"
	// DamagedPagesReport makes one with these pages, and lists them.
	DamagedPagesReport DamagedPagesPolicy = "Report"
)

// BackupDeletionPolicy says what happens to a backup's data when its object is deleted.
// +kubebuilder:validation:Enum=Delete;Retain
type BackupDeletionPolicy string

const (
	// BackupDelete deletes the data with the object.
	BackupDelete BackupDeletionPolicy = "Delete"
	// BackupRetain leaves the data in the repository.
	BackupRetain BackupDeletionPolicy = "Retain"
)

// BackupStatus is the observed state of a backup. Written by the backup-controller; progress by its Job.
type BackupStatus struct {
	// ObservedGeneration is the metadata.generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions: Succeeded, Verified, PagesIntact.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Plan is fixed before the Job starts, so that every repeat does the same.
	// +optional
	Plan *BackupPlan `json:"plan,omitempty"`
	// Progress of the Job.
	// +optional
	Progress *Progress `json:"progress,omitempty"`
	// Type of the backup that was created: an Incremental that found nothing to build on is a Full one.
	// +optional
	Type BackupType `json:"type,omitempty"`
	// Parent is the id of the backup that an Incremental builds on, as in that backup's status.plan.id. The parent may be
	// deleted: its data stays as far as it is still needed.
	// +optional
	Parent string `json:"parent,omitempty"`
	// StartedAt is when the Job was created.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// CompletedAt is when it ended, successfully or not.
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`
	// Version of PostgreSQL that was backed up, such as 17.5.
	// +optional
	Version string `json:"version,omitempty"`
	// StartLSN is where replay begins.
	// +optional
	StartLSN string `json:"startLSN,omitempty"`
	// StopLSN is the first position at which the backup is consistent.
	// +optional
	StopLSN string `json:"stopLSN,omitempty"`
	// StopTime is the earliest time that this backup can be restored to.
	// +optional
	StopTime *metav1.Time `json:"stopTime,omitempty"`
	// LogicalBytes is the size of the files in the backup.
	// +optional
	LogicalBytes int64 `json:"logicalBytes,omitempty"`
	// ChangedBytes is how many of LogicalBytes were copied; the rest is in older backups. For a Full backup it is all of
	// them.
	// +optional
	ChangedBytes int64 `json:"changedBytes,omitempty"`
	// StoredBytes is what this backup added to the repository.
	// +optional
	StoredBytes int64 `json:"storedBytes,omitempty"`
	// DamagedPages are the pages that failed their checksum when the database was read. They are in the backup as they were.
	// +optional
	DamagedPages *DamagedPages `json:"damagedPages,omitempty"`
	// LockedUntil is how long the object lock of the bucket keeps everything that a restore of the backup reads, as far as it was
	// known when the backup was completed or last verified. Empty if the bucket has no object lock or does not say.
	// +optional
	LockedUntil *metav1.Time `json:"lockedUntil,omitempty"`
	// LockEndsFirst is the object whose lock ends first, below the prefix of the repository.
	// +optional
	LockEndsFirst string `json:"lockEndsFirst,omitempty"`
	// VerifiedAt is when all of its objects were last read, whatever the result was.
	// +optional
	VerifiedAt *metav1.Time `json:"verifiedAt,omitempty"`
	// Verification that is under way, or was the last.
	// +optional
	Verification *BackupVerification `json:"verification,omitempty"`
}

// DamagedPages are pages that fail their checksum.
type DamagedPages struct {
	// Count of all of them.
	Count int64 `json:"count"`
	// Pages lists the first of them, at most ten.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Pages []DamagedPage `json:"pages,omitempty"`
}

// DamagedPage is a page that fails its checksum.
type DamagedPage struct {
	// File in the data directory.
	File string `json:"file"`
	// Block of the relation.
	Block int64 `json:"block"`
}

// BackupPlan is what a backup has decided.
type BackupPlan struct {
	// ID of the backup in the repository.
	ID string `json:"id"`
	// Type that is created, unless the Job finds that it can't build on the parent.
	// +optional
	Type BackupType `json:"type,omitempty"`
	// Parent is the id of the backup that an Incremental builds on.
	// +optional
	Parent string `json:"parent,omitempty"`
	// Repository is the name of the BackupRepository.
	Repository string `json:"repository"`
	// Lineage in the repository.
	Lineage string `json:"lineage"`
	// ClusterUID is the UID of the cluster.
	ClusterUID types.UID `json:"clusterUID"`
	// Instance that is read.
	Instance string `json:"instance"`
	// Volume is the claim that is read.
	Volume string `json:"volume"`
	// Node that the instance runs on.
	Node string `json:"node"`
	// Attempt counts the Jobs of this backup, from 1.
	Attempt int32 `json:"attempt"`
	// MemoryBytes is the memory limit of the Job if an earlier attempt said that the usual one is too little for the number of
	// files in the database.
	// +optional
	MemoryBytes int64 `json:"memoryBytes,omitempty"`
}

// Conditions and reasons of a Backup. Written by the backup-controller; read by whoever requested the backup.
const (
	// ConditionSucceeded is on every kind that ends. It is Unknown until then.
	ConditionSucceeded = "Succeeded"

	// ConditionPagesIntact is False if the database had pages that fail their checksum, and the backup has them, too.
	ConditionPagesIntact = "PagesIntact"
	// ReasonDamagedPages: pages fail their checksum.
	ReasonDamagedPages = "DamagedPages"

	// ReasonCompleted: it has ended successfully.
	ReasonCompleted = "Completed"
	// ReasonMemoryTooSmall: the memory limit of the Job is too little for the number of files.
	ReasonMemoryTooSmall = "MemoryTooSmall"
	// ReasonRunning: its Job runs.
	ReasonRunning = "Running"
	// ReasonCancelled: spec.cancel ended it.
	ReasonCancelled = "Cancelled"
	// ReasonClusterNotFound: there is no PostgresCluster of that name.
	ReasonClusterNotFound = "ClusterNotFound"
	// ReasonClusterNotReady: the cluster must be Ready first.
	ReasonClusterNotReady = "ClusterNotReady"
	// ReasonClusterReplaced: the cluster was deleted or created again since.
	ReasonClusterReplaced = "ClusterReplaced"
	// ReasonNoArchive: the cluster has no spec.archive, so there is nowhere to put a backup.
	ReasonNoArchive = "NoArchive"
	// ReasonRepositoryNotFound: there is no BackupRepository of that name.
	ReasonRepositoryNotFound = "RepositoryNotFound"
	// ReasonRepositoryNotReady: the repository can't be used now.
	ReasonRepositoryNotReady = "RepositoryNotReady"
	// ReasonJobFailed: the Job has failed for good.
	ReasonJobFailed = "JobFailed"
	// ReasonQueued: other work comes first.
	ReasonQueued = "Queued"
	// ReasonFound: it was found in a repository.
	ReasonFound = "Found"
	// ReasonDeleting: the data is being deleted.
	ReasonDeleting = "Deleting"
	// ReasonDeletionBlocked: the data can't be deleted now.
	ReasonDeletionBlocked = "DeletionBlocked"
	// ReasonRetained: the bucket does not let the data be deleted yet, because of an object lock or a retention policy.
	ReasonRetained = "Retained"
	// ReasonHeld: it was deleted while spec.hold is true, and stays until that is false.
	ReasonHeld = "Held"
)
