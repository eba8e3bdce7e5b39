package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// RepositoryDrill restores a backup of a repository on a schedule and checks it. Each time, a Restore creates a temporary
// PostgresCluster, which is deleted in the end. The cluster that was backed up is not touched.
// +kubebuilder:validation:XValidation:rule="size(self.cluster.name) <= 40 && self.cluster.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="spec.drill.cluster.name must be the name of a PostgresCluster, such as shop"
type RepositoryDrill struct {
	// Schedule as a cron expression with five fields, such as "0 4 * * 0", or @daily, @weekly, @monthly. A time that comes
	// while a drill is under way is skipped.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.startsWith('@') ? self in ['@hourly','@daily','@weekly','@monthly','@yearly'] : self.trim().split(' ').filter(f, f != '').size() == 5",message="spec.drill.schedule must have five fields (minute hour day-of-month month day-of-week), such as '0 4 * * 0' for every Sunday at 4, or be one of @hourly, @daily, @weekly, @monthly, @yearly"
	Schedule string `json:"schedule"`
	// TimeZone of the schedule, such as Europe/Berlin.
	// +optional
	// +kubebuilder:default=UTC
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
	// Token is any text; a new value requests a drill at once.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Token string `json:"token,omitempty"`
	// Suspend skips the times of the schedule, and catches up on none afterwards. A drill that is under way continues, and
	// a new token still requests one.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// Cluster whose backups are restored. It may have been deleted.
	Cluster LocalReference `json:"cluster"`
	// Target of the restore: Latest is the latest backup and all WAL after it; RandomTime is a time between the earliest
	// and the latest that can be restored.
	// +optional
	// +kubebuilder:default=Latest
	Target DrillTarget `json:"target,omitempty"`
	// Assertions that must hold in the restored databases, in addition to what pg_amcheck checks.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Assertions []DrillAssertion `json:"assertions,omitempty"`
	// Storage of the restored cluster. By default, that of the cluster that was backed up.
	// +optional
	Storage *NewStorage `json:"storage,omitempty"`
	// Resources of the restored cluster. By default, those of the cluster that was backed up.
	// +optional
	Resources *Resources `json:"resources,omitempty"`
	// AcceptRecorded names fields of the recorded PostgresCluster that a drill takes although the repository is neither encrypted nor
	// signed and the cluster no longer exists, as acceptRecorded of a Restore does.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	AcceptRecorded []RecordedField `json:"acceptRecorded,omitempty"`
	// TimeoutSeconds is how long a drill may take before it counts as failed. The default is a day.
	// +optional
	// +kubebuilder:default=86400
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=604800
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
}

// DrillTarget says to which point a drill restores.
// +kubebuilder:validation:Enum=Latest;RandomTime
type DrillTarget string

const (
	// DrillLatest restores to the end of the archive.
	DrillLatest DrillTarget = "Latest"
	// DrillRandomTime restores to any time that can be restored.
	DrillRandomTime DrillTarget = "RandomTime"
)

// DrillAssertion is a statement about the restored data.
type DrillAssertion struct {
	// Name of the assertion, for messages.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Database to query. By default, the application's.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Database string `json:"database,omitempty"`
	// Query is one statement whose result is one row with one column, which must be true, such as SELECT count(*) > 0 FROM
	// public.orders. No schema but pg_catalog is searched. Its role can read everything and change nothing.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Query string `json:"query"`
}

// DrillStatus is the state of the drills. Written by the backup-controller.
type DrillStatus struct {
	// LastScheduleTime is the last time of spec.drill.schedule that has passed.
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`
	// NextScheduleTime is the next time of spec.drill.schedule.
	// +optional
	NextScheduleTime *metav1.Time `json:"nextScheduleTime,omitempty"`
	// Token of spec.drill that was last acted on.
	// +optional
	Token string `json:"token,omitempty"`
	// UnderWay is the drill that has begun and is not cleaned up yet.
	// +optional
	UnderWay *DrillRun `json:"underWay,omitempty"`
	// Last is the last drill that has an outcome.
	// +optional
	Last *DrillRun `json:"last,omitempty"`
	// LastSuccessTime is when a drill last succeeded.
	// +optional
	LastSuccessTime *metav1.Time `json:"lastSuccessTime,omitempty"`
}

// DrillRun is one drill. Its name and target are fixed before anything is created, so that every repeat does the same.
type DrillRun struct {
	// Name of the Restore, and of the PostgresCluster that it creates.
	Name string `json:"name"`
	// StartedAt is when it began.
	StartedAt metav1.Time `json:"startedAt"`
	// TargetTime of the restore. If empty, the end of the archive.
	// +optional
	TargetTime string `json:"targetTime,omitempty"`
	// RestoreUID is the UID of the Restore, once it exists.
	// +optional
	RestoreUID types.UID `json:"restoreUID,omitempty"`
	// BackupID of the backup that was restored.
	// +optional
	BackupID string `json:"backupID,omitempty"`
	// LastCommit is the time of the last commit that was restored.
	// +optional
	LastCommit *metav1.MicroTime `json:"lastCommit,omitempty"`
	// RestoreSeconds from the creation of the Restore until the restored cluster accepted connections: the measured
	// time to recover.
	// +optional
	RestoreSeconds int64 `json:"restoreSeconds,omitempty"`
	// CheckSeconds is how long pg_amcheck and the assertions took.
	// +optional
	CheckSeconds int64 `json:"checkSeconds,omitempty"`
	// CompletedAt is when it had an outcome.
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`
	// Outcome of the drill, once it has one. What the drill has created is then deleted.
	// +optional
	Outcome DrillOutcome `json:"outcome,omitempty"`
	// Reason of the condition, once there is an outcome.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message says what the drill waits for, or what it found.
	// +optional
	Message string `json:"message,omitempty"`
}

// DrillOutcome is how a drill ended.
// +kubebuilder:validation:Enum=Succeeded;Failed;Cancelled
type DrillOutcome string

const (
	// DrillSucceeded: the backup was restored, and all checks passed.
	DrillSucceeded DrillOutcome = "Succeeded"
	// DrillFailed: the backup could not be restored or checked, or a check failed.
	DrillFailed DrillOutcome = "Failed"
	// DrillCancelled: spec.drill was removed, or the repository was deleted.
	DrillCancelled DrillOutcome = "Cancelled"
)

// Condition Drilled of a BackupRepository, and its reasons. Written by the backup-controller; read by people.
const (
	// ConditionDrilled says whether the last drill restored a backup and all checks passed.
	ConditionDrilled = "Drilled"

	// ReasonDrilled: the last drill has succeeded.
	ReasonDrilled = "Drilled"
	// ReasonNotDrilledYet: no drill has ended.
	ReasonNotDrilledYet = "NotDrilledYet"
	// ReasonRestoreFailed: the Restore of the drill has failed; the message says why.
	ReasonRestoreFailed = "RestoreFailed"
	// ReasonAssertionFailed: an assertion of spec.drill is not true in the restored data.
	ReasonAssertionFailed = "AssertionFailed"
	// ReasonDrillTimedOut: the drill took longer than spec.drill.timeoutSeconds.
	ReasonDrillTimedOut = "DrillTimedOut"
	// ReasonDataCorrupt (see Restore): pg_amcheck finds damage in the restored data.
	// ReasonBackupNotFound (see Restore): there is nothing to restore.
	// ReasonInvalidSchedule (see BackupSchedule): spec.drill.schedule can't be understood.
)
