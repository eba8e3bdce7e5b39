package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BackupVerify requests one verification.
type BackupVerify struct {
	// Token is any text; a new value requests another verification.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Token string `json:"token,omitempty"`
	// MaxBytesPerSecond limits what is read from the repository, such as 50Mi. By default, spec.verify.maxBytesPerSecond of
	// the BackupRepository applies, or there is no limit.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('64Ki')) >= 0",message="spec.verify.maxBytesPerSecond is too little for a verification to finish: use 64Ki or more, or remove it for no limit"
	MaxBytesPerSecond *resource.Quantity `json:"maxBytesPerSecond,omitempty"`
}

// RepositoryVerify verifies the backups of a repository on a schedule.
type RepositoryVerify struct {
	// Schedule as a cron expression with five fields, such as "0 4 * * 0", or @daily, @weekly, @monthly. At each of these
	// times, every backup that had finished by then is verified, one after the other.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.startsWith('@') ? self in ['@hourly','@daily','@weekly','@monthly','@yearly'] : self.trim().split(' ').filter(f, f != '').size() == 5",message="spec.verify.schedule must have five fields (minute hour day-of-month month day-of-week), such as '0 4 * * 0' for every Sunday at 4, or be one of @hourly, @daily, @weekly, @monthly, @yearly"
	Schedule string `json:"schedule"`
	// TimeZone of the schedule, such as Europe/Berlin.
	// +optional
	// +kubebuilder:default=UTC
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
	// MaxBytesPerSecond limits what is read from the repository, such as 50Mi. By default, there is no limit.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('64Ki')) >= 0",message="spec.verify.maxBytesPerSecond is too little for a verification to finish: use 64Ki or more, or remove it for no limit"
	MaxBytesPerSecond *resource.Quantity `json:"maxBytesPerSecond,omitempty"`
}

// BackupVerification is one reading of all objects of a backup. It is fixed before its Job starts, so that every repeat
// does the same.
type BackupVerification struct {
	// Token of spec.verify that was last acted on, by this verification or, if the schedule of the BackupRepository
	// requested this one, by an earlier one.
	// +optional
	Token *string `json:"token,omitempty"`
	// Attempt counts the Jobs of this verification, from 1.
	Attempt int32 `json:"attempt"`
	// MemoryBytes is the memory limit of the Job if an earlier attempt said that the usual one is too little for the number of
	// files in the backup.
	// +optional
	MemoryBytes int64 `json:"memoryBytes,omitempty"`
	// StartedAt is when it began.
	StartedAt metav1.Time `json:"startedAt"`
	// CompletedAt is when it ended or was abandoned.
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`
	// Objects is the number of objects that were read: manifest, packs and WAL.
	// +optional
	Objects int64 `json:"objects,omitempty"`
	// CheckedBytes is the number of bytes that were read.
	// +optional
	CheckedBytes int64 `json:"checkedBytes,omitempty"`
	// WrongObjects is how many objects are missing or not what was stored, as the last complete reading found.
	// +optional
	WrongObjects int64 `json:"wrongObjects,omitempty"`
	// Wrong lists the first of them, at most ten.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Wrong []WrongObject `json:"wrong,omitempty"`
}

// WrongObject is an object in a repository that is missing or not what was stored.
type WrongObject struct {
	// Object is its key, below the prefix of the repository.
	Object string `json:"object"`
	// File of the data directory that can't be restored without it; empty if it is more than one file.
	// +optional
	File string `json:"file,omitempty"`
	// Detail says what is wrong.
	Detail string `json:"detail"`
}

// RepositoryVerification summarizes the verifications of a repository. Written by the backup-controller.
type RepositoryVerification struct {
	// LastScheduleTime is the last time of spec.verify.schedule that has passed: backups that had finished by then and were
	// not verified since are due.
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`
	// NextScheduleTime is the next time of spec.verify.schedule.
	// +optional
	NextScheduleTime *metav1.Time `json:"nextScheduleTime,omitempty"`
	// OldestVerifiedAt is the time of the oldest of the latest verifications of its backups; empty while a backup was never
	// verified.
	// +optional
	OldestVerifiedAt *metav1.Time `json:"oldestVerifiedAt,omitempty"`
	// Backups is the number of backups that have succeeded.
	// +optional
	Backups int32 `json:"backups,omitempty"`
	// VerifiedBackups is the number of backups whose objects were all found intact.
	// +optional
	VerifiedBackups int32 `json:"verifiedBackups,omitempty"`
	// WrongBackups lists the backups that have objects that are missing or not what was stored, at most twenty.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	WrongBackups []string `json:"wrongBackups,omitempty"`
}

// Condition Verified of a Backup and of a BackupRepository, and its reasons. Written by the backup-controller; read by
// people and by whoever chooses a backup to restore.
const (
	// ConditionVerified says whether every object was read and is what was stored. It is Unknown until all were read for
	// the first time.
	ConditionVerified = "Verified"

	// ReasonVerified: every object was read and is what was stored.
	ReasonVerified = "Verified"
	// ReasonVerifying: the objects are being read.
	ReasonVerifying = "Verifying"
	// ReasonAwaitingVerification: other backups are read first.
	ReasonAwaitingVerification = "AwaitingVerification"
	// ReasonDataCorrupt (see Restore): an object is missing or not what was stored.

	// ReasonManifestMissing: the inventory of the repository found that the manifest of the backup was deleted.
	ReasonManifestMissing = "ManifestMissing"
	// ReasonNotVerifiedYet: some backups in the repository were never verified.
	ReasonNotVerifiedYet = "NotVerifiedYet"
)
