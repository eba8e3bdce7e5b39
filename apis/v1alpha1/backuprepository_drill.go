package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// RepositoryDrill has what is in a repository restored aside and looked at, again and again. Each time a Restore makes a
// PostgresCluster, which is deleted in the end; the cluster whose backups they are is not touched.
// +kubebuilder:validation:XValidation:rule="size(self.cluster.name) <= 40 && self.cluster.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="spec.drill.cluster.name must be the name of a PostgresCluster, such as shop"
type RepositoryDrill struct {
	// Schedule in cron's form with five fields, such as "0 4 * * 0", or @daily, @weekly, @monthly. A time that comes while
	// a drill is under way is left out.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.startsWith('@') ? self in ['@hourly','@daily','@weekly','@monthly','@yearly'] : self.trim().split(' ').filter(f, f != '').size() == 5",message="spec.drill.schedule must have five fields (minute hour day-of-month month day-of-week), such as '0 4 * * 0' for every Sunday at 4, or be one of @hourly, @daily, @weekly, @monthly, @yearly"
	Schedule string `json:"schedule"`
	// TimeZone of the schedule, such as Europe/Berlin.
	// +optional
	// +kubebuilder:default=UTC
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
	// Token is any word; another one asks for a drill at once.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Token string `json:"token,omitempty"`
	// Suspend leaves out the times of the schedule, and makes up for none afterwards. A drill that is under way goes on,
	// and a token is answered.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// Cluster whose backups are restored. It may be gone.
	Cluster LocalReference `json:"cluster"`
	// Target of the restore: Latest is the latest backup and all WAL behind it, RandomTime a time between the earliest and
	// the latest that can be restored.
	// +optional
	// +kubebuilder:default=Latest
	Target DrillTarget `json:"target,omitempty"`
	// Assertions that must hold in the restored databases, beside what pg_amcheck looks at.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Assertions []DrillAssertion `json:"assertions,omitempty"`
	// Storage of the restored cluster. Left out: as the cluster had it that was backed up.
	// +optional
	Storage *NewStorage `json:"storage,omitempty"`
	// Resources of the restored cluster. Left out: as the cluster had them that was backed up.
	// +optional
	Resources *Resources `json:"resources,omitempty"`
	// TimeoutSeconds that a drill may take; then it has failed. Left out: a day.
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

// DrillAssertion is a question to the restored data.
type DrillAssertion struct {
	// Name of the assertion, which messages have.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Database to ask. Left out: the application's.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Database string `json:"database,omitempty"`
	// Query is one statement with one row and one column as its result, which must be true, such as
	// SELECT count(*) > 0 FROM orders. Its role reads everything and changes nothing.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Query string `json:"query"`
}

// DrillStatus says how the drills go. Written by the backup-controller.
type DrillStatus struct {
	// LastScheduleTime is the last time of spec.drill.schedule that has come.
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`
	// NextScheduleTime is when the next one comes.
	// +optional
	NextScheduleTime *metav1.Time `json:"nextScheduleTime,omitempty"`
	// Token of spec.drill that was answered last.
	// +optional
	Token string `json:"token,omitempty"`
	// UnderWay is the drill that was begun and is not put away yet.
	// +optional
	UnderWay *DrillRun `json:"underWay,omitempty"`
	// Last is the last drill that has an outcome.
	// +optional
	Last *DrillRun `json:"last,omitempty"`
	// LastSuccessTime is when a drill succeeded last.
	// +optional
	LastSuccessTime *metav1.Time `json:"lastSuccessTime,omitempty"`
}

// DrillRun is one drill. Its name and target are fixed before anything is made, so that every repeat does the same.
type DrillRun struct {
	// Name of the Restore, and of the PostgresCluster that it makes.
	Name string `json:"name"`
	// StartedAt is when it was begun.
	StartedAt metav1.Time `json:"startedAt"`
	// TargetTime of the restore. Left out: the end of the archive.
	// +optional
	TargetTime string `json:"targetTime,omitempty"`
	// RestoreUID is that of the Restore, once it is made.
	// +optional
	RestoreUID types.UID `json:"restoreUID,omitempty"`
	// BackupID of the backup that was restored.
	// +optional
	BackupID string `json:"backupID,omitempty"`
	// LastCommit that was restored.
	// +optional
	LastCommit *metav1.MicroTime `json:"lastCommit,omitempty"`
	// RestoreSeconds from when the Restore was made until the restored cluster took connections: how long it takes to be
	// back, as measured.
	// +optional
	RestoreSeconds int64 `json:"restoreSeconds,omitempty"`
	// CheckSeconds that pg_amcheck and the assertions took.
	// +optional
	CheckSeconds int64 `json:"checkSeconds,omitempty"`
	// CompletedAt is when it had an outcome.
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`
	// Outcome of the drill, once it has one. What it has made is deleted then.
	// +optional
	Outcome DrillOutcome `json:"outcome,omitempty"`
	// Reason of the condition, once there is an outcome.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message says what is waited for, or what was found.
	// +optional
	Message string `json:"message,omitempty"`
}

// DrillOutcome is how a drill has ended.
// +kubebuilder:validation:Enum=Succeeded;Failed;Cancelled
type DrillOutcome string

const (
	// DrillSucceeded: it was restored, and everything that was looked at is right.
	DrillSucceeded DrillOutcome = "Succeeded"
	// DrillFailed: it could not be restored or looked at, or something is wrong.
	DrillFailed DrillOutcome = "Failed"
	// DrillCancelled: spec.drill, or the repository, went.
	DrillCancelled DrillOutcome = "Cancelled"
)

// Condition Drilled of a BackupRepository, and its reasons. Written by the backup-controller; read by people.
const (
	// ConditionDrilled: the last drill has restored a backup, and what was looked at is right.
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
