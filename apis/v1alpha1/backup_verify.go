package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BackupVerify asks for one verification.
type BackupVerify struct {
	// Token is any word; another one asks for another verification.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Token string `json:"token,omitempty"`
	// MaxBytesPerSecond bounds what is read from the repository, such as 50Mi. Left out: spec.verify.maxBytesPerSecond of
	// the BackupRepository, or no bound.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('64Ki')) >= 0",message="spec.verify.maxBytesPerSecond is too little for a verification to end: write 64Ki or more, or leave it out for no bound"
	MaxBytesPerSecond *resource.Quantity `json:"maxBytesPerSecond,omitempty"`
}

// RepositoryVerify has the backups of a repository verified again and again.
type RepositoryVerify struct {
	// Schedule in cron's form with five fields, such as "0 4 * * 0", or @daily, @weekly, @monthly. After each time that it
	// names, every backup that was done before is verified, one after the other.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.startsWith('@') ? self in ['@hourly','@daily','@weekly','@monthly','@yearly'] : self.trim().split(' ').filter(f, f != '').size() == 5",message="spec.verify.schedule must have five fields (minute hour day-of-month month day-of-week), such as '0 4 * * 0' for every Sunday at 4, or be one of @hourly, @daily, @weekly, @monthly, @yearly"
	Schedule string `json:"schedule"`
	// TimeZone of the schedule, such as Europe/Berlin.
	// +optional
	// +kubebuilder:default=UTC
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
	// MaxBytesPerSecond bounds what is read from the repository, such as 50Mi. Left out: no bound.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('64Ki')) >= 0",message="spec.verify.maxBytesPerSecond is too little for a verification to end: write 64Ki or more, or leave it out for no bound"
	MaxBytesPerSecond *resource.Quantity `json:"maxBytesPerSecond,omitempty"`
}

// BackupVerification is one reading of all objects of a backup. It is fixed before its Job starts, so that every repeat
// does the same.
type BackupVerification struct {
	// Token of spec.verify that was answered last, by this one or, where the schedule of the BackupRepository asked for
	// it, by one before.
	// +optional
	Token *string `json:"token,omitempty"`
	// Attempt counts the Jobs of this verification, from 1.
	Attempt int32 `json:"attempt"`
	// StartedAt is when it was begun.
	StartedAt metav1.Time `json:"startedAt"`
	// CompletedAt is when it ended, or was given up.
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`
	// Objects that were read: manifest, packs and WAL.
	// +optional
	Objects int64 `json:"objects,omitempty"`
	// CheckedBytes that were read.
	// +optional
	CheckedBytes int64 `json:"checkedBytes,omitempty"`
	// WrongObjects is how many are missing or not what was stored, as was found when all of them were last read.
	// +optional
	WrongObjects int64 `json:"wrongObjects,omitempty"`
	// Wrong are the first of them, ten at most.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Wrong []WrongObject `json:"wrong,omitempty"`
}

// WrongObject is an object in a repository that is missing or not what was stored.
type WrongObject struct {
	// Object is its key, below the prefix of the repository.
	Object string `json:"object"`
	// File of the data directory that can't be restored without it; left out where it is more than one file.
	// +optional
	File string `json:"file,omitempty"`
	// Detail says what is wrong.
	Detail string `json:"detail"`
}

// RepositoryVerification is how the backups of a repository stand. Written by the backup-controller.
type RepositoryVerification struct {
	// LastScheduleTime is the last time of spec.verify.schedule that has come: backups that were done before and not
	// verified since are due.
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`
	// NextScheduleTime is when the next time of spec.verify.schedule comes.
	// +optional
	NextScheduleTime *metav1.Time `json:"nextScheduleTime,omitempty"`
	// OldestVerifiedAt is when the one of its backups that was verified the longest time ago was verified; left out while
	// there is one that never was.
	// +optional
	OldestVerifiedAt *metav1.Time `json:"oldestVerifiedAt,omitempty"`
	// Backups that have succeeded.
	// +optional
	Backups int32 `json:"backups,omitempty"`
	// VerifiedBackups are those whose objects were all found right.
	// +optional
	VerifiedBackups int32 `json:"verifiedBackups,omitempty"`
	// WrongBackups are the names of those that have objects that are missing or not what was stored, twenty at most.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	WrongBackups []string `json:"wrongBackups,omitempty"`
}

// Condition Verified of a Backup and of a BackupRepository, and its reasons. Written by the backup-controller; read by
// people and by whoever chooses a backup to restore.
const (
	// ConditionVerified: every object was read and is what was stored. Unknown while it is being read, and where it could
	// not be.
	ConditionVerified = "Verified"

	// ReasonVerified: every object was read and is what was stored.
	ReasonVerified = "Verified"
	// ReasonVerifying: the objects are being read.
	ReasonVerifying = "Verifying"
	// ReasonAwaitingVerification: it will be read when its turn comes.
	ReasonAwaitingVerification = "AwaitingVerification"
	// ReasonDataCorrupt (see Restore): an object is missing or not what was stored.

	// ReasonNotVerifiedYet: there are backups in the repository that were never verified.
	ReasonNotVerifiedYet = "NotVerifiedYet"
)
