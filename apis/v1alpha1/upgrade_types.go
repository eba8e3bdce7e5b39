package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Upgrade takes a PostgresCluster to a higher major version.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=pgu,categories=howdah
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.cluster.name`
// +kubebuilder:printcolumn:name="From",type=integer,JSONPath=`.status.plan.fromVersion`
// +kubebuilder:printcolumn:name="To",type=integer,JSONPath=`.spec.version`
// +kubebuilder:printcolumn:name="Check",type=boolean,JSONPath=`.spec.checkOnly`
// +kubebuilder:printcolumn:name="Succeeded",type=string,JSONPath=`.status.conditions[?(@.type=="Succeeded")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Succeeded")].reason`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.progress.phase`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 48",message="metadata.name is too long: the Jobs of the upgrade are named after it; use at most 48 characters"
type Upgrade struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec UpgradeSpec `json:"spec"`
	// +optional
	Status UpgradeStatus `json:"status,omitempty"`
}

// UpgradeList is a list of Upgrades.
// +kubebuilder:object:root=true
type UpgradeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Upgrade `json:"items"`
}

// UpgradeSpec says which cluster to upgrade, and to which version.
// +kubebuilder:validation:XValidation:rule="self.cluster == oldSelf.cluster && self.version == oldSelf.version && self.checkOnly == oldSelf.checkOnly && has(self.image) == has(oldSelf.image) && (!has(self.image) || self.image == oldSelf.image)",message="spec.cluster, spec.version, spec.image and spec.checkOnly can't be changed: create another Upgrade"
type UpgradeSpec struct {
	// Cluster is the PostgresCluster, in the same namespace.
	Cluster LocalReference `json:"cluster"`
	// Version is the major version to reach.
	// +kubebuilder:validation:Minimum=14
	// +kubebuilder:validation:Maximum=99
	Version int32 `json:"version"`
	// Image of PostgreSQL of that version. By default, the suite's image for it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	Image string `json:"image,omitempty"`
	// CheckOnly checks whether the upgrade would work, without downtime and without touching anything.
	// +optional
	// +kubebuilder:default=false
	CheckOnly bool `json:"checkOnly"`
	// MaxDowntime bounds how long the cluster accepts no connections, such as 30m, from when it is being stopped until it runs on
	// the new data. After that it goes on with its previous data. By default, only the start on the new data is bounded.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= duration('1m') && self <= duration('168h')",message="spec.maxDowntime must be from 1m to 168h, such as 30m: stopping and starting takes some of it"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:MaxLength=32
	MaxDowntime *metav1.Duration `json:"maxDowntime,omitempty"`
	// Cancel ends an upgrade that is not handed over yet; the cluster stays on the old version.
	// +optional
	Cancel bool `json:"cancel,omitempty"`
	// TTLSecondsAfterFinished deletes the Upgrade this long after it ended. By default, it is never deleted.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// UpgradeStatus is the observed state of an upgrade. Written by the upgrade-controller; progress by its Jobs.
type UpgradeStatus struct {
	// ObservedGeneration is the metadata.generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions: Succeeded, Checked.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Plan is fixed before anything is touched.
	// +optional
	Plan *UpgradePlan `json:"plan,omitempty"`
	// Findings of the check.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Findings []Finding `json:"findings,omitempty"`
	// VolumeLockStatus says how far the work on the volumes of the cluster is.
	VolumeLockStatus `json:",inline"`
	// BackupRequest requests the first backup of the new lineage from the backup-controller.
	// +optional
	BackupRequest *BackupRequest `json:"backupRequest,omitempty"`
	// Progress of the Job.
	// +optional
	Progress *Progress `json:"progress,omitempty"`
	// StartedAt is when the plan was made.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// CheckedAt is when the check ended; findings has its results.
	// +optional
	CheckedAt *metav1.Time `json:"checkedAt,omitempty"`
	// UpAt is when it accepted connections again.
	// +optional
	UpAt *metav1.Time `json:"upAt,omitempty"`
	// CompletedAt is when it ended, successfully or not.
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`
}

// UpgradePlan is what an upgrade has decided.
type UpgradePlan struct {
	// ClusterUID is the UID of the cluster.
	ClusterUID types.UID `json:"clusterUID"`
	// FromVersion is the major version that the cluster ran.
	FromVersion int32 `json:"fromVersion"`
	// FromImage is the image that it ran.
	FromImage string `json:"fromImage"`
	// FromGeneration is the data generation that it ran on.
	FromGeneration string `json:"fromGeneration"`
	// FromSystemIdentifier of that generation.
	FromSystemIdentifier string `json:"fromSystemIdentifier"`
	// ToImage is the image that it should run.
	ToImage string `json:"toImage"`
	// ToGeneration is the data generation that the upgrade writes.
	ToGeneration string `json:"toGeneration"`
}

// Finding is one result of the check.
type Finding struct {
	// Severity: Error stops the upgrade, Warning does not.
	Severity FindingSeverity `json:"severity"`
	// Check that reported it, such as PreparedTransactions or ExtensionMissing.
	Check string `json:"check"`
	// Database that it is in.
	// +optional
	Database string `json:"database,omitempty"`
	// Message for a person: what is wrong and what to do.
	Message string `json:"message"`
}

// FindingSeverity of a Finding.
// +kubebuilder:validation:Enum=Error;Warning
type FindingSeverity string

const (
	// FindingError stops the upgrade.
	FindingError FindingSeverity = "Error"
	// FindingWarning is worth knowing.
	FindingWarning FindingSeverity = "Warning"
)

// Conditions and reasons of an Upgrade that are its own. Written by the upgrade-controller; read by people.
const (
	// ConditionChecked says whether the check found no obstacle.
	ConditionChecked = "Checked"

	// ReasonCheckPassed: the check found no obstacle.
	ReasonCheckPassed = "CheckPassed"
	// ReasonCheckFailed: the findings list the obstacles.
	ReasonCheckFailed = "CheckFailed"
	// ReasonChecking: the check runs.
	ReasonChecking = "Checking"
	// ReasonUpgrading: pg_upgrade runs; the cluster is down.
	ReasonUpgrading = "Upgrading"
	// ReasonDowngrade: the version is lower than, or the same as, what runs.
	ReasonDowngrade = "Downgrade"
	// ReasonUnknownVersion: the suite has no image for the version.
	ReasonUnknownVersion = "UnknownVersion"
	// ReasonRolledBack: it failed, and the old version runs again.
	ReasonRolledBack = "RolledBack"
	// ReasonFinishing: the new version runs; extensions and statistics are being updated.
	ReasonFinishing = "Finishing"
)
