package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RetentionSpec says what is kept. A backup is deleted when no rule keeps it, and WAL when nothing that is kept needs it.
// Days, weeks, months and years are in UTC. Whatever the rules say, the newest good backup of a lineage is kept, with all
// WAL from it to the end of the lineage, until somebody deletes its Backup. A backup with spec.hold is kept, too. For a
// lineage that no cluster in this Kubernetes cluster writes, ages count from when it was first seen here.
// +kubebuilder:validation:XValidation:rule="has(self.keepLast) || has(self.keepWithin) || has(self.recoveryWindow) || has(self.keepDaily) || has(self.keepWeekly) || has(self.keepMonthly) || has(self.keepYearly)",message="spec.retention keeps nothing: set at least one of recoveryWindow, keepLast, keepWithin, keepDaily, keepWeekly, keepMonthly and keepYearly, such as recoveryWindow: 7d"
type RetentionSpec struct {
	// RecoveryWindow is the period within which every point in time can be restored, such as 7d. It keeps the newest backup
	// before the period, all backups since, and all WAL from that backup on. Earlier WAL is deleted, except what other kept
	// backups need for themselves.
	// +optional
	RecoveryWindow RetentionPeriod `json:"recoveryWindow,omitempty"`
	// KeepLast keeps this many of the newest backups. Without recoveryWindow, it also keeps all WAL from the oldest of them
	// on.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	KeepLast *int32 `json:"keepLast,omitempty"`
	// KeepWithin keeps the backups that are younger, such as 30d. Without recoveryWindow, it also keeps all WAL from the
	// oldest of them on.
	// +optional
	KeepWithin RetentionPeriod `json:"keepWithin,omitempty"`
	// KeepDaily keeps the newest backup of each of this many days that have one.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	KeepDaily *int32 `json:"keepDaily,omitempty"`
	// KeepWeekly keeps the newest backup of each of this many weeks, from Monday, that have one.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	KeepWeekly *int32 `json:"keepWeekly,omitempty"`
	// KeepMonthly keeps the newest backup of each of this many months that have one.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	KeepMonthly *int32 `json:"keepMonthly,omitempty"`
	// KeepYearly keeps the newest backup of each of this many years that have one.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	KeepYearly *int32 `json:"keepYearly,omitempty"`
	// DryRun deletes nothing; status.retention.wouldRemove lists what would be deleted.
	// +optional
	DryRun bool `json:"dryRun,omitempty"`
	// NoticePeriod is for how long status.retention.wouldRemove lists what a new or changed policy would delete, before anything
	// is deleted. A lineage that was found in the bucket is also listed for so long, from when it was first seen. By default
	// 24h; 0s deletes at once.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s')",message="spec.retention.noticePeriod must not be negative: write a duration such as 24h, or 0s to delete at once"
	NoticePeriod *metav1.Duration `json:"noticePeriod,omitempty"`
	// GiveUp names lineages of which nothing is needed any more, each by the confirmation text in status.lineages[].giveUp, such as
	// "7401…-g1 last written 2026-03-04T05:06:07Z". They are deleted at once with their last copy, except for backups that are
	// held. It has no effect on a lineage that was written after the time in it, that a cluster writes, or that may
	// belong to somebody else.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MaxLength=200
	// +kubebuilder:validation:XValidation:rule="self.all(s, s.contains(' last written '))",message="spec.retention.giveUp must have the confirmation text of status.lineages[].giveUp, such as '7401-g1 last written 2026-03-04T05:06:07Z'"
	GiveUp []string `json:"giveUp,omitempty"`
}

// RetentionPeriod is a number of hours, days or weeks, such as 36h, 7d or 12w.
// +kubebuilder:validation:MaxLength=6
// +kubebuilder:validation:XValidation:rule="self.matches('^[1-9][0-9]*[hdw]$')",message="a period of spec.retention must be a number of hours, days or weeks, such as 36h, 7d or 12w"
type RetentionPeriod string

// CatalogueMode says for which backups in a bucket objects are created.
// +kubebuilder:validation:Enum=Auto;All;Off
type CatalogueMode string

const (
	// CatalogueAuto is for those of clusters that are not in this Kubernetes cluster; in a readOnly repository, for all.
	CatalogueAuto CatalogueMode = "Auto"
	// CatalogueAll is for all that have no Backup object.
	CatalogueAll CatalogueMode = "All"
	// CatalogueOff is for none.
	CatalogueOff CatalogueMode = "Off"
)

