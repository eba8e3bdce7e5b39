package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BackupSchedule creates Backups of a PostgresCluster at set times.
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
	// +kubebuilder:default={"observedGeneration":-1}
	Status BackupScheduleStatus `json:"status,omitempty"`
}

// BackupScheduleList is a list of BackupSchedules.
// +kubebuilder:object:root=true
type BackupScheduleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []BackupSchedule `json:"items"`
}

// BackupScheduleSpec says what to back up, and when.
type BackupScheduleSpec struct {
	// Cluster is the PostgresCluster to back up, in the same namespace.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.cluster can't be changed: create another BackupSchedule"
	Cluster LocalReference `json:"cluster"`
	// Schedule as a cron expression with five fields, such as "0 3 * * *", or @hourly, @daily, @weekly, @monthly.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.startsWith('@') ? self in ['@hourly','@daily','@weekly','@monthly','@yearly'] : self.trim().split(' ').filter(f, f != '').size() == 5",message="spec.schedule must have five fields (minute hour day-of-month month day-of-week), such as '0 3 * * *' for every night at 3, or be one of @hourly, @daily, @weekly, @monthly, @yearly"
	Schedule string `json:"schedule"`
	// TimeZone of the schedule, such as Europe/Berlin. When its clocks go forward, a time of day that they skip is due
	// at the change; when they go back, one that occurs twice is due the first time. A schedule that runs every hour
	// continues to run once an hour.
	// +optional
	// +kubebuilder:default=UTC
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
	// JitterSeconds delays each Backup by a number of seconds from 0 to this one, so that the schedules of many
	// clusters are not due at the same moment. The delay of a schedule is always the same. By default, there is no
	// delay.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0 && self <= 43200",message="spec.jitterSeconds must be from 0 to 43200 (12 hours), such as 3600 to spread Backups over an hour"
	JitterSeconds int64 `json:"jitterSeconds,omitempty"`
	// Type of the Backups that it creates. If there is nothing yet that an Incremental could build on, it becomes a Full
	// one.
	// +optional
	// +kubebuilder:default=Full
	Type BackupType `json:"type,omitempty"`
	// Suspend creates no new Backups while it is true.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// ConcurrencyPolicy says what happens if the previous Backup has not finished: Forbid skips the new one, Allow creates
	// it (it waits in the queue), Replace cancels the old one.
	// +optional
	// +kubebuilder:default=Forbid
	ConcurrencyPolicy ConcurrencyPolicy `json:"concurrencyPolicy,omitempty"`
	// StartingDeadlineSeconds is how late a Backup may be created, after an outage of the backup-controller or of the
	// API server. A later one counts as missed. By default, it is created, however late.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 60",message="spec.startingDeadlineSeconds is so short that a restart of the controller would miss runs: use 60 or more, or remove it for no limit"
	StartingDeadlineSeconds *int64 `json:"startingDeadlineSeconds,omitempty"`
	// FailedBackupsHistoryLimit is how many of its failed or cancelled Backups are kept; older ones are deleted, unless
	// they are held. spec.retention of the BackupRepository decides about the others.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:XValidation:rule="self >= 0",message="spec.failedBackupsHistoryLimit must be 0 or more"
	FailedBackupsHistoryLimit *int32 `json:"failedBackupsHistoryLimit,omitempty"`
	// DamagedPages of the Backups that it creates: whether they fail if pages of the database fail their checksum, or are
	// taken and list these pages.
	// +optional
	// +kubebuilder:default=Fail
	DamagedPages DamagedPagesPolicy `json:"damagedPages,omitempty"`
	// Resources of the Jobs of the Backups that it creates, instead of the usual ones.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.limits) || !('memory' in self.limits) || quantity(string(self.limits['memory'])).compareTo(quantity('192Mi')) >= 0",message="spec.resources.limits.memory is too little for the Job: use 192Mi or more, or remove it for 256Mi"
	// +kubebuilder:validation:XValidation:rule="!has(self.limits) || !has(self.requests) || !('cpu' in self.limits) || !('cpu' in self.requests) || quantity(string(self.requests['cpu'])).compareTo(quantity(string(self.limits['cpu']))) <= 0",message="spec.resources requests more cpu than its limit: use a request that is at most the limit"
	// +kubebuilder:validation:XValidation:rule="!has(self.limits) || !has(self.requests) || !('memory' in self.limits) || !('memory' in self.requests) || quantity(string(self.requests['memory'])).compareTo(quantity(string(self.limits['memory']))) <= 0",message="spec.resources requests more memory than its limit: use a request that is at most the limit"
	Resources *Resources `json:"resources,omitempty"`
	// DeletionPolicy of the Backups that it creates.
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
	// ConcurrencyForbid skips the new Backup.
	ConcurrencyForbid ConcurrencyPolicy = "Forbid"
	// ConcurrencyReplace cancels the running Backup.
	ConcurrencyReplace ConcurrencyPolicy = "Replace"
)

// BackupScheduleStatus is the observed state of a schedule. Written by the backup-controller alone.
type BackupScheduleStatus struct {
	// ObservedGeneration is the metadata.generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions: Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// LastScheduleTime is when the last Backup was due.
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`
	// LastBackup is the name of that Backup.
	// +optional
	LastBackup string `json:"lastBackup,omitempty"`
	// NextScheduleTime is when the next Backup is due, after the delay of spec.jitterSeconds.
	// +optional
	NextScheduleTime *metav1.Time `json:"nextScheduleTime,omitempty"`
	// MissedRuns is the number of times that passed without a Backup.
	// +optional
	MissedRuns int64 `json:"missedRuns,omitempty"`
	// LastSuccessTime is when its last successful Backup ended.
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
	// ReasonInvalidSchedule: the schedule or its time zone is invalid.
	ReasonInvalidSchedule = "InvalidSchedule"
	// ReasonSkipped: at the last time, the previous Backup had not finished.
	ReasonSkipped = "Skipped"
	// ReasonDeadlineExceeded: the last time was noticed later than spec.startingDeadlineSeconds.
	ReasonDeadlineExceeded = "DeadlineExceeded"
)
