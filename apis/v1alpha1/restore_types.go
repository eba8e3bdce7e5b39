package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Restore brings a cluster back to a point in time, into a new PostgresCluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=pgr,categories=howdah
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.destination.newCluster.name`
// +kubebuilder:printcolumn:name="Succeeded",type=string,JSONPath=`.status.conditions[?(@.type=="Succeeded")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Succeeded")].reason`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.progress.phase`
// +kubebuilder:printcolumn:name="Done",type=string,JSONPath=`.status.progress.percent`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 52",message="metadata.name is too long: the Job of the restore is named after it; use at most 52 characters"
type Restore struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec RestoreSpec `json:"spec"`
	// +optional
	Status RestoreStatus `json:"status,omitempty"`
}

// RestoreList is a list of Restores.
// +kubebuilder:object:root=true
type RestoreList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Restore `json:"items"`
}

// RestoreSpec says from where, to which point, into what.
// +kubebuilder:validation:XValidation:rule="self.source == oldSelf.source && self.destination == oldSelf.destination && has(self.target) == has(oldSelf.target) && (!has(self.target) || self.target == oldSelf.target)",message="spec.source, spec.target and spec.destination can't be changed: make another Restore"
type RestoreSpec struct {
	// Source of the data.
	Source RestoreSource `json:"source"`
	// Target is the point to restore to. Left out: the end of the archive.
	// +optional
	Target *RestoreTarget `json:"target,omitempty"`
	// Destination of the data.
	Destination RestoreDestination `json:"destination"`
	// Cancel ends a restore that has not succeeded; the unfinished cluster is deleted.
	// +optional
	Cancel bool `json:"cancel,omitempty"`
	// TTLSecondsAfterFinished deletes the Restore (not the cluster) that long after it ended. Left out: never.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// RestoreSource is where the data comes from.
// +kubebuilder:validation:XValidation:rule="has(self.backup) != has(self.cluster)",message="spec.source takes exactly one of backup and cluster"
type RestoreSource struct {
	// Backup is the Backup to begin with, in the same namespace; WAL is replayed from there to the target.
	// +optional
	Backup *LocalReference `json:"backup,omitempty"`
	// Cluster is the cluster whose archive to use; the right backup is chosen for the target.
	// +optional
	Cluster *ClusterSource `json:"cluster,omitempty"`
}

// ClusterSource is the archive of a cluster, which may be gone.
type ClusterSource struct {
	// Name of the PostgresCluster.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// Repository is the BackupRepository with its archive. Left out: that of the PostgresCluster, which must exist then.
	// +optional
	Repository *LocalReference `json:"repository,omitempty"`
}

// RestoreTarget is a point in the history of a cluster.
// +kubebuilder:validation:XValidation:rule="[has(self.time), has(self.lsn), has(self.restorePoint)].filter(x, x).size() == 1",message="spec.target takes exactly one of time, lsn and restorePoint; leave spec.target out to restore to the end of the archive"
type RestoreTarget struct {
	// Time with its zone, such as 2026-03-01T12:03:10Z, to the microsecond: everything committed until then.
	// +optional
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})$')",message="spec.target.time must be a time with its zone, such as 2026-03-01T12:03:10Z or 2026-03-01T13:03:10.25+01:00"
	Time string `json:"time,omitempty"`
	// LSN such as 16/B374D848, as pg_current_wal_lsn gives it: everything before this position.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}$')",message="spec.target.lsn must be a WAL position as PostgreSQL prints it, such as 16/B374D848"
	LSN string `json:"lsn,omitempty"`
	// RestorePoint is a name given to pg_create_restore_point: everything until then.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	RestorePoint string `json:"restorePoint,omitempty"`
}

// RestoreDestination is where the data goes.
type RestoreDestination struct {
	// NewCluster is made by the Restore.
	NewCluster NewCluster `json:"newCluster"`
}

// NewCluster describes the PostgresCluster to make. What is left out is as it was in the cluster that was backed up.
type NewCluster struct {
	// Name of the PostgresCluster to make; it must not exist.
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="spec.destination.newCluster.name must be a DNS label that begins with a letter (a-z, 0-9 and '-'), such as shop-before"
	Name string `json:"name"`
	// Storage of the new cluster.
	// +optional
	Storage *NewStorage `json:"storage,omitempty"`
	// Resources of the new cluster.
	// +optional
	Resources *Resources `json:"resources,omitempty"`
	// Parameters that replace or add to those of the cluster that was backed up.
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	Parameters map[string]ParameterValue `json:"parameters,omitempty"`
}

// NewStorage overrides the storage.
type NewStorage struct {
	// Size of the volume.
	// +optional
	// +kubebuilder:validation:Pattern=`^[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?$`
	Size string `json:"size,omitempty"`
	// StorageClassName of the volume.
	// +optional
	StorageClassName *string `json:"storageClassName,omitempty"`
}

