package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Restore restores a cluster to a point in time, into a new PostgresCluster or in place, or some of its tables into a running one.
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
// +kubebuilder:validation:XValidation:rule="!has(self.spec.decision) || self.spec.decision != 'Undo' || has(oldSelf.spec.decision) || !has(self.status) || !has(self.status.plan) || !has(self.status.plan.discardsPrevious) || !self.status.plan.discardsPrevious",messageExpression="'this restore can\\'t be undone, because spec.destination.inPlace.discardPrevious discarded the previous data: restore Backup ' + (has(self.status.safetyBackup) ? self.status.safetyBackup : 'that status.safetyBackup names') + ' in place'",message="this restore can't be undone, because spec.destination.inPlace.discardPrevious discarded the previous data: restore the Backup that status.safetyBackup names in place"
type Restore struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec RestoreSpec `json:"spec"`
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status RestoreStatus `json:"status,omitempty"`
}

// RestoreList is a list of Restores.
// +kubebuilder:object:root=true
type RestoreList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Restore `json:"items"`
}

// RestoreSpec says what to restore, to which point, and where to.
// +kubebuilder:validation:XValidation:rule="self.source == oldSelf.source && self.destination == oldSelf.destination && self.mode == oldSelf.mode && has(self.target) == has(oldSelf.target) && (!has(self.target) || self.target == oldSelf.target)",message="spec.source, spec.target, spec.destination and spec.mode can't be changed: create another Restore"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.decision) || has(self.decision) && self.decision == oldSelf.decision",message="spec.decision can't be changed once it is made: create another Restore to go the other way"
// +kubebuilder:validation:XValidation:rule="!has(self.target) || !has(self.target.xid) || has(self.source.backup) || has(self.source.repository) && has(self.source.repository.path) && self.source.repository.path.contains('/backups/')",message="spec.target.xid needs spec.source.backup, or a spec.source.repository.path of one backup: a transaction's number does not show when it was committed, so name a backup that ended before that"
// +kubebuilder:validation:XValidation:rule="has(self.destination.inPlace) || !has(self.decision) && !has(self.confirmWithin)",message="spec.decision and spec.confirmWithin apply to a restore in place only (spec.destination.inPlace): remove them; a new cluster can simply be deleted"
// +kubebuilder:validation:XValidation:rule="!has(self.maxDowntime) || has(self.destination.inPlace) && !(has(self.destination.inPlace.discardPrevious) && self.destination.inPlace.discardPrevious)",message="spec.maxDowntime applies to a restore in place that keeps the previous data: remove it, or discardPrevious, since without the previous data the cluster has nothing to continue with"
type RestoreSpec struct {
	// Source of the data.
	Source RestoreSource `json:"source"`
	// Target is the point to restore to. By default, the end of the archive.
	// +optional
	Target *RestoreTarget `json:"target,omitempty"`
	// Destination of the data.
	Destination RestoreDestination `json:"destination"`
	// Mode says whether to carry the restore out. With Plan, it stops once status.plan says what would be done, or the
	// condition says why it can't be.
	// +optional
	// +kubebuilder:default=Execute
	Mode RestoreMode `json:"mode,omitempty"`
	// Decision about a restore in place, once its cluster runs on the restored data: Confirm deletes the previous data,
	// Undo brings it back.
	// +optional
	Decision RestoreDecision `json:"decision,omitempty"`
	// ConfirmWithin is how long a restore in place can be undone, such as 24h, from when the cluster runs on the restored
	// data. After that it is confirmed if all of the previous data can be restored from its archive; otherwise the previous data
	// is kept until a person decides. It may be changed until then. The default is 24h.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= duration('0s') && self <= duration('8760h')",message="spec.confirmWithin must be from 0s to 8760h, such as 24h; 0s confirms at once"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:MaxLength=32
	ConfirmWithin *metav1.Duration `json:"confirmWithin,omitempty"`
	// MaxDowntime bounds how long the cluster accepts no connections, such as 30m, from when it is being stopped until it runs on
	// the new data. After that it continues with its previous data. By default, only the start on the new data is bounded.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= duration('1m') && self <= duration('168h')",message="spec.maxDowntime must be from 1m to 168h, such as 30m: stopping and starting takes some of it"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:MaxLength=32
	MaxDowntime *metav1.Duration `json:"maxDowntime,omitempty"`
	// Cancel ends a restore before its cluster runs on the restored data. A new cluster is deleted; a cluster that is being
	// restored in place returns to its previous data; of a restore into a running cluster, nothing is left, unless it was committed.
	// +optional
	Cancel bool `json:"cancel,omitempty"`
	// TTLSecondsAfterFinished deletes the Restore (not the cluster) this long after it ended, unless it could not be undone and
	// the previous data is still on a volume. By default, it is never deleted.
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

// RestoreDecision is the decision about a restore in place.
// +kubebuilder:validation:Enum=Confirm;Undo
type RestoreDecision string

const (
	// DecisionConfirm keeps the restored data, and deletes the previous data.
	DecisionConfirm RestoreDecision = "Confirm"
	// DecisionUndo brings the previous data back, and deletes the restored data.
	DecisionUndo RestoreDecision = "Undo"
)

// RestoreSource is where the data comes from.
// +kubebuilder:validation:XValidation:rule="[has(self.backup), has(self.cluster), has(self.repository)].filter(x, x).size() == 1",message="spec.source must have exactly one of backup, cluster and repository"
type RestoreSource struct {
	// Backup is the Backup to begin with, in the same namespace. WAL is replayed from there to the target.
	// +optional
	Backup *LocalReference `json:"backup,omitempty"`
	// Cluster is the cluster whose archive to use. The right backup for the target is chosen.
	// +optional
	Cluster *ClusterSource `json:"cluster,omitempty"`
	// Repository is a bucket and a place in it, if nothing else is known about its content.
	// +optional
	Repository *RepositorySource `json:"repository,omitempty"`
}

// ClusterSource is the archive of a cluster, which may have been deleted.
type ClusterSource struct {
	// Name of the PostgresCluster.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// Repository is the BackupRepository with its archive. By default, that of the PostgresCluster, which must then exist.
	// +optional
	Repository *LocalReference `json:"repository,omitempty"`
}

// RepositorySource is a place in a repository. Existing clusters play no part in it.
type RepositorySource struct {
	// Name of the BackupRepository.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// Path of a lineage below the prefix of the repository, such as lineages/7412-g0; the right backup for the target is
	// chosen. Or of one backup in it, such as lineages/7412-g0/backups/shop-first, to begin with that one. By default, the
	// content of the repository, if that is of one cluster only.
	// +optional
	// +kubebuilder:validation:MaxLength=300
	// +kubebuilder:validation:XValidation:rule="self.matches('^(lineages/)?[A-Za-z0-9][A-Za-z0-9._-]*(/backups/[A-Za-z0-9][A-Za-z0-9._-]*(/manifest[.]zst)?)?/?$')",message="spec.source.repository.path must name a lineage or one backup below the repository's prefix, such as lineages/7412-g0 or lineages/7412-g0/backups/shop-first"
	Path string `json:"path,omitempty"`
}

// RestoreTarget is a point in the history of a cluster.
// +kubebuilder:validation:XValidation:rule="[has(self.time), has(self.lsn), has(self.xid), has(self.restorePoint), has(self.immediate) && self.immediate].filter(x, x).size() == (has(self.timeline) && !has(self.time) && !has(self.lsn) && !has(self.xid) && !has(self.restorePoint) && !(has(self.immediate) && self.immediate) ? 0 : 1)",message="spec.target must have exactly one of time, lsn, xid, restorePoint and immediate, with or without timeline; remove spec.target to restore to the end of the archive"
// +kubebuilder:validation:XValidation:rule="!has(self.inclusive) || has(self.time) || has(self.lsn) || has(self.xid)",message="spec.target.inclusive applies to time, lsn or xid only: remove it, or set one of them"
type RestoreTarget struct {
	// Time with its time zone, such as 2026-03-01T12:03:10Z, to the microsecond: everything that was committed until then.
	// +optional
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})$')",message="spec.target.time must be a timestamp with a time zone, such as 2026-03-01T12:03:10Z or 2026-03-01T13:03:10.25+01:00"
	Time string `json:"time,omitempty"`
	// LSN such as 16/B374D848, as pg_current_wal_lsn reports it: everything before this position.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}$')",message="spec.target.lsn must be a WAL position as PostgreSQL prints it, such as 16/B374D848"
	LSN string `json:"lsn,omitempty"`
	// RestorePoint is a name given to pg_create_restore_point: everything until then.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	RestorePoint string `json:"restorePoint,omitempty"`
	// XID of a transaction, as pg_current_xact_id reports it: everything that was committed until it was. It requires
	// spec.source.backup, or the path of one backup.
	// +optional
	// +kubebuilder:validation:Minimum=3
	XID int64 `json:"xid,omitempty"`
	// Immediate stops as soon as the data is consistent: at the end of the backup.
	// +optional
	Immediate bool `json:"immediate,omitempty"`
	// Inclusive says whether what is at the target itself is restored. By default, what was committed at time, and the
	// transaction xid, are; the record at lsn is not.
	// +optional
	Inclusive *bool `json:"inclusive,omitempty"`
	// Timeline to follow, such as one that a failover left behind; alone, to its end. By default, the newest.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4294967295
	Timeline int64 `json:"timeline,omitempty"`
}

