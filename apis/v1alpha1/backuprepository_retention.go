package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RetentionSpec says what stays. A backup goes when no rule keeps it; WAL goes when nothing that stays needs it. What a
// rule says of days, weeks, months and years is in UTC. Whatever the rules say, the newest good backup of a lineage stays
// with all WAL from it to the end of the lineage, until somebody deletes its Backup; so does one with spec.hold. For a
// lineage that no cluster in this Kubernetes writes, ages count from when it was first seen here.
// +kubebuilder:validation:XValidation:rule="has(self.keepLast) || has(self.keepWithin) || has(self.recoveryWindow) || has(self.keepDaily) || has(self.keepWeekly) || has(self.keepMonthly) || has(self.keepYearly)",message="spec.retention keeps nothing: write at least one of recoveryWindow, keepLast, keepWithin, keepDaily, keepWeekly, keepMonthly and keepYearly, such as recoveryWindow: 7d"
type RetentionSpec struct {
	// RecoveryWindow is for how long back every point in time can be restored, such as 7d: the newest backup before that
	// stays, all that came after it, and all WAL from it on. WAL before that goes, but for what other backups that stay
	// need for themselves.
	// +optional
	RecoveryWindow RetentionPeriod `json:"recoveryWindow,omitempty"`
	// KeepLast keeps the newest so many backups. Without recoveryWindow, also all WAL from the oldest of them on.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	KeepLast *int32 `json:"keepLast,omitempty"`
	// KeepWithin keeps the backups that are younger, such as 30d. Without recoveryWindow, also all WAL from the oldest of
	// them on.
	// +optional
	KeepWithin RetentionPeriod `json:"keepWithin,omitempty"`
	// KeepDaily keeps the newest backup of each of so many days that have one.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	KeepDaily *int32 `json:"keepDaily,omitempty"`
	// KeepWeekly keeps the newest backup of each of so many weeks, from Monday, that have one.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	KeepWeekly *int32 `json:"keepWeekly,omitempty"`
	// KeepMonthly keeps the newest backup of each of so many months that have one.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	KeepMonthly *int32 `json:"keepMonthly,omitempty"`
	// KeepYearly keeps the newest backup of each of so many years that have one.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	KeepYearly *int32 `json:"keepYearly,omitempty"`
	// DryRun removes nothing; status.retention.wouldRemove shows what would go.
	// +optional
	DryRun bool `json:"dryRun,omitempty"`
}

// RetentionPeriod is a number of hours, days or weeks, such as 36h, 7d or 12w.
// +kubebuilder:validation:MaxLength=6
// +kubebuilder:validation:XValidation:rule="self.matches('^[1-9][0-9]*[hdw]$')",message="a period of spec.retention must be a number of hours, days or weeks, such as 36h, 7d or 12w"
type RetentionPeriod string

// CatalogueMode says for which backups of a bucket objects are made.
// +kubebuilder:validation:Enum=Auto;All;Off
type CatalogueMode string

const (
	// CatalogueAuto is for those of clusters that are not in this Kubernetes; of a readOnly repository, for all.
	CatalogueAuto CatalogueMode = "Auto"
	// CatalogueAll is for all that have no Backup object.
	CatalogueAll CatalogueMode = "All"
	// CatalogueOff is for none.
	CatalogueOff CatalogueMode = "Off"
)

// LineageStatus says what a repository has of one lineage.
type LineageStatus struct {
	// Name of the lineage: system identifier and data generation.
	Name string `json:"name"`
	// Cluster that writes or wrote it, with its namespace.
	// +optional
	Cluster string `json:"cluster,omitempty"`
	// Living: the cluster is there and writes here.
	// +optional
	Living bool `json:"living,omitempty"`
	// Backups in the lineage that can be read.
	// +optional
	Backups int32 `json:"backups,omitempty"`
	// Damaged are the ids of backups whose manifest can't be read; at most ten. Nothing is removed while there is one.
	// +optional
	Damaged []string `json:"damaged,omitempty"`
	// RecoverableFrom and RecoverableTo bound the newest stretch of time of which every point can be restored. Where they
	// are missing, none can.
	// +optional
	RecoverableFrom *metav1.Time `json:"recoverableFrom,omitempty"`
	// RecoverableTo is the time of the last commit that is archived, as far as known.
	// +optional
	RecoverableTo *metav1.Time `json:"recoverableTo,omitempty"`
	// MissingWAL names the first segment that is missing between the oldest backup and the end; points before it can be
	// reached from older backups, up to there. Empty: none is missing.
	// +optional
	MissingWAL string `json:"missingWAL,omitempty"`
	// LogicalBytes of all backups: what a restore of each would write.
	// +optional
	LogicalBytes int64 `json:"logicalBytes,omitempty"`
	// StoredBytes of all backups.
	// +optional
	StoredBytes int64 `json:"storedBytes,omitempty"`
	// WALBytes is the size of the WAL as stored.
	// +optional
	WALBytes int64 `json:"walBytes,omitempty"`
	// FirstSeen is when the backup-controller saw the lineage first. Once nobody here writes the lineage any more, the time
	// between LastWritten and FirstSeen is not counted by spec.retention. Of lineages that are not in this list nothing is
	// known but that they are there now.
	// +optional
	FirstSeen *metav1.Time `json:"firstSeen,omitempty"`
	// LastWritten is when WAL was archived last.
	// +optional
	LastWritten *metav1.Time `json:"lastWritten,omitempty"`
	// LastBackup is when the newest backup ended.
	// +optional
	LastBackup *metav1.Time `json:"lastBackup,omitempty"`
	// LastFailure is when a Backup failed last, of those that are there.
	// +optional
	LastFailure *metav1.Time `json:"lastFailure,omitempty"`
}

// RetentionStatus says what retention has done.
type RetentionStatus struct {
	// LastRun is when it ran to its end last.
	// +optional
	LastRun *metav1.Time `json:"lastRun,omitempty"`
	// NextRun is when it runs next, at the latest.
	// +optional
	NextRun *metav1.Time `json:"nextRun,omitempty"`
	// LastRemoval is when a run ended that had removed something.
	// +optional
	LastRemoval *metav1.Time `json:"lastRemoval,omitempty"`
	// RemovedBackups by that run.
	// +optional
	RemovedBackups int32 `json:"removedBackups,omitempty"`
	// RemovedWAL is the number of WAL files that it removed.
	// +optional
	RemovedWAL int32 `json:"removedWAL,omitempty"`
	// RemovedBytes of WAL, and of packs that nothing needed; what goes with a Backup object is not in it.
	// +optional
	RemovedBytes int64 `json:"removedBytes,omitempty"`
	// WouldRemove are the backups that go, or with dryRun would, as lineage/id; at most fifty, the oldest first.
	// +optional
	WouldRemove []string `json:"wouldRemove,omitempty"`
	// WouldRemoveCount is how many they are.
	// +optional
	WouldRemoveCount int32 `json:"wouldRemoveCount,omitempty"`
	// Message says what is waited for, or what went wrong.
	// +optional
	Message string `json:"message,omitempty"`
}
