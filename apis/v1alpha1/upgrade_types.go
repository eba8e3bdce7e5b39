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
// +kubebuilder:printcolumn:name="Automatic",type=boolean,JSONPath=`.spec.automatic`,priority=1
// +kubebuilder:printcolumn:name="Succeeded",type=string,JSONPath=`.status.conditions[?(@.type=="Succeeded")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Succeeded")].reason`
// +kubebuilder:printcolumn:name="Confirmed",type=string,JSONPath=`.status.conditions[?(@.type=="Confirmed")].reason`
// +kubebuilder:printcolumn:name="Until",type=string,format=date-time,JSONPath=`.status.confirmBy`,priority=1
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.progress.phase`
// +kubebuilder:printcolumn:name="Rehearsal",type=string,JSONPath=`.status.rehearsal.name`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 48",message="metadata.name is too long: the Jobs of the upgrade are named after it; use at most 48 characters"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.decision) || self.spec.decision != 'RollBack' || has(oldSelf.spec.decision) || !has(self.status) || !has(self.status.decided) || self.status.decided.decision != 'Confirm'",message="this upgrade was confirmed, so the previous data is deleted: restore a Backup from before the upgrade into a new cluster with spec.destination.newCluster of a Restore"
type Upgrade struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec UpgradeSpec `json:"spec"`
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
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
// +kubebuilder:validation:XValidation:rule="self.cluster == oldSelf.cluster && self.version == oldSelf.version && self.checkOnly == oldSelf.checkOnly && has(self.image) == has(oldSelf.image) && (!has(self.image) || self.image == oldSelf.image) && (has(self.dropLogicalSlots) && self.dropLogicalSlots) == (has(oldSelf.dropLogicalSlots) && oldSelf.dropLogicalSlots)",message="spec.cluster, spec.version, spec.image, spec.checkOnly and spec.dropLogicalSlots can't be changed: create another Upgrade"
// +kubebuilder:validation:XValidation:rule="has(self.rehearsal) == has(oldSelf.rehearsal) && (!has(self.rehearsal) || self.rehearsal == oldSelf.rehearsal)",message="spec.rehearsal can't be changed: create another Upgrade, since a rehearsal never becomes an upgrade of the cluster itself"
// +kubebuilder:validation:XValidation:rule="!has(self.rehearsal) || !self.checkOnly && !has(self.decision) && !has(self.confirmWithin) && !has(self.maxDowntime) && !(has(self.safetyBackup) && self.safetyBackup)",message="spec.rehearsal upgrades a copy, which is deleted afterwards: remove spec.checkOnly, spec.decision, spec.confirmWithin, spec.maxDowntime and spec.safetyBackup, or spec.rehearsal"
// +kubebuilder:validation:XValidation:rule="(has(self.transfer) && self.transfer == 'Link') == (has(oldSelf.transfer) && oldSelf.transfer == 'Link')",message="spec.transfer can't be changed: create another Upgrade"
// +kubebuilder:validation:XValidation:rule="!has(self.rehearsal) || !has(self.transfer) || self.transfer != 'Link'",message="spec.rehearsal upgrades a copy with one instance, and spec.transfer: Link needs a replica to go back to: remove spec.transfer, and the rehearsal copies files"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.decision) || has(self.decision) && self.decision == oldSelf.decision",message="spec.decision can't be changed once it is made: create another Upgrade to go the other way"
// +kubebuilder:validation:XValidation:rule="(has(self.automatic) && self.automatic) == (has(oldSelf.automatic) && oldSelf.automatic)",message="spec.automatic can't be changed: create another Upgrade"
// +kubebuilder:validation:XValidation:rule="!(has(self.automatic) && self.automatic) || !has(self.rehearsal)",message="spec.automatic applies to an upgrade of the cluster itself: remove it, or spec.rehearsal"
// +kubebuilder:validation:XValidation:rule="!self.checkOnly || !has(self.decision) && !has(self.confirmWithin) && !(has(self.safetyBackup) && self.safetyBackup)",message="spec.decision, spec.confirmWithin and spec.safetyBackup apply to an upgrade that is carried out: remove them, or spec.checkOnly"
type UpgradeSpec struct {
	// Cluster is the PostgresCluster, in the same namespace.
	Cluster LocalReference `json:"cluster"`
	// Version is the major version to reach.
	// +kubebuilder:validation:XValidation:rule="self in [15, 17, 18]",message="spec.version must be 15, 17 or 18, the versions that Howdah is tested with: 14 is no longer maintained, and 16 was never run"
	Version int32 `json:"version"`
	// Image of PostgreSQL of that version. By default, the suite's image for it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	Image string `json:"image,omitempty"`
	// CheckOnly checks whether the upgrade would work, without downtime and without touching anything.
	// +optional
	// +kubebuilder:default=false
	CheckOnly bool `json:"checkOnly"`
	// Rehearsal carries the upgrade out on a temporary copy that is restored from the latest backup, checks the result, and deletes the
	// copy. The cluster itself is not touched. Without it, the cluster is upgraded.
	// +optional
	Rehearsal *Rehearsal `json:"rehearsal,omitempty"`
	// Automatic makes the upgrade follow spec.updates of its cluster: the cluster is stopped only while spec.updates.major is Automatic and the
	// window is open, and after a backup of what runs if it has a repository. The upgrade-controller sets it in the Upgrades that it
	// creates because of that policy.
	// +optional
	Automatic bool `json:"automatic,omitempty"`
	// DropLogicalSlots consents to the loss of logical replication slots, which an upgrade from a version below 17 can't carry over: each
	// subscriber has to start over. Without it, the check refuses such an upgrade.
	// +optional
	DropLogicalSlots bool `json:"dropLogicalSlots,omitempty"`
	// Transfer is how files of tables and indexes come into the new data. Link shares them with the old data, so that the downtime
	// doesn't grow with the size of the database on a filesystem without reflinks. The way back is then the volume of a replica, which has to
	// be there. The default is Copy, which clones files where the filesystem can do that.
	// +optional
	Transfer UpgradeTransfer `json:"transfer,omitempty"`
	// MaxDowntime bounds how long the cluster accepts no connections, such as 30m, from when it is being stopped until it runs on
	// the new data. After that it continues with its previous data. By default, only the start on the new data is bounded, and with automatic,
	// spec.updates.maxDowntime of the cluster applies.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= duration('1m') && self <= duration('168h')",message="spec.maxDowntime must be from 1m to 168h, such as 30m: stopping and starting takes some of it"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:MaxLength=32
	MaxDowntime *metav1.Duration `json:"maxDowntime,omitempty"`
	// Cancel ends an upgrade that is not handed over yet; the cluster stays on the old version.
	// +optional
	Cancel bool `json:"cancel,omitempty"`
	// Decision about an upgrade whose cluster has run on the new version: Confirm deletes the previous data, RollBack brings it and the
	// old version back, and deletes the new data with everything that was written to it.
	// +optional
	Decision UpgradeDecision `json:"decision,omitempty"`
	// ConfirmWithin is how long the previous data is kept, such as 24h, from when the cluster accepts connections on the new version.
	// After that the upgrade is confirmed, once it has succeeded and the cluster is Ready. It may be changed until then. The default is 24h.
	// While the cluster has a repository, nothing is deleted before a backup of the new version has succeeded.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= duration('0s') && self <= duration('8760h')",message="spec.confirmWithin must be from 0s to 8760h, such as 24h; 0s confirms at once"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:MaxLength=32
	ConfirmWithin *metav1.Duration `json:"confirmWithin,omitempty"`
	// SafetyBackup takes a backup of the new data before decision RollBack stops the cluster. What was written to the new version can then
	// be restored into a new cluster. It may be changed until it is taken.
	// +optional
	SafetyBackup bool `json:"safetyBackup,omitempty"`
	// TTLSecondsAfterFinished deletes the Upgrade this long after it ended, and its previous data was deleted or brought back. By default, it is never deleted.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// UpgradeTransfer is how an upgrade brings files over.
// +kubebuilder:validation:Enum=Copy;Link
type UpgradeTransfer string

const (
	// TransferCopy writes new files, and leaves the old ones as they are.
	TransferCopy UpgradeTransfer = "Copy"
	// TransferLink shares the files. The old data can't be used on that volume any more.
	TransferLink UpgradeTransfer = "Link"
)

// UpgradeDecision is the decision about an upgrade.
// +kubebuilder:validation:Enum=Confirm;RollBack
type UpgradeDecision string

const (
	// UpgradeConfirm keeps the new version, and deletes the previous data.
	UpgradeConfirm UpgradeDecision = "Confirm"
	// UpgradeRollBack brings the old version and its data back, and deletes the new data.
	UpgradeRollBack UpgradeDecision = "RollBack"
)

// DecidedUpgrade is a decision that was made.
type DecidedUpgrade struct {
	// Decision that is carried out.
	Decision UpgradeDecision `json:"decision"`
	// Why says who or what decided.
	Why string `json:"why"`
	// At is when it was decided.
	At metav1.Time `json:"at"`
}

// UpgradeStatus is the observed state of an upgrade. Written by the upgrade-controller; progress by its Jobs.
type UpgradeStatus struct {
	// ObservedGeneration is the metadata.generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions: Succeeded, Checked, Confirmed.
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
	// Link says how the way back was found, with spec.transfer Link.
	// +optional
	Link *LinkStatus `json:"link,omitempty"`
	// BackupRequest requests the prior backup, the first backup of the new lineage, or the safety backup, from the backup-controller.
	// +optional
	BackupRequest *BackupRequest `json:"backupRequest,omitempty"`
	// SafetyBackup is the Backup that was taken before the new data was given up.
	// +optional
	SafetyBackup string `json:"safetyBackup,omitempty"`
	// PriorBackup is the Backup of the old version that was taken before the cluster was stopped, for an automatic upgrade.
	// +optional
	PriorBackup string `json:"priorBackup,omitempty"`
	// Successor is the Upgrade that was created after this automatic check. It is created once, so none follows it if it is deleted.
	// +optional
	Successor *SuccessorUpgrade `json:"successor,omitempty"`
	// PreviousBytes are how much space the previous data takes on the volume of the primary. Each replica keeps as much.
	// +optional
	PreviousBytes int64 `json:"previousBytes,omitempty"`
	// Written says how much was written to the new data, and would be lost with decision RollBack. It is updated about once a minute.
	// +optional
	Written *WrittenData `json:"written,omitempty"`
	// Decided is the decision about the upgrade. Once it is here, it is carried out.
	// +optional
	Decided *DecidedUpgrade `json:"decided,omitempty"`
	// SettledAt is when the decision was carried out: the previous data was deleted or brought back, or can't be.
	// +optional
	SettledAt *metav1.Time `json:"settledAt,omitempty"`
	// Rehearsal is what was done on the copy, and how long each part took.
	// +optional
	Rehearsal *RehearsalStatus `json:"rehearsal,omitempty"`
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

// LinkStatus is how a linked upgrade has found the volume to go back to, which is that of status.previous.
type LinkStatus struct {
	// Volumes whose data is compared, that of the primary first. It is recorded before they are looked at.
	// +listType=atomic
	Volumes []LockedVolume `json:"volumes"`
	// Timeline that the primary was on.
	// +optional
	Timeline int64 `json:"timeline,omitempty"`
	// Checkpoint is the LSN of the one with which the primary was shut down, and which the replica has that is the way back. It is
	// recorded before anything is linked; from then on the previous data on the volume of the primary is not used any more.
	// +optional
	Checkpoint string `json:"checkpoint,omitempty"`
}

// SuccessorUpgrade is the Upgrade that does what an automatic one has checked.
type SuccessorUpgrade struct {
	// Name of the Upgrade.
	Name string `json:"name"`
	// UID of it.
	UID types.UID `json:"uid"`
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
	// ConditionConfirmed says whether the cluster stays on the new version for good. It is Unknown while the previous data is kept.
	ConditionConfirmed = "Confirmed"

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
	// ReasonConfirmed: the previous data is deleted.
	ReasonConfirmed = "Confirmed"
	// ReasonRolledBack: it failed, or a person decided so, and the old version runs again.
	ReasonRolledBack = "RolledBack"
	// ReasonAwaitingWindow: an automatic upgrade waits until the policy of its cluster lets it begin, and the message says for what.
	ReasonAwaitingWindow = "AwaitingWindow"
	// ReasonNoWayBack: spec.transfer is Link, and there is no replica to go back to. Nothing was linked.
	ReasonNoWayBack = "NoWayBack"
	// ReasonFinishing: the new version runs; extensions and statistics are being updated.
	ReasonFinishing = "Finishing"
)