// RestoreDestination is where the data goes.
// +kubebuilder:validation:XValidation:rule="[has(self.newCluster), has(self.inPlace), has(self.intoCluster)].filter(x, x).size() == 1",message="spec.destination must have exactly one of newCluster, inPlace and intoCluster"
type RestoreDestination struct {
	// NewCluster is created by the Restore.
	// +optional
	NewCluster *NewCluster `json:"newCluster,omitempty"`
	// InPlace restores an existing cluster under its name. It can be undone until it is confirmed.
	// +optional
	InPlace *InPlace `json:"inPlace,omitempty"`
	// IntoCluster brings tables, schemas or a database back into a cluster that runs on. Nothing that exists there is changed.
	// +optional
	IntoCluster *IntoCluster `json:"intoCluster,omitempty"`
}

// ClusterName is the PostgresCluster that the data goes to.
func (d RestoreDestination) ClusterName() string {
	switch {
	case d.InPlace != nil:
		return d.InPlace.Name
	case d.NewCluster != nil:
		return d.NewCluster.Name
	case d.IntoCluster != nil:
		return d.IntoCluster.Name
	}
	return ""
}

// InPlace names the PostgresCluster to restore. Its previous data stays on the volumes until spec.decision, or for
// spec.confirmWithin, so they must have space for both, unless discardPrevious is set.
// +kubebuilder:validation:XValidation:rule="!has(self.discardPrevious) || !self.discardPrevious || has(self.safetyBackup) && self.safetyBackup",message="spec.destination.inPlace.discardPrevious discards the previous data, so there must be another way back: set safetyBackup: true as well"
type InPlace struct {
	// Name of the PostgresCluster, in the same namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	Name string `json:"name"`
	// SafetyBackup takes a backup before anything is touched. If it fails, nothing is touched.
	// +optional
	SafetyBackup bool `json:"safetyBackup,omitempty"`
	// DiscardPrevious discards the previous data, which is changed in place. That needs no additional space, and only
	// as much time as the differences require. The only way to undo it is to restore the safety backup.
	// +optional
	DiscardPrevious bool `json:"discardPrevious,omitempty"`
}