// LineageStatus describes one lineage in a repository.
type LineageStatus struct {
	// Name of the lineage: system identifier and data generation.
	Name string `json:"name"`
	// Cluster that writes or wrote it, with its namespace.
	// +optional
	Cluster string `json:"cluster,omitempty"`
	// Living says that the cluster exists and writes here.
	// +optional
	Living bool `json:"living,omitempty"`
	// WrittenHere says that a cluster of this Kubernetes writes the lineage, or wrote it while the backup-controller looked. From
	// other lineages, a spec.retention without recoveryWindow and keepWithin removes nothing.
	// +optional
	WrittenHere bool `json:"writtenHere,omitempty"`
	// Backups in the lineage that can be read.
	// +optional
	Backups int32 `json:"backups,omitempty"`
	// Damaged are the ids of backups whose manifest can't be read, at most ten. Nothing is deleted while there is one.
	// +optional
	Damaged []string `json:"damaged,omitempty"`
	// Unreadable says why lineage.json, the history of a timeline or the claim of a backup can't be read, if that is so. Nothing is
	// deleted from the lineage then.
	// +optional
	Unreadable string `json:"unreadable,omitempty"`
	// RecoverableFrom is the start of the newest period of which every point can be restored; recoverableTo is its end. If
	// they are missing, no point can be restored.
	// +optional
	RecoverableFrom *metav1.Time `json:"recoverableFrom,omitempty"`
	// RecoverableTo is the latest time that a Restore reaches without waiting for more WAL.
	// +optional
	RecoverableTo *metav1.Time `json:"recoverableTo,omitempty"`
	// MissingWAL names the last file that is missing between the oldest backup and the end of the archive: a WAL segment, or
	// the history of the newest timeline. Older backups can only be restored to points before it. If empty, none is missing.
	// +optional
	MissingWAL string `json:"missingWAL,omitempty"`
	// LogicalBytes of all backups: what restoring each of them would write.
	// +optional
	LogicalBytes int64 `json:"logicalBytes,omitempty"`
	// StoredBytes of all backups.
	// +optional
	StoredBytes int64 `json:"storedBytes,omitempty"`
	// WALBytes is the size of the WAL as stored.
	// +optional
	WALBytes int64 `json:"walBytes,omitempty"`
	// FirstSeen is when the backup-controller first saw the lineage. Once nobody here writes the lineage any more,
	// spec.retention does not count the time between LastWritten and FirstSeen. Of a lineage that is not in this list,
	// nothing is known except that it exists.
	// +optional
	FirstSeen *metav1.Time `json:"firstSeen,omitempty"`
	// ReadSince is since when retention deletes nothing from the lineage because somebody reads it of whom only the bucket tells: a Restore of another
	// namespace or Kubernetes cluster, or howdah-backup. It waits for at most a day.
	// +optional
	ReadSince *metav1.Time `json:"readSince,omitempty"`
	// GiveUp is what to write into spec.retention.giveUp to have the whole lineage deleted, with its last copy. It is empty if
	// the lineage can't be given up here, because a cluster writes it or it may belong to somebody else.
	// +optional
	GiveUp string `json:"giveUp,omitempty"`
	// LastWritten is when WAL or part of a backup was last written.
	// +optional
	LastWritten *metav1.Time `json:"lastWritten,omitempty"`
	// LastBackup is when the newest backup ended.
	// +optional
	LastBackup *metav1.Time `json:"lastBackup,omitempty"`
	// LastFailure is when the latest of the existing failed Backups failed.
	// +optional
	LastFailure *metav1.Time `json:"lastFailure,omitempty"`
}

// RetentionStatus is what retention has done.
type RetentionStatus struct {
	// Policy is the policy in spec, and PolicySince is when it was first seen. Nothing is deleted before spec.retention.noticePeriod
	// has passed since.
	// +optional
	Policy string `json:"policy,omitempty"`
	// PolicySince is when this policy was first seen.
	// +optional
	PolicySince *metav1.Time `json:"policySince,omitempty"`
	// LastRun is when it last completed.
	// +optional
	LastRun *metav1.Time `json:"lastRun,omitempty"`
	// NextRun is when it runs next, at the latest.
	// +optional
	NextRun *metav1.Time `json:"nextRun,omitempty"`
	// LastRemoval is when the last run that deleted something ended.
	// +optional
	LastRemoval *metav1.Time `json:"lastRemoval,omitempty"`
	// RemovedBackups is the number of backups that this run deleted.
	// +optional
	RemovedBackups int32 `json:"removedBackups,omitempty"`
	// RemovedWAL is the number of WAL files that it deleted.
	// +optional
	RemovedWAL int32 `json:"removedWAL,omitempty"`
	// RemovedBytes of WAL, and of packs that nothing needed, without what was deleted together with a Backup object.
	// +optional
	RemovedBytes int64 `json:"removedBytes,omitempty"`
	// WouldRemove lists the backups that will be deleted, or with dryRun would be, as lineage/id; at most fifty, the oldest
	// first.
	// +optional
	WouldRemove []string `json:"wouldRemove,omitempty"`
	// WouldRemoveCount is their number.
	// +optional
	WouldRemoveCount int32 `json:"wouldRemoveCount,omitempty"`
	// WouldRemoveWAL is the number of WAL segments that will be deleted, or with dryRun would be. Without them, fewer points in time
	// can be restored, also if no backup is deleted.
	// +optional
	WouldRemoveWAL int64 `json:"wouldRemoveWAL,omitempty"`
	// Message says what retention waits for, or what went wrong.
	// +optional
	Message string `json:"message,omitempty"`
}
