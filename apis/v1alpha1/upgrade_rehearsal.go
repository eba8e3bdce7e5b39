package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Rehearsal carries an upgrade out on a copy of the cluster.
type Rehearsal struct {
	// Assertions that must hold in the databases of the upgraded copy, in addition to what pg_amcheck checks.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Assertions []DrillAssertion `json:"assertions,omitempty"`
	// Storage of the copy. Its volume must have space for the data of both versions. By default, that of the cluster.
	// +optional
	Storage *NewStorage `json:"storage,omitempty"`
	// Resources of the copy. By default, those of the cluster.
	// +optional
	Resources *Resources `json:"resources,omitempty"`
	// TimeoutSeconds is how long a rehearsal may take before it has failed. The default is a day.
	// +optional
	// +kubebuilder:default=86400
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=604800
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
}

// RehearsalStatus is one rehearsal. Its name is fixed before anything is created, so that every repeat does the same.
type RehearsalStatus struct {
	// Name of the Restore, of the PostgresCluster that it creates, and of the Upgrade of that.
	Name string `json:"name"`
	// RestoreUID is the UID of the Restore, once it exists.
	// +optional
	RestoreUID types.UID `json:"restoreUID,omitempty"`
	// UpgradeUID is the UID of the Upgrade of the copy, once it exists.
	// +optional
	UpgradeUID types.UID `json:"upgradeUID,omitempty"`
	// BackupID of the backup that was restored.
	// +optional
	BackupID string `json:"backupID,omitempty"`
	// LastCommit is the time of the last commit that was restored.
	// +optional
	LastCommit *metav1.MicroTime `json:"lastCommit,omitempty"`
	// RestoreSeconds from the creation of the Restore until the copy accepted connections.
	// +optional
	RestoreSeconds int64 `json:"restoreSeconds,omitempty"`
	// PreflightSeconds is how long the check of the upgrade took, during which a cluster serves.
	// +optional
	PreflightSeconds int64 `json:"preflightSeconds,omitempty"`
	// DowntimeSeconds is how long the copy accepted no connections: the downtime to expect.
	// +optional
	DowntimeSeconds int64 `json:"downtimeSeconds,omitempty"`
	// MaintenanceSeconds is how long statistics, extensions and indexes of changed collations took after that, beside clients.
	// +optional
	MaintenanceSeconds int64 `json:"maintenanceSeconds,omitempty"`
	// PreviousBytes are how much space the data of the old version took on the volume.
	// +optional
	PreviousBytes int64 `json:"previousBytes,omitempty"`
	// CheckSeconds is how long pg_amcheck and the assertions took.
	// +optional
	CheckSeconds int64 `json:"checkSeconds,omitempty"`
	// Outcome of the rehearsal, once it has one. What it has created is then deleted.
	// +optional
	Outcome RehearsalOutcome `json:"outcome,omitempty"`
	// Reason of the condition Succeeded, once there is an outcome.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message says what the rehearsal waits for, or what it found.
	// +optional
	Message string `json:"message,omitempty"`
}

// RehearsalOutcome is how a rehearsal ended.
// +kubebuilder:validation:Enum=Succeeded;Failed
type RehearsalOutcome string

const (
	// RehearsalSucceeded: the copy was upgraded, and all checks passed.
	RehearsalSucceeded RehearsalOutcome = "Succeeded"
	// RehearsalFailed: the copy could not be restored, upgraded or checked, or a check failed.
	RehearsalFailed RehearsalOutcome = "Failed"
)

// Reasons of the condition Succeeded of an Upgrade with spec.rehearsal.
const (
	// ReasonRehearsing: a copy is being restored, upgraded, checked or deleted.
	ReasonRehearsing = "Rehearsing"
	// ReasonRehearsalFailed: the copy could not be upgraded.
	ReasonRehearsalFailed = "RehearsalFailed"
	// ReasonRehearsalTimedOut: the rehearsal took longer than spec.rehearsal.timeoutSeconds.
	ReasonRehearsalTimedOut = "RehearsalTimedOut"
	// ReasonRestoreFailed, ReasonAssertionFailed, ReasonDataCorrupt (see BackupRepository): of the copy.
	// ReasonBackupNotFound (see Restore): there is nothing to restore.
)