// NewCluster describes the PostgresCluster to create. Whatever is omitted is as it was in the cluster that was backed up.
// +kubebuilder:validation:XValidation:rule="!has(self.temporary) || !self.temporary || !has(self.instances) && !has(self.repository)",message="spec.destination.newCluster: a temporary cluster has one instance and archives nowhere; remove instances and repository, or temporary"
type NewCluster struct {
	// Name of the PostgresCluster to create; it must not exist.
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="spec.destination.newCluster.name must be a DNS label that begins with a letter (a-z, 0-9 and '-'), such as shop-before"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('howdah-')",message="spec.destination.newCluster.name must not begin with howdah-, which is reserved for the objects of Howdah itself; choose another name, such as shop-before"
	Name string `json:"name"`
	// Image of PostgreSQL, of the major version of the data. By default, that of the cluster that was backed up, if it exists
	// or the repository is encrypted; otherwise the suite's.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image,omitempty"`
	// Storage of the new cluster.
	// +optional
	Storage *NewStorage `json:"storage,omitempty"`
	// Instances of the new cluster, such as 1 for a copy to look at. If that leaves fewer replicas than spec.synchronous
	// requires, all remaining ones are required.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 9",message="spec.destination.newCluster.instances must be from 1 to 9: use 1 for a copy to look at"
	Instances *int32 `json:"instances,omitempty"`
	// Repository is the BackupRepository that the new cluster archives to. By default, the one that its data comes from, or
	// none if that is read-only.
	// +optional
	Repository *LocalReference `json:"repository,omitempty"`
	// Resources of the new cluster.
	// +optional
	Resources *Resources `json:"resources,omitempty"`
	// Parameters that override or extend those of the cluster that was backed up.
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	Parameters map[string]ParameterValue `json:"parameters,omitempty"`
	// ExtensionImages instead of spec.postgresql.extensionImages of the cluster that was backed up, which are taken over if it exists
	// or the repository is encrypted.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	ExtensionImages []ExtensionImage `json:"extensionImages,omitempty"`
	// RunAs is the user of its pods. By default, that of the cluster that was backed up.
	// +optional
	RunAs *RunAs `json:"runAs,omitempty"`
	// SuperuserAccess of the new cluster.
	// +optional
	SuperuserAccess *bool `json:"superuserAccess,omitempty"`
	// Temporary creates a copy to look at: one instance that archives nowhere, takes no backup, and is deleted with its
	// volume when the Restore is.
	// +optional
	Temporary bool `json:"temporary,omitempty"`
	// Subscriptions says what happens to logical subscriptions in the restored data: they are Disabled, or stay Enabled as
	// they were. The subscriptions of a copy would take changes away from the original cluster, and skip silently what their slots at the
	// publishers have passed since the point that is restored. The default is Disabled.
	// +optional
	Subscriptions SubscriptionPolicy `json:"subscriptions,omitempty"`
	// AcceptRecorded names fields of the recorded PostgresCluster that are taken although the repository is neither encrypted nor signed,
	// such as spec.scheduling.tolerations. Whoever can write to the bucket decides what they contain: look at status.plan.dropped and
	// status.plan.accepted of a Restore with mode Plan first. Images are never taken.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	AcceptRecorded []RecordedField `json:"acceptRecorded,omitempty"`
}