// RestoreStatus says how the restore goes. Written by the restore-controller; progress by its Job.
type RestoreStatus struct {
	// ObservedGeneration is the metadata.generation that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions: Succeeded.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Plan is fixed before anything is made.
	// +optional
	Plan *RestorePlan `json:"plan,omitempty"`
	// Cluster is the PostgresCluster that was made.
	// +optional
	Cluster *MadeCluster `json:"cluster,omitempty"`
	// Hold asks the db-controller for the volume.
	// +optional
	Hold *HoldRequest `json:"hold,omitempty"`
	// Handover offers the restored data.
	// +optional
	Handover *Handover `json:"handover,omitempty"`
	// BackupWanted asks the backup-controller for the first backup of the new lineage.
	// +optional
	BackupWanted *BackupRequest `json:"backupWanted,omitempty"`
	// Progress of the Job.
	// +optional
	Progress *Progress `json:"progress,omitempty"`
	// Reached says where recovery ended.
	// +optional
	Reached *ReachedPoint `json:"reached,omitempty"`
	// Failure is why the restore is given up, from the moment that it is.
	// +optional
	Failure *RestoreFailure `json:"failure,omitempty"`
	// StartedAt is when the plan was made.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// CompletedAt is when it ended, well or not.
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`
}

// RestorePlan is what a restore has decided.
type RestorePlan struct {
	// Repository is the name of the BackupRepository.
	Repository string `json:"repository"`
	// Lineage in the repository.
	Lineage string `json:"lineage"`
	// BackupID in the repository.
	BackupID string `json:"backupID"`
	// Timeline that recovery follows.
	Timeline int64 `json:"timeline"`
	// FirstWAL is the first segment that is needed.
	FirstWAL string `json:"firstWAL"`
	// LastWAL is the last segment in the archive as it was planned.
	LastWAL string `json:"lastWAL"`
	// MajorVersion of the data.
	MajorVersion int32 `json:"majorVersion"`
	// Image that runs it.
	Image string `json:"image"`
	// SystemIdentifier of the data.
	SystemIdentifier string `json:"systemIdentifier"`
	// FetchBytes to read from the repository for the backup.
	FetchBytes int64 `json:"fetchBytes"`
	// WriteBytes to write to the volume for the backup.
	WriteBytes int64 `json:"writeBytes"`
	// WALSegments to replay, at most.
	WALSegments int64 `json:"walSegments"`
	// Target in words.
	Target string `json:"target"`
	// StopAt is where replay stops. Left out: at the end of lastWAL.
	// +optional
	StopAt *RestoreTarget `json:"stopAt,omitempty"`
	// DataGeneration that the restore writes.
	DataGeneration string `json:"dataGeneration"`
}

// MadeCluster names a PostgresCluster and its very instance.
type MadeCluster struct {
	// Name of the PostgresCluster.
	Name string `json:"name"`
	// UID of the PostgresCluster.
	UID types.UID `json:"uid"`
}

// ReachedPoint is where a recovery ended.
type ReachedPoint struct {
	// LSN of the end of replay.
	LSN string `json:"lsn"`
	// LastCommit that was replayed.
	// +optional
	LastCommit *metav1.MicroTime `json:"lastCommit,omitempty"`
	// Timeline that the restored data is on.
	Timeline int64 `json:"timeline"`
}

// RestoreFailure is why a restore is given up.
type RestoreFailure struct {
	// Reason of the condition that it will end with.
	Reason string `json:"reason"`
	// Message for a person.
	Message string `json:"message"`
}

// Reasons of a Restore's Succeeded condition that are its own. Written by the restore-controller.
const (
	// ReasonBackupNotFound: there is no such Backup, or it has not succeeded.
	ReasonBackupNotFound = "BackupNotFound"
	// ReasonTargetUnreachable: the archive doesn't lead there; the message says what can be reached.
	ReasonTargetUnreachable = "TargetUnreachable"
	// ReasonNameTaken: the new cluster's name is taken.
	ReasonNameTaken = "NameTaken"
	// ReasonPlanning: the repository is being read for the plan.
	ReasonPlanning = "Planning"
	// ReasonAwaitingWAL: the WAL up to the target is not archived yet.
	ReasonAwaitingWAL = "AwaitingWAL"
	// ReasonPlanned: the plan is made.
	ReasonPlanned = "Planned"
	// ReasonAwaitingHold: the volume is not granted yet.
	ReasonAwaitingHold = "AwaitingHold"
	// ReasonHoldRefused: the db-controller refuses the volume.
	ReasonHoldRefused = "HoldRefused"
	// ReasonAwaitingAdoption: the cluster has not started on the new data yet.
	ReasonAwaitingAdoption = "AwaitingAdoption"
	// ReasonAwaitingBackup: the backup asked for is not there yet.
	ReasonAwaitingBackup = "AwaitingBackup"
	// ReasonInvalidSpec: the spec can't be acted on.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonDataCorrupt: an object in the repository is not what was written.
	ReasonDataCorrupt = "DataCorrupt"
)
