package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FailoverDrillSchedule creates FailoverDrills of all PostgresClusters of a namespace that a label selects, in rounds: at set times, or once.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=pgfds,categories=howdah
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=`.spec.schedule`
// +kubebuilder:printcolumn:name="Fault",type=string,JSONPath=`.spec.template.fault.type`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Last",type=date,JSONPath=`.status.lastScheduleTime`
// +kubebuilder:printcolumn:name="Next",type=string,JSONPath=`.status.nextScheduleTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 28",message="metadata.name is too long: FailoverDrills are named after it, the time and the cluster; use at most 28 characters"
type FailoverDrillSchedule struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec FailoverDrillScheduleSpec `json:"spec"`
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status FailoverDrillScheduleStatus `json:"status,omitempty"`
}

// FailoverDrillScheduleList is a list of FailoverDrillSchedules.
// +kubebuilder:object:root=true
type FailoverDrillScheduleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []FailoverDrillSchedule `json:"items"`
}

// FailoverDrillScheduleSpec says which clusters to drill, how, and when.
type FailoverDrillScheduleSpec struct {
	// ClusterSelector selects PostgresClusters of the same namespace by their labels, 100 at most. They are drilled in the order of their names.
	// +kubebuilder:validation:XValidation:rule="has(self.matchLabels) && size(self.matchLabels) > 0 || has(self.matchExpressions) && size(self.matchExpressions) > 0",message="spec.clusterSelector selects every cluster: name a label, such as matchLabels: {drill: weekly}, and set it on the PostgresClusters to be drilled"
	ClusterSelector metav1.LabelSelector `json:"clusterSelector"`
	// Schedule of the rounds as a cron expression with five fields, such as "0 10 * * 2", or @daily, @weekly, @monthly. Without it there is
	// one round, when the FailoverDrillSchedule is created.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.startsWith('@') ? self in ['@daily','@weekly','@monthly','@yearly'] : self.trim().split(' ').filter(f, f != '').size() == 5",message="spec.schedule must have five fields (minute hour day-of-month month day-of-week), such as '0 10 * * 2' for every Tuesday at 10, or be one of @daily, @weekly, @monthly, @yearly"
	Schedule string `json:"schedule,omitempty"`
	// TimeZone of the schedule, such as Europe/Berlin.
	// +optional
	// +kubebuilder:default=UTC
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
	// Suspend begins no round and creates no FailoverDrill while it is true. Those that run continue. The remaining clusters of the round are
	// Skipped, also when it is false again.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// StartingDeadlineSeconds is how late a round may begin, after an outage of the drill-controller, and how long after a FailoverDrill the next
	// one of the round may begin. A round that would be later counts as missed, and clusters that would be are Skipped. The default is 600: a fault that is hours late hits people who do not expect it.
	// +optional
	// +kubebuilder:default=600
	// +kubebuilder:validation:XValidation:rule="self >= 60",message="spec.startingDeadlineSeconds is so short that a restart of the controller would miss rounds: use 60 or more"
	StartingDeadlineSeconds int64 `json:"startingDeadlineSeconds,omitempty"`
	// MaxConcurrent is how many clusters are drilled at a time. The default is 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	MaxConcurrent int32 `json:"maxConcurrent,omitempty"`
	// Template of the FailoverDrills. A change applies to those that have not been created yet.
	Template FailoverDrillTemplate `json:"template"`
}

// FailoverDrillTemplate is what a FailoverDrill has beside its cluster.
type FailoverDrillTemplate struct {
	// Fault to cause in each cluster.
	// +kubebuilder:validation:XValidation:rule="!has(self.to) && !has(self.instance)",message="spec.template.fault is for many clusters: remove to and instance, which name an instance of one"
	Fault FailoverFault `json:"fault"`
	// Limits that each result is compared with. A result beyond one ends the round.
	// +optional
	Limits *FailoverDrillLimits `json:"limits,omitempty"`
	// StartWithin is how long to wait until a drill is safe, such as 1h. The default is 10m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= duration('0s') && self <= duration('168h')",message="spec.template.startWithin must be from 0s to 168h, such as 10m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:MaxLength=32
	StartWithin *metav1.Duration `json:"startWithin,omitempty"`
	// Timeout is how long a cluster may take to recover fully after the fault, such as 15m. The default is 15m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= duration('1m') && self <= duration('6h')",message="spec.template.timeout must be from 1m to 6h, such as 15m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:MaxLength=32
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// MaxPerWeek is how many faults drills may cause in a cluster within seven days. The default is 3.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=50
	MaxPerWeek int32 `json:"maxPerWeek,omitempty"`
	// TTLSecondsAfterFinished deletes a FailoverDrill this long after it ended. The default is 30 days.
	// +optional
	// +kubebuilder:default=2592000
	// +kubebuilder:validation:Minimum=3600
	// +kubebuilder:validation:Maximum=31536000
	TTLSecondsAfterFinished int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// FailoverDrillScheduleStatus is the observed state of a schedule. Written by the drill-controller alone.
type FailoverDrillScheduleStatus struct {
	// ObservedGeneration is the metadata.generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions: Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// LastScheduleTime is when the last round was due.
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`
	// NextScheduleTime is when the next round is due.
	// +optional
	NextScheduleTime *metav1.Time `json:"nextScheduleTime,omitempty"`
	// MissedRounds is the number of times that passed without a round.
	// +optional
	MissedRounds int64 `json:"missedRounds,omitempty"`
	// Round is the last one.
	// +optional
	Round *FailoverDrillRound `json:"round,omitempty"`
}

// FailoverDrillRound is what became of the clusters that were selected when it was due.
type FailoverDrillRound struct {
	// Due is when it was due.
	Due metav1.Time `json:"due"`
	// Clusters that were selected when it began, by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	Clusters []DrilledCluster `json:"clusters,omitempty"`
	// CompletedAt is when the last of its FailoverDrills had ended.
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`
}

// DrilledCluster is one cluster of a round.
type DrilledCluster struct {
	// Name of the PostgresCluster.
	Name string `json:"name"`
	// FailoverDrill that was created for it; empty: none yet.
	// +optional
	FailoverDrill string `json:"failoverDrill,omitempty"`
	// Result is the reason with which that ended, such as Completed or LimitExceeded; Skipped: none was created; empty: it has not ended.
	// +optional
	Result string `json:"result,omitempty"`
	// CompletedAt is when its FailoverDrill had ended.
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`
}

// Reasons of the condition Ready of a FailoverDrillSchedule, beside those of other kinds.
const (
	// ReasonRoundRunning: FailoverDrills of a round have not ended.
	ReasonRoundRunning = "RoundRunning"
	// ReasonRoundStopped: a drill has failed after its fault, so no further cluster was drilled.
	ReasonRoundStopped = "RoundStopped"
	// ReasonRoundCompleted: there was one round, and it has ended.
	ReasonRoundCompleted = "RoundCompleted"
	// ReasonNoClusters: the selector selects no cluster, or too many.
	ReasonNoClusters = "NoClusters"
)