// SubscriptionPolicy says what happens to logical subscriptions in restored data.
// +kubebuilder:validation:Enum=Disabled;Enabled
type SubscriptionPolicy string

const (
	// SubscriptionsDisabled disables those that are enabled.
	SubscriptionsDisabled SubscriptionPolicy = "Disabled"
	// SubscriptionsEnabled leaves them as they were.
	SubscriptionsEnabled SubscriptionPolicy = "Enabled"
)

// NewStorage overrides the storage.
type NewStorage struct {
	// Size of the volume.
	// +optional
	// +kubebuilder:validation:Pattern=`^[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?$`
	Size string `json:"size,omitempty"`
	// StorageClassName of the volume.
	// +optional
	StorageClassName *string `json:"storageClassName,omitempty"`
	// WAL overrides spec.storage.wal. By default, the new cluster has a WAL volume if the backup's cluster had one.
	// +optional
	WAL *NewWALStorage `json:"wal,omitempty"`
}

// NewWALStorage overrides the storage of WAL.
// +kubebuilder:validation:XValidation:rule="has(self.none) && self.none ? !has(self.size) && !has(self.storageClassName) : has(self.size) || has(self.storageClassName)",message="storage.wal must have size or storageClassName, or none: true for a cluster without a WAL volume; for example: wal: {size: 4Gi}"
type NewWALStorage struct {
	// None leaves WAL on the volume with the data, even if the backup's cluster had a WAL volume.
	// +optional
	None bool `json:"none,omitempty"`
	// Size of the WAL volume. It is needed if the backup's cluster had none.
	// +optional
	// +kubebuilder:validation:Pattern=`^[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?$`
	Size string `json:"size,omitempty"`
	// StorageClassName of the WAL volume.
	// +optional
	StorageClassName *string `json:"storageClassName,omitempty"`
}
