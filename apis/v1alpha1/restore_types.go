package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Restore brings a cluster back to a point in time, into a new PostgresCluster or in place.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=pgr,categories=howdah
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.destination.*.name`
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
// +kubebuilder:validation:XValidation:rule="self.source == oldSelf.source && self.destination == oldSelf.destination && self.mode == oldSelf.mode && has(self.target) == has(oldSelf.target) && (!has(self.target) || self.target == oldSelf.target)",message="spec.source, spec.target, spec.destination and spec.mode can't be changed: make another Restore"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.decision) || has(self.decision) && self.decision == oldSelf.decision",message="spec.decision can't be changed once it is made; to go the other way make another Restore"
// +kubebuilder:validation:XValidation:rule="!has(self.target) || !has(self.target.xid) || has(self.source.backup) || has(self.source.repository) && has(self.source.repository.path) && self.source.repository.path.contains('/backups/')",message="spec.target.xid needs spec.source.backup, or a spec.source.repository.path of one backup: a transaction's number doesn't tell when it committed, so name a backup that ended before that"
// +kubebuilder:validation:XValidation:rule="has(self.destination.inPlace) || !has(self.decision) && !has(self.confirmWithin)",message="spec.decision and spec.confirmWithin belong to a restore in place (spec.destination.inPlace): leave them out, a new cluster can simply be deleted"
type RestoreSpec struct {
	// Source of the data.
	Source RestoreSource `json:"source"`
	// Target is the point to restore to. Left out: the end of the archive.
	// +optional
	Target *RestoreTarget `json:"target,omitempty"`
	// Destination of the data.
	Destination RestoreDestination `json:"destination"`
	// Mode says whether to do it: Plan stops once status.plan says what would be done, or the condition why it can't be.
	// +optional
	// +kubebuilder:default=Execute
	Mode RestoreMode `json:"mode,omitempty"`
	// Decision of a restore in place, once its cluster runs on the restored data: Confirm gives the space of the data of
	// before free, Undo brings that back.
	// +optional
	Decision RestoreDecision `json:"decision,omitempty"`
	// ConfirmWithin is how long a restore in place can be undone, such as 24h, from when the cluster runs on the restored
	// data. After that it is confirmed. It may be changed until then. Left out: 24h.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= duration('0s') && self <= duration('8760h')",message="spec.confirmWithin must be from 0s to 8760h, such as 24h; 0s confirms at once"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:MaxLength=32
	ConfirmWithin *metav1.Duration `json:"confirmWithin,omitempty"`
	// Cancel ends a restore before its cluster runs on the restored data. A new cluster is deleted; one that is restored in
	// place goes on with the data of before.
	// +optional
	Cancel bool `json:"cancel,omitempty"`
	// TTLSecondsAfterFinished deletes the Restore (not the cluster) that long after it ended. Left out: never.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// RestoreMode says whether a restore is carried out.
// +kubebuilder:validation:Enum=Plan;Execute
type RestoreMode string

const (
	// RestorePlanOnly stops once the plan is made.
	RestorePlanOnly RestoreMode = "Plan"
	// RestoreExecute carries the plan out.
	RestoreExecute RestoreMode = "Execute"
)

// RestoreDecision is what becomes of a restore in place.
// +kubebuilder:validation:Enum=Confirm;Undo
type RestoreDecision string

const (
	// DecisionConfirm keeps the restored data, and gives up that of before.
	DecisionConfirm RestoreDecision = "Confirm"
	// DecisionUndo brings the data of before back, and gives up the restored one.
	DecisionUndo RestoreDecision = "Undo"
)

// RestoreSource is where the data comes from.
// +kubebuilder:validation:XValidation:rule="[has(self.backup), has(self.cluster), has(self.repository)].filter(x, x).size() == 1",message="spec.source takes exactly one of backup, cluster and repository"
type RestoreSource struct {
	// Backup is the Backup to begin with, in the same namespace; WAL is replayed from there to the target.
	// +optional
	Backup *LocalReference `json:"backup,omitempty"`
	// Cluster is the cluster whose archive to use; the right backup is chosen for the target.
	// +optional
	Cluster *ClusterSource `json:"cluster,omitempty"`
	// Repository is a bucket and a place in it, where nothing else is known of what lies there.
	// +optional
	Repository *RepositorySource `json:"repository,omitempty"`
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

// RepositorySource is a place in a repository. Clusters that are there have no part in it.
type RepositorySource struct {
	// Name of the BackupRepository.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// Path of a lineage below the prefix of the repository, such as lineages/7412-g0; the right backup is chosen for the
	// target. Or that of one backup in it, such as lineages/7412-g0/backups/shop-first, to begin with that one. Left out:
	// what the repository has, where that is of one cluster only.
	// +optional
	// +kubebuilder:validation:MaxLength=300
	// +kubebuilder:validation:XValidation:rule="self.matches('^(lineages/)?[A-Za-z0-9][A-Za-z0-9._-]*(/backups/[A-Za-z0-9][A-Za-z0-9._-]*(/manifest[.]zst)?)?/?$')",message="spec.source.repository.path must be that of a lineage or of one backup below the repository's prefix, such as lineages/7412-g0 or lineages/7412-g0/backups/shop-first"
	Path string `json:"path,omitempty"`
}

// RestoreTarget is a point in the history of a cluster.
// +kubebuilder:validation:XValidation:rule="[has(self.time), has(self.lsn), has(self.xid), has(self.restorePoint), has(self.immediate) && self.immediate].filter(x, x).size() == (has(self.timeline) && !has(self.time) && !has(self.lsn) && !has(self.xid) && !has(self.restorePoint) && !(has(self.immediate) && self.immediate) ? 0 : 1)",message="spec.target takes exactly one of time, lsn, xid, restorePoint and immediate, with or without timeline; leave spec.target out to restore to the end of the archive"
// +kubebuilder:validation:XValidation:rule="!has(self.inclusive) || has(self.time) || has(self.lsn) || has(self.xid)",message="spec.target.inclusive belongs to time, lsn or xid: leave it out, or write one of them"
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
	// XID of a transaction, as pg_current_xact_id gives it: everything that committed until it did. It goes with
	// spec.source.backup only.
	// +optional
	// +kubebuilder:validation:Minimum=3
	XID int64 `json:"xid,omitempty"`
	// Immediate stops as soon as the data is consistent: at the end of the backup.
	// +optional
	Immediate bool `json:"immediate,omitempty"`
	// Inclusive says whether what is at the target itself is restored. Left out: what committed at time and the transaction
	// xid are, the record at lsn is not.
	// +optional
	Inclusive *bool `json:"inclusive,omitempty"`
	// Timeline to follow, such as one that was left by a failover; alone, to its end. Left out: the newest.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4294967295
	Timeline int64 `json:"timeline,omitempty"`
}

// RestoreDestination is where the data goes.
// +kubebuilder:validation:XValidation:rule="has(self.newCluster) != has(self.inPlace)",message="spec.destination takes exactly one of newCluster and inPlace"
type RestoreDestination struct {
	// NewCluster is made by the Restore.
	// +optional
	NewCluster *NewCluster `json:"newCluster,omitempty"`
	// InPlace brings a cluster that is there back, under its name. It can be undone until it is confirmed.
	// +optional
	InPlace *InPlace `json:"inPlace,omitempty"`
}

// ClusterName is the PostgresCluster that the data goes to.
func (d RestoreDestination) ClusterName() string {
	switch {
	case d.InPlace != nil:
		return d.InPlace.Name
	case d.NewCluster != nil:
		return d.NewCluster.Name
	}
	return ""
}

// InPlace names the PostgresCluster to bring back. The data of before stays on its volumes until spec.decision, or for
// spec.confirmWithin, so there has to be room for both.
type InPlace struct {
	// Name of the PostgresCluster, in the same namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	Name string `json:"name"`
	// SafetyBackup takes a backup before anything is touched; if it fails, nothing is.
	// +optional
	SafetyBackup bool `json:"safetyBackup,omitempty"`
}

// NewCluster describes the PostgresCluster to make. What is left out is as it was in the cluster that was backed up.
// +kubebuilder:validation:XValidation:rule="!has(self.temporary) || !self.temporary || !has(self.instances) && !has(self.repository)",message="spec.destination.newCluster: a temporary cluster has one instance and archives nowhere; leave instances and repository out, or temporary"
type NewCluster struct {
	// Name of the PostgresCluster to make; it must not exist.
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="spec.destination.newCluster.name must be a DNS label that begins with a letter (a-z, 0-9 and '-'), such as shop-before"
	Name string `json:"name"`
	// Storage of the new cluster.
	// +optional
	Storage *NewStorage `json:"storage,omitempty"`
	// Instances of the new cluster, such as 1 for a copy to look at. Where it leaves fewer replicas than spec.synchronous
	// asked for, all that are left are asked for.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 9",message="spec.destination.newCluster.instances must be from 1 to 9: write 1 for a copy to look at"
	Instances *int32 `json:"instances,omitempty"`
	// Repository is the BackupRepository that the new cluster archives to. Left out: the one that its data comes from, or
	// none if that is read-only.
	// +optional
	Repository *LocalReference `json:"repository,omitempty"`
	// Resources of the new cluster.
	// +optional
	Resources *Resources `json:"resources,omitempty"`
	// Parameters that replace or add to those of the cluster that was backed up.
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	Parameters map[string]ParameterValue `json:"parameters,omitempty"`
	// SuperuserAccess of the new cluster.
	// +optional
	SuperuserAccess *bool `json:"superuserAccess,omitempty"`
	// Temporary makes a copy to look at: one instance that archives nowhere, takes no backup, and is deleted with its
	// volume when the Restore is.
	// +optional
	Temporary bool `json:"temporary,omitempty"`
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
	Cluster *MadeCluster `json:"cluster,omitempty"`
	// Hold asks the db-controller for the volume.
	// +optional
	Hold *HoldRequest `json:"hold,omitempty"`
	// Handover offers the restored data.
	// +optional
	Handover *Handover `json:"handover,omitempty"`
	// Release asks the db-controller to have a data generation removed from the volumes.
	// +optional
	Release *ReleaseRequest `json:"release,omitempty"`
	// BackupWanted asks the backup-controller for the safety backup, or the first backup of the new lineage.
	// +optional
	BackupWanted *BackupRequest `json:"backupWanted,omitempty"`
	// SafetyBackup is the Backup that was taken before anything was touched.
	// +optional
	SafetyBackup string `json:"safetyBackup,omitempty"`
	// Before is what the cluster ran on before it was restored in place, and runs on again when that is undone.
	// +optional
	Before *DataBefore `json:"before,omitempty"`
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
type DataBefore struct {
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
	// ReasonSafetyBackupFailed: the safety backup failed, so nothing was touched.
	ReasonSafetyBackupFailed = "SafetyBackupFailed"
	// ReasonAnotherDatabase: the backup is of another database, or major version, than the cluster to restore in place.
	ReasonAnotherDatabase = "AnotherDatabase"
	// ReasonNoSpace: the volume has no room for the restored data beside that of before.
	ReasonNoSpace = "NoSpace"
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
