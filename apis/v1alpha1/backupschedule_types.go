package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BackupSchedule makes Backups of a PostgresCluster at set times.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=pgbs,categories=howdah
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.cluster.name`
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=`.spec.schedule`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Last",type=date,JSONPath=`.status.lastScheduleTime`
// +kubebuilder:printcolumn:name="Success",type=date,JSONPath=`.status.lastSuccessTime`
// +kubebuilder:printcolumn:name="Next",type=string,JSONPath=`.status.nextScheduleTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 41",message="metadata.name is too long: Backups are named after it and the time; use at most 41 characters"
type BackupSchedule struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec BackupScheduleSpec `json:"spec"`
	// +optional
	Status BackupScheduleStatus `json:"status,omitempty"`
}

// BackupScheduleList is a list of BackupSchedules.
// +kubebuilder:object:root=true
type BackupScheduleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []BackupSchedule `json:"items"`
}

// BackupScheduleSpec says when to back up what.
type BackupScheduleSpec struct {
	// Cluster is the PostgresCluster to back up, in the same namespace.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.cluster can't be changed: make another BackupSchedule"
	Cluster LocalReference `json:"cluster"`
	// Schedule in cron's form with five fields, such as "0 3 * * *", or @hourly, @daily, @weekly, @monthly.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.startsWith('@') ? self in ['@hourly','@daily','@weekly','@monthly','@yearly'] : self.trim().split(' ').filter(f, f != '').size() == 5",message="spec.schedule must have five fields (minute hour day-of-month month day-of-week), such as '0 3 * * *' for every night at 3, or be one of @hourly, @daily, @weekly, @monthly, @yearly"
	Schedule string `json:"schedule"`
	// TimeZone of the schedule, such as Europe/Berlin. When its clocks go forward, a time of day that they leave out is due
	// at the change; when they go back, one that comes twice is due the first time. A schedule of every hour goes by hours.
	// +optional
	// +kubebuilder:default=UTC
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
	// Type of the Backups that it makes. Where there is nothing yet that an Incremental could build on, it becomes a Full one.
	// +optional
	// +kubebuilder:default=Full
	Type BackupType `json:"type,omitempty"`
	// Suspend makes no new Backups while true.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// ConcurrencyPolicy says what happens when the Backup of before is not done yet: Forbid skips the new one, Allow
	// makes it (it waits in the queue), Replace cancels the old one.
	// +optional
	// +kubebuilder:default=Forbid
	ConcurrencyPolicy ConcurrencyPolicy `json:"concurrencyPolicy,omitempty"`
	// StartingDeadlineSeconds is how late a Backup may be made, after an outage of the backup-controller or of the API
	// server. One that is later still counts as missed. Left out: one is made, however late.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 60",message="spec.startingDeadlineSeconds is so short that a restart of the controller would miss runs: write 60 or more, or leave it out for no limit"
	StartingDeadlineSeconds *int64 `json:"startingDeadlineSeconds,omitempty"`
	// FailedBackupsHistoryLimit is how many of its Backups that have failed or were cancelled are kept; older ones are
	// deleted, unless they are held. How long the others are kept says spec.retention of the BackupRepository.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:XValidation:rule="self >= 0",message="spec.failedBackupsHistoryLimit must be 0 or more"
	FailedBackupsHistoryLimit *int32 `json:"failedBackupsHistoryLimit,omitempty"`
	// DeletionPolicy of the Backups that it makes.
	// +optional
	// +kubebuilder:default=Delete
	DeletionPolicy BackupDeletionPolicy `json:"deletionPolicy,omitempty"`
}

// ConcurrencyPolicy of a schedule.
// +kubebuilder:validation:Enum=Allow;Forbid;Replace
type ConcurrencyPolicy string

const (
	// ConcurrencyAllow lets Backups queue.
	ConcurrencyAllow ConcurrencyPolicy = "Allow"
	// ConcurrencyForbid skips.
	ConcurrencyForbid ConcurrencyPolicy = "Forbid"
	// ConcurrencyReplace cancels the one that runs.
	ConcurrencyReplace ConcurrencyPolicy = "Replace"
)

// BackupScheduleStatus says what the schedule did. Written by the backup-controller alone.
type BackupScheduleStatus struct {
	// ObservedGeneration is the metadata.generation that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions: Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// LastScheduleTime is the time that the last Backup was due.
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`
	// LastBackup is the name of that Backup.
	// +optional
	LastBackup string `json:"lastBackup,omitempty"`
	// NextScheduleTime is when the next one is due.
	// +optional
	NextScheduleTime *metav1.Time `json:"nextScheduleTime,omitempty"`
	// MissedRuns counts times that passed without a Backup.
	// +optional
	MissedRuns int64 `json:"missedRuns,omitempty"`
	// LastSuccessTime is when the last of its Backups that succeeded was done.
	// +optional
	LastSuccessTime *metav1.Time `json:"lastSuccessTime,omitempty"`
	// LastSuccessfulBackup is the name of that Backup; retention may have deleted it since.
	// +optional
	LastSuccessfulBackup string `json:"lastSuccessfulBackup,omitempty"`
}

// Reasons of a BackupSchedule's Ready condition. Written by the backup-controller; read by people.
const (
	// ReasonScheduled: the next Backup has a time.
	ReasonScheduled = "Scheduled"
	// ReasonSuspended: spec.suspend is true.
	ReasonSuspended = "Suspended"
	// ReasonInvalidSchedule: the schedule or its time zone can't be read.
	ReasonInvalidSchedule = "InvalidSchedule"
	// ReasonSkipped: the last time passed because the Backup before was not done.
	ReasonSkipped = "Skipped"
	// ReasonDeadlineExceeded: the last time was found to have passed longer ago than spec.startingDeadlineSeconds.
	ReasonDeadlineExceeded = "DeadlineExceeded"
)
