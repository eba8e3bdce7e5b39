package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// RestoreStatus says how the restore goes. Written by the restore-controller; progress by its Job.
type RestoreStatus struct {
	// ObservedGeneration is the metadata.generation that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions: Succeeded, Restored (of a restore in place).
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Plan is fixed before anything is made or touched.
	// +optional
	Plan *RestorePlan `json:"plan,omitempty"`
	// Cluster is the PostgresCluster that was made, or that is restored in place.
	// +optional
	Cluster *CreatedCluster `json:"cluster,omitempty"`
	// VolumeLockRequest requests the volumes of the cluster from the db-controller.
	// +optional
	VolumeLockRequest *VolumeLockRequest `json:"volumeLockRequest,omitempty"`
	// Handover offers the restored data.
	// +optional
	Handover *Handover `json:"handover,omitempty"`
	// Release asks the db-controller to have a data generation removed from the volumes.
	// +optional
	Release *ReleaseRequest `json:"release,omitempty"`
	// BackupRequest requests from the backup-controller the safety backup, or the first backup of the new lineage.
	// +optional
	BackupRequest *BackupRequest `json:"backupRequest,omitempty"`
	// SafetyBackup is the Backup that was taken before anything was touched.
	// +optional
	SafetyBackup string `json:"safetyBackup,omitempty"`
	// Previous is the data that the cluster ran on before the restore in place, and runs on again when that is undone.
	// +optional
	Previous *PreviousData `json:"previous,omitempty"`
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
	// DisabledSubscriptions are the logical subscriptions that were enabled in the restored data, as database.subscription.
	// +optional
	// +listType=atomic
	DisabledSubscriptions []string `json:"disabledSubscriptions,omitempty"`
	// DownAt is when the db-controller was asked to stop the cluster.
	// +optional
	DownAt *metav1.Time `json:"downAt,omitempty"`
	// HandedOverAt is when the restored data was offered to the cluster.
	// +optional
	HandedOverAt *metav1.Time `json:"handedOverAt,omitempty"`
	// RestoredAt is when the cluster took connections on the restored data, restored in place.
	// +optional
	RestoredAt *metav1.Time `json:"restoredAt,omitempty"`
	// ConfirmBy is until when a restore in place can be undone; then it is confirmed.
	// +optional
	ConfirmBy *metav1.Time `json:"confirmBy,omitempty"`
	// Decided is what becomes of a restore in place. Once it is here it is carried out.
	// +optional
	Decided *DecidedRestore `json:"decided,omitempty"`
	// UndoneAt is when the cluster took connections on the data of before again.
	// +optional
	UndoneAt *metav1.Time `json:"undoneAt,omitempty"`
	// CompletedAt is when it ended, well or not.
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`
}

// DataBefore is a data generation to go back to.
type PreviousData struct {
	// DataGeneration that the cluster ran on.
	DataGeneration string `json:"dataGeneration"`
	// Instance whose volume has every commit of it.
	Instance string `json:"instance"`
	// SystemIdentifier of it.
	SystemIdentifier string `json:"systemIdentifier"`
	// MajorVersion of it.
	MajorVersion int32 `json:"majorVersion"`
	// Image that ran it.
	Image string `json:"image"`
}

// DecidedRestore is a decision that was taken.
type DecidedRestore struct {
	// Decision that is carried out.
	Decision RestoreDecision `json:"decision"`
	// Why says who or what decided.
	Why string `json:"why"`
	// At is when that was.
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
	// WALBytes of these segments, before compression.
	// +optional
	WALBytes int64 `json:"walBytes,omitempty"`
	// NeedsBytes of free space on the volume, at least.
	// +optional
	NeedsBytes int64 `json:"needsBytes,omitempty"`
	// FreeBytes on the volume when the plan was made, of a restore in place, where that was known.
	// +optional
	FreeBytes int64 `json:"freeBytes,omitempty"`
	// DiscardsPrevious says that the data of before is given up, as discardPrevious asks, and changed where it is.
	// +optional
	DiscardsPrevious bool `json:"discardsPrevious,omitempty"`
	// ArchiveEnds is the latest point that could be reached.
	// +optional
	ArchiveEnds *ReachedPoint `json:"archiveEnds,omitempty"`
	// ExpectedSeconds of fetching and replaying, by the rate of the last Restore in the namespace. Left out: there was none.
	// +optional
	ExpectedSeconds int64 `json:"expectedSeconds,omitempty"`
	// Target in words.
	Target string `json:"target"`
	// StopAt is where replay stops. Left out: at the end of lastWAL.
	// +optional
	StopAt *RestoreTarget `json:"stopAt,omitempty"`
	// DataGeneration that the restore writes.
	DataGeneration string `json:"dataGeneration"`
	// ArchivesTo is the BackupRepository that the new cluster archives to. Left out: none, or the restore is in place.
	// +optional
	ArchivesTo string `json:"archivesTo,omitempty"`
	// Secrets with logins that the backup has for the new cluster. Those of declared roles stay as they are where they are
	// there.
	// +optional
	// +listType=atomic
	Secrets []string `json:"secrets,omitempty"`
}

// MadeCluster names a PostgresCluster and its very instance.
type CreatedCluster struct {
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
	// FetchSeconds that fetching the backup took.
	// +optional
	FetchSeconds int64 `json:"fetchSeconds,omitempty"`
	// ReplaySeconds that replaying WAL took.
	// +optional
	ReplaySeconds int64 `json:"replaySeconds,omitempty"`
	// TakenBytes of the backup were not fetched, because the data of before still held them.
	// +optional
	TakenBytes int64 `json:"takenBytes,omitempty"`
}

// RestoreFailure is why a restore is given up.
type RestoreFailure struct {
	// Reason of the condition that it will end with.
	Reason string `json:"reason"`
	// Message for a person.
	Message string `json:"message"`
}

// ConditionRestored says whether the cluster of a restore in place runs on the restored data. Written by the
// restore-controller.
const ConditionRestored = "Restored"

// Reasons of a Restore's Succeeded condition that are its own. Written by the restore-controller.
const (
	// ReasonBackupNotFound: there is no such Backup, or it has not succeeded.
	ReasonBackupNotFound = "BackupNotFound"
	// ReasonTargetUnreachable: the archive doesn't lead there; the message says what can be reached.
	ReasonTargetUnreachable = "TargetUnreachable"
	// ReasonNameTaken: the new cluster's name is taken.
	ReasonNameTaken = "NameTaken"
	// ReasonAwaitingNames: what a former cluster of the new one's name has left is not gone yet.
	ReasonAwaitingNames = "AwaitingNames"
	// ReasonPlanning: the repository is being read for the plan.
	ReasonPlanning = "Planning"
	// ReasonAwaitingWAL: the WAL up to the target is not archived yet.
	ReasonAwaitingWAL = "AwaitingWAL"
	// ReasonPlanned: the plan is made.
	ReasonPlanned = "Planned"
	// ReasonAwaitingHold: the volume is not granted yet.
	ReasonAwaitingVolumeLock = "AwaitingVolumeLock"
	// ReasonHoldRefused: the db-controller refuses the volume.
	ReasonVolumeLockRefused = "VolumeLockRefused"
	// ReasonAwaitingAdoption: the cluster has not started on the new data yet.
	ReasonAwaitingAdoption = "AwaitingAdoption"
	// ReasonAwaitingBackup: the backup asked for is not there yet.
	ReasonAwaitingBackup = "AwaitingBackup"
	// ReasonInvalidSpec: the spec can't be acted on.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonSafetyBackupFailed: the safety backup failed, so nothing was touched.
	ReasonSafetyBackupFailed = "SafetyBackupFailed"
	// ReasonAnotherDatabase: the backup is of another database, or major version, than the cluster to restore in place.
	ReasonAnotherDatabase = "AnotherDatabase"
	// ReasonNoSpace: the volume has no room for the restored data beside that of before.
	ReasonNoSpace = "NoSpace"
	// ReasonBeforeDiscarded: the restore failed after the data of before was given up for it.
	ReasonPreviousDataDiscarded = "PreviousDataDiscarded"
	// ReasonNotStarted: the cluster did not take connections on the restored data in time.
	ReasonNotStarted = "NotStarted"
	// ReasonAwaitingConfirmation: the cluster runs on the restored data, and a person may confirm or undo that.
	ReasonAwaitingConfirmation = "AwaitingConfirmation"
	// ReasonConfirming: the data of before is being given up.
	ReasonConfirming = "Confirming"
	// ReasonUndoing: the data of before is being brought back.
	ReasonUndoing = "Undoing"
	// ReasonUndone: the cluster runs on the data of before.
	ReasonUndone = "Undone"
	// ReasonUndoImpossible: the data of before can't be brought back; the message says why.
	ReasonUndoImpossible = "UndoImpossible"
	// ReasonDataCorrupt: an object in the repository is not what was written.
	ReasonDataCorrupt = "DataCorrupt"
)
