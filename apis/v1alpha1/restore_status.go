package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// RestoreStatus is the observed state of a restore. Written by the restore-controller; progress by its Job.
type RestoreStatus struct {
	// ObservedGeneration is the metadata.generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions: Succeeded, Restored (for a restore in place).
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Plan is fixed before anything is created or touched.
	// +optional
	Plan *RestorePlan `json:"plan,omitempty"`
	// Cluster is the PostgresCluster that was created, that is restored in place, or that tables are restored into.
	// +optional
	Cluster *CreatedCluster `json:"cluster,omitempty"`
	// VolumeLockStatus says how far the work on the volumes of the cluster is.
	VolumeLockStatus `json:",inline"`
	// BackupRequest requests the safety backup, or the first backup of the new lineage, from the backup-controller.
	// +optional
	BackupRequest *BackupRequest `json:"backupRequest,omitempty"`
	// SafetyBackup is the Backup that was taken before anything was touched.
	// +optional
	SafetyBackup string `json:"safetyBackup,omitempty"`
	// Progress of the Job.
	// +optional
	Progress *Progress `json:"progress,omitempty"`
	// IntoCluster says how far a restore into a running cluster is.
	// +optional
	IntoCluster *IntoClusterStatus `json:"intoCluster,omitempty"`
	// Reached says where recovery ended.
	// +optional
	Reached *ReachedPoint `json:"reached,omitempty"`
	// StartedAt is when the plan was made.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// DisabledSubscriptions are the logical subscriptions that were enabled in the restored data and were disabled, as
	// database.subscription. If they were enabled again, they would skip silently what their slots at the publishers have passed.
	// +optional
	// +listType=atomic
	DisabledSubscriptions []string `json:"disabledSubscriptions,omitempty"`
	// DroppedSettings are the parameters that were removed from the restored postgresql.auto.conf, because they load code or
	// run a command and the repository is not encrypted. ALTER SYSTEM sets them again.
	// +optional
	// +listType=atomic
	DroppedSettings []string `json:"droppedSettings,omitempty"`
	// RestoredAt is when the cluster accepted connections on the restored data, for a restore in place.
	// +optional
	RestoredAt *metav1.Time `json:"restoredAt,omitempty"`
	// Decided is the decision about a restore in place. Once it is here, it is carried out.
	// +optional
	Decided *DecidedRestore `json:"decided,omitempty"`
	// CompletedAt is when it ended, successfully or not.
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`
}

// DecidedRestore is a decision that was made.
type DecidedRestore struct {
	// Decision that is carried out.
	Decision RestoreDecision `json:"decision"`
	// Why says who or what decided.
	Why string `json:"why"`
	// At is when it was decided.
	At metav1.Time `json:"at"`
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
	// LastWAL is the last segment in the archive when the plan was made.
	LastWAL string `json:"lastWAL"`
	// MajorVersion of the data.
	MajorVersion int32 `json:"majorVersion"`
	// Image that runs it.
	Image string `json:"image"`
	// SystemIdentifier of the data.
	SystemIdentifier string `json:"systemIdentifier"`
	// FetchBytes is how much of the backup to read from the repository.
	FetchBytes int64 `json:"fetchBytes"`
	// WriteBytes is how much of the backup to write to the volume.
	WriteBytes int64 `json:"writeBytes"`
	// WALSegments is the number of segments to replay, at most.
	WALSegments int64 `json:"walSegments"`
	// WALBytes of these segments, before compression.
	// +optional
	WALBytes int64 `json:"walBytes,omitempty"`
	// NeedsBytes is the free space that the volume must have, at least.
	// +optional
	NeedsBytes int64 `json:"needsBytes,omitempty"`
	// FreeBytes on the volume when the plan was made, for a restore in place, if that was known.
	// +optional
	FreeBytes int64 `json:"freeBytes,omitempty"`
	// DiscardsPrevious says that the previous data is discarded and changed in place, as discardPrevious requests.
	// +optional
	DiscardsPrevious bool `json:"discardsPrevious,omitempty"`
	// ArchiveEnds is the latest point that could be reached.
	// +optional
	ArchiveEnds *ReachedPoint `json:"archiveEnds,omitempty"`
	// ExpectedSeconds of fetching and replaying, at the rate of the last Restore in the namespace. Empty if there was none.
	// +optional
	ExpectedSeconds int64 `json:"expectedSeconds,omitempty"`
	// Target in words.
	Target string `json:"target"`
	// StopAt is where replay stops. If empty, at the end of lastWAL.
	// +optional
	StopAt *RestoreTarget `json:"stopAt,omitempty"`
	// DataGeneration that the restore writes.
	DataGeneration string `json:"dataGeneration"`
	// ArchivesTo is the BackupRepository that the new cluster archives to. Empty if it archives nowhere, or the restore is
	// in place.
	// +optional
	ArchivesTo string `json:"archivesTo,omitempty"`
	// Secrets with logins that the backup has for the new cluster. Existing Secrets of declared roles are not changed.
	// +optional
	// +listType=atomic
	Secrets []string `json:"secrets,omitempty"`
	// DamagedPages is how many pages of the backup failed their checksum already in the database that was backed up. The
	// restored database has them, too, unless replayed WAL replaces them.
	// +optional
	DamagedPages int64 `json:"damagedPages,omitempty"`
	// Damaged lists the first of them, at most ten.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Damaged []DamagedPage `json:"damaged,omitempty"`
	// Dropped are the fields of the recorded PostgresCluster that are not taken from a repository that is neither encrypted nor
	// signed: what loads code, names a Secret or chooses nodes. They can be set in the new PostgresCluster; the image and the
	// parameters also in spec.destination.newCluster. The entry secrets stands for all Secrets that the backup has.
	// +optional
	// +listType=atomic
	Dropped []string `json:"dropped,omitempty"`
	// Accepted are the fields that are taken from such a repository because acceptRecorded of spec.destination.newCluster names
	// them, with their values.
	// +optional
	// +listType=atomic
	Accepted []AcceptedField `json:"accepted,omitempty"`
	// RecordedBy is the PostgresCluster that the backup says it is of, where fields are dropped or accepted. Without encryption and
	// signatures, anybody who can write to the bucket could have written that.
	// +optional
	RecordedBy *RecordedCluster `json:"recordedBy,omitempty"`
}

// CreatedCluster identifies a PostgresCluster by name and UID.
type CreatedCluster struct {
	// Name of the PostgresCluster.
	Name string `json:"name"`
	// UID of the PostgresCluster.
	UID types.UID `json:"uid"`
}

// ReachedPoint is where a recovery ended.
type ReachedPoint struct {
	// LSN at the end of replay.
	LSN string `json:"lsn"`
	// LastCommit is the time of the last commit that was replayed.
	// +optional
	LastCommit *metav1.MicroTime `json:"lastCommit,omitempty"`
	// Timeline that the restored data is on.
	Timeline int64 `json:"timeline"`
	// FetchSeconds is how long fetching the backup took.
	// +optional
	FetchSeconds int64 `json:"fetchSeconds,omitempty"`
	// ReplaySeconds is how long replaying WAL took.
	// +optional
	ReplaySeconds int64 `json:"replaySeconds,omitempty"`
	// TakenBytes of the backup were not fetched, because the previous data still had them.
	// +optional
	TakenBytes int64 `json:"takenBytes,omitempty"`
}

// ConditionRestored says whether the cluster of a restore in place runs on the restored data. Written by the
// restore-controller.
const ConditionRestored = "Restored"

// Reasons of a Restore's Succeeded condition that are its own. Written by the restore-controller.
const (
	// ReasonBackupNotFound: there is no such Backup, or it has not succeeded.
	ReasonBackupNotFound = "BackupNotFound"
	// ReasonTargetUnreachable: the archive does not reach the target; the message says what can be reached.
	ReasonTargetUnreachable = "TargetUnreachable"
	// ReasonNameTaken: the new cluster's name is taken.
	ReasonNameTaken = "NameTaken"
	// ReasonAwaitingNames: objects of a former cluster with the name of the new one are not deleted yet.
	ReasonAwaitingNames = "AwaitingNames"
	// ReasonPlanning: the repository is being read for the plan.
	ReasonPlanning = "Planning"
	// ReasonAwaitingWAL: the WAL up to the target is not archived yet.
	ReasonAwaitingWAL = "AwaitingWAL"
	// ReasonPlanned: the plan is made.
	ReasonPlanned = "Planned"
	// ReasonAwaitingBackup: the requested backup does not exist yet.
	ReasonAwaitingBackup = "AwaitingBackup"
	// ReasonInvalidSpec: the spec can't be acted on.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonAnotherDatabase: the backup is of another database, or major version, than the cluster to restore in place.
	ReasonAnotherDatabase = "AnotherDatabase"
	// ReasonNoSpace: the volume has no space for the restored data, in place beside the previous data.
	ReasonNoSpace = "NoSpace"
	// ReasonPreviousDataDiscarded: the restore failed after the previous data was discarded.
	ReasonPreviousDataDiscarded = "PreviousDataDiscarded"
	// ReasonPreviousDataNotArchived: the previous data was to be discarded, and is kept, because some of its WAL is neither archived
	// nor could be.
	ReasonPreviousDataNotArchived = "PreviousDataNotArchived"
	// ReasonUncleanShutdown: the previous data was to be discarded, and is kept, because PostgreSQL was not shut down cleanly.
	ReasonUncleanShutdown = "UncleanShutdown"
	// ReasonUndoing: the previous data is being brought back.
	ReasonUndoing = "Undoing"
	// ReasonUndone: the cluster runs on its previous data.
	ReasonUndone = "Undone"
	// ReasonDataCorrupt: an object in the repository is not what was written.
	ReasonDataCorrupt = "DataCorrupt"
)
