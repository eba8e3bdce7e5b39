package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// FailoverDrill causes one fault in a running PostgresCluster, and measures what clients notice of it. It is not a restore drill, which
// BackupRepository.spec.drill describes.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=pgfd,categories=howdah
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.cluster.name`
// +kubebuilder:printcolumn:name="Fault",type=string,JSONPath=`.spec.fault.type`
// +kubebuilder:printcolumn:name="Succeeded",type=string,JSONPath=`.status.conditions[?(@.type=="Succeeded")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Succeeded")].reason`
// +kubebuilder:printcolumn:name="Gap",type=string,JSONPath=`.status.result.longestGap`
// +kubebuilder:printcolumn:name="Lost",type=integer,JSONPath=`.status.result.rowsLost`
// +kubebuilder:printcolumn:name="Whole",type=string,JSONPath=`.status.result.timeToWhole`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 48",message="metadata.name is too long: the Job of the drill is named after it; use at most 48 characters"
type FailoverDrill struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec FailoverDrillSpec `json:"spec"`
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status FailoverDrillStatus `json:"status,omitempty"`
}

// FailoverDrillList is a list of FailoverDrills.
// +kubebuilder:object:root=true
type FailoverDrillList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []FailoverDrill `json:"items"`
}

// FailoverDrillSpec says which fault to cause in which cluster, and what clients may notice of it.
// +kubebuilder:validation:XValidation:rule="self.cluster == oldSelf.cluster && self.fault == oldSelf.fault",message="spec.cluster and spec.fault can't be changed: create another FailoverDrill"
// +kubebuilder:validation:XValidation:rule="has(self.limits) == has(oldSelf.limits) && (!has(self.limits) || self.limits == oldSelf.limits)",message="spec.limits can't be changed, since the result is compared with them: create another FailoverDrill"
// +kubebuilder:validation:XValidation:rule="!(has(oldSelf.cancel) && oldSelf.cancel) || has(self.cancel) && self.cancel",message="spec.cancel can't be taken back: create another FailoverDrill"
type FailoverDrillSpec struct {
	// Cluster is the PostgresCluster, in the same namespace. It needs two instances at least.
	Cluster LocalReference `json:"cluster"`
	// Fault to cause, once.
	Fault FailoverFault `json:"fault"`
	// Limits that the result is compared with. Without them, the drill only measures.
	// +optional
	Limits *FailoverDrillLimits `json:"limits,omitempty"`
	// StartWithin is how long to wait until a drill is safe, such as 1h. After that it ends without having caused anything. The default
	// is 10m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= duration('0s') && self <= duration('168h')",message="spec.startWithin must be from 0s to 168h, such as 10m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:MaxLength=32
	StartWithin *metav1.Duration `json:"startWithin,omitempty"`
	// Timeout is how long the cluster may take to recover fully after the fault, such as 15m, before the drill ends as failed. The
	// default is 15m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= duration('1m') && self <= duration('6h')",message="spec.timeout must be from 1m to 6h, such as 15m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:MaxLength=32
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// MaxPerWeek is how many faults drills may cause in the cluster within seven days, this one included. A drill that
	// would exceed it waits. The default is 3.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=50
	MaxPerWeek int32 `json:"maxPerWeek"`
	// Cancel ends the drill. If the fault was caused already, the cluster recovers automatically, and nothing more is
	// measured.
	// +optional
	Cancel bool `json:"cancel,omitempty"`
	// TTLSecondsAfterFinished deletes the FailoverDrill this long after it ended. By default, it is never deleted.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// FailoverFault is one fault.
// +kubebuilder:validation:XValidation:rule="!has(self.force) || !self.force || self.type == 'DeletePrimaryPod'",message="spec.fault.force applies to the fault DeletePrimaryPod: remove it"
// +kubebuilder:validation:XValidation:rule="!has(self.instance) || self.type == 'StopReplica'",message="spec.fault.instance applies to the fault StopReplica, since the other faults hit the primary: remove it"
// +kubebuilder:validation:XValidation:rule="!has(self.to) || self.type == 'Switchover'",message="spec.fault.to applies to the fault Switchover: remove it"
type FailoverFault struct {
	// Type of the fault. Switchover hands the primary's role over in order; DeletePrimaryPod deletes the pod of the primary; KillPostmaster
	// kills the postmaster of the primary, and FreezePostmaster stops it by a signal, for 30 s at most; StopReplica deletes the pod of a
	// replica.
	Type FailoverFaultType `json:"type"`
	// To is the instance that takes over in a Switchover, such as shop-1. By default, the one that is furthest ahead does.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	To string `json:"to,omitempty"`
	// Instance is the replica that StopReplica stops, such as shop-2. By default, it is the last one that is not a
	// delayed replica.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Instance string `json:"instance,omitempty"`
	// Force makes DeletePrimaryPod delete the pod without a grace period. Without it, the primary hands over before it
	// ends. It is refused for a cluster without spec.synchronous, which could lose acknowledged commits.
	// +optional
	Force bool `json:"force,omitempty"`
}

// FailoverFaultType is what a drill does to a cluster.
// +kubebuilder:validation:Enum=Switchover;DeletePrimaryPod;KillPostmaster;FreezePostmaster;StopReplica
type FailoverFaultType string

const (
	// FaultSwitchover hands the primary's role over to another instance.
	FaultSwitchover FailoverFaultType = "Switchover"
	// FaultDeletePrimaryPod deletes the pod of the primary.
	FaultDeletePrimaryPod FailoverFaultType = "DeletePrimaryPod"
	// FaultKillPostmaster kills the postmaster of the primary.
	FaultKillPostmaster FailoverFaultType = "KillPostmaster"
	// FaultFreezePostmaster stops the postmaster of the primary by a signal, for a while.
	FaultFreezePostmaster FailoverFaultType = "FreezePostmaster"
	// FaultStopReplica deletes the pod of a replica.
	FaultStopReplica FailoverFaultType = "StopReplica"
)

// FailoverDrillLimits are what clients may notice of a fault.
type FailoverDrillLimits struct {
	// MaxGap is how long no row may be acknowledged on new connections, such as 30s. Clients whose connection broke connect again.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= duration('100ms') && self <= duration('1h')",message="spec.limits.maxGap must be from 100ms to 1h, such as 30s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:MaxLength=32
	MaxGap *metav1.Duration `json:"maxGap,omitempty"`
	// MaxLostRows is how many acknowledged rows may be missing afterwards. 0 is what synchronous replication promises.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxLostRows *int64 `json:"maxLostRows,omitempty"`
	// MaxTimeToWhole is how long the cluster may take until all instances run and follow again, such as 5m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= duration('1s') && self <= duration('6h')",message="spec.limits.maxTimeToWhole must be from 1s to 6h, such as 5m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:MaxLength=32
	MaxTimeToWhole *metav1.Duration `json:"maxTimeToWhole,omitempty"`
}

// FailoverDrillStatus is the observed state of a drill. Written by the drill-controller; progress by its Job.
type FailoverDrillStatus struct {
	// ObservedGeneration is the metadata.generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions: Succeeded.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Request asks the db-controller to prepare the cluster, and then to cause the fault. It is removed when the drill ends.
	// +optional
	Request *FailoverDrillRequest `json:"request,omitempty"`
	// StartedAt is when the drill was found to be safe and was requested.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// InjectedAt is when the fault was caused.
	// +optional
	InjectedAt *metav1.Time `json:"injectedAt,omitempty"`
	// WholeAt is when all instances ran and followed again.
	// +optional
	WholeAt *metav1.Time `json:"wholeAt,omitempty"`
	// StopWriting tells the Job to end: it reads its rows, and reports what it has measured.
	// +optional
	StopWriting bool `json:"stopWriting,omitempty"`
	// Failure is why the drill ends without a result. It is recorded before anything is cleaned up.
	// +optional
	Failure *Failure `json:"failure,omitempty"`
	// Result is what was measured.
	// +optional
	Result *FailoverDrillResult `json:"result,omitempty"`
	// CompletedAt is when the drill ended, and everything that it had created was removed, or its deletion was
	// requested.
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`
	// Progress of the Job that writes. Written by the Job.
	// +optional
	Progress *Progress `json:"progress,omitempty"`
}

// FailoverDrillRequest is what a drill requests of the db-controller.
type FailoverDrillRequest struct {
	// ClusterUID is the UID of the PostgresCluster.
	ClusterUID types.UID `json:"clusterUID"`
	// Inject requests that the fault is caused. It is recorded once the Job has written rows; until then the
	// db-controller only prepares the role, the schema and the certificate of the Job.
	// +optional
	Inject *FailoverInjection `json:"inject,omitempty"`
}

// FailoverInjection is the decision to cause the fault. The db-controller refuses it if the cluster has changed since.
type FailoverInjection struct {
	// Instance in which the fault is caused.
	Instance string `json:"instance"`
	// PodUID of the pod of the instance.
	PodUID types.UID `json:"podUID"`
	// DecidedAt is when it was decided.
	DecidedAt metav1.Time `json:"decidedAt"`
}

// FailoverDrillResult is what clients noticed of the fault.
type FailoverDrillResult struct {
	// LongestGap is the longest time in which no row was acknowledged to a client that connects anew for each row.
	LongestGap metav1.Duration `json:"longestGap"`
	// LongestGapKept is the same for a client that keeps its connection, and connects again only if that breaks.
	LongestGapKept metav1.Duration `json:"longestGapKept"`
	// RowsAcknowledged to both.
	RowsAcknowledged int64 `json:"rowsAcknowledged"`
	// RowsLost were acknowledged, and are missing.
	RowsLost int64 `json:"rowsLost"`
	// TimeToWhole is the time from the fault until all instances ran and followed again.
	TimeToWhole metav1.Duration `json:"timeToWhole"`
	// Primary after the drill.
	// +optional
	Primary string `json:"primary,omitempty"`
}

// ClusterFailoverDrill is how the db-controller responds to the FailoverDrill whose turn it is.
type ClusterFailoverDrill struct {
	// Name of the FailoverDrill.
	Name string `json:"name"`
	// UID of the FailoverDrill.
	UID types.UID `json:"uid"`
	// State of the response.
	State ClusterFailoverDrillState `json:"state"`
	// Instance in which the fault is caused. For all faults but StopReplica, it was the primary just before.
	// +optional
	Instance string `json:"instance,omitempty"`
	// PodUID of its pod.
	// +optional
	PodUID types.UID `json:"podUID,omitempty"`
	// InjectedAt is when the fault was caused.
	// +optional
	InjectedAt *metav1.Time `json:"injectedAt,omitempty"`
	// Message for a person.
	// +optional
	Message string `json:"message,omitempty"`
}

// ClusterFailoverDrillState is how far the db-controller is with a drill.
// +kubebuilder:validation:Enum=Prepared;Injecting;Injected;Refused
type ClusterFailoverDrillState string

const (
	// FailoverDrillPrepared means that the certificate of the Job exists, and that the agents know of its role and schema.
	FailoverDrillPrepared ClusterFailoverDrillState = "Prepared"
	// FailoverDrillInjecting means that the fault is being caused. It is recorded first.
	FailoverDrillInjecting ClusterFailoverDrillState = "Injecting"
	// FailoverDrillInjected means that the fault was caused.
	FailoverDrillInjected ClusterFailoverDrillState = "Injected"
	// FailoverDrillRefused means that nothing was or will be done; the message says why.
	FailoverDrillRefused ClusterFailoverDrillState = "Refused"
)

// ReasonFailoverDrill is why a PostgresCluster is not Ready while a FailoverDrill causes its fault.
const ReasonFailoverDrill = "FailoverDrill"

// Reasons of the condition Succeeded of a FailoverDrill, beside those of other kinds.
const (
	// ReasonUnsafe: the cluster is not in a state for a drill.
	ReasonUnsafe = "Unsafe"
	// ReasonBudgetSpent: drills have caused as many faults within seven days as spec.maxPerWeek allows.
	ReasonBudgetSpent = "BudgetSpent"
	// ReasonPreparing: the db-controller prepares the cluster, or the Job begins to write.
	ReasonPreparing = "Preparing"
	// ReasonInjecting: the fault is being caused.
	ReasonInjecting = "Injecting"
	// ReasonAwaitingWhole: the fault was caused, and not all instances run and follow yet.
	ReasonAwaitingWhole = "AwaitingWhole"
	// ReasonMeasuring: the Job counts its rows.
	ReasonMeasuring = "Measuring"
	// ReasonLimitExceeded: the result lies beyond spec.limits.
	ReasonLimitExceeded = "LimitExceeded"
	// ReasonNotWhole: the cluster was not whole again within spec.timeout.
	ReasonNotWhole = "NotWhole"
	// ReasonInjectionRefused: the db-controller did not cause the fault.
	ReasonInjectionRefused = "InjectionRefused"
	// ReasonWriterFailed: the Job that writes rows has failed, so nothing is known of what clients noticed.
	ReasonWriterFailed = "WriterFailed"
)
