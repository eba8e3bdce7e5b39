package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Synchronous configures synchronous replication.
// +kubebuilder:validation:XValidation:rule="!has(self.duringRebuild) || self.duringRebuild == 'Wait' || !has(self.durability) || self.durability == 'Required'",message="spec.synchronous.duringRebuild: Degrade applies to durability: Required only: remove it, because with Preferred commits never wait for replicas that are missing"
type Synchronous struct {
	// Number of replicas that must have a commit before it is acknowledged; any of them count. It must be less than
	// spec.instances.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	Number int32 `json:"number,omitempty"`
	// Durability says what happens while fewer replicas are available: with Required, commits wait for them; with
	// Preferred, those that are available are enough.
	// +optional
	// +kubebuilder:default=Required
	Durability Durability `json:"durability,omitempty"`
	// DuringRebuild says what happens with durability: Required after the data of the cluster was replaced, by an upgrade or a restore,
	// until replicas of the new data were built for the first time: with Wait, commits wait for them; with Degrade, those replicas that
	// are available are enough until then, and none at first. The default is Wait.
	// +optional
	DuringRebuild DuringRebuild `json:"duringRebuild,omitempty"`
}

// DuringRebuild says what synchronous replication does until the replicas of replaced data are built.
// +kubebuilder:validation:Enum=Wait;Degrade
type DuringRebuild string

const (
	// RebuildWait lets commits wait until there are enough replicas.
	RebuildWait DuringRebuild = "Wait"
	// RebuildDegrade is content with the replicas that are available, until there were enough once.
	RebuildDegrade DuringRebuild = "Degrade"
)

// Durability says what synchronous replication does while replicas are missing.
// +kubebuilder:validation:Enum=Required;Preferred
type Durability string

const (
	// DurabilityRequired lets commits wait until there are enough replicas.
	DurabilityRequired Durability = "Required"
	// DurabilityPreferred is content with the replicas that are available.
	DurabilityPreferred Durability = "Preferred"
)

// Switchover is a request for another primary.
type Switchover struct {
	// To is the instance that should become primary, such as shop-1. By default, the replica that is furthest ahead.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	To string `json:"to,omitempty"`
	// Token distinguishes this request from the previous one: any text, such as the time of day. A request is carried out
	// or refused once.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Token string `json:"token"`
}

// MaintenanceWindow is a recurring period of time.
type MaintenanceWindow struct {
	// Schedule of its beginning, as a cron expression with five fields, such as "0 3 * * 0", or @daily, @weekly, @monthly.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.startsWith('@') ? self in ['@daily','@weekly','@monthly'] : self.trim().split(' ').filter(f, f != '').size() == 5",message="the schedule of a maintenance window must have five fields (minute hour day-of-month month day-of-week), such as '0 3 * * 0' for Sundays at 3, or be one of @daily, @weekly, @monthly"
	Schedule string `json:"schedule"`
	// TimeZone of the schedule, such as Europe/Berlin.
	// +optional
	// +kubebuilder:default=UTC
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
	// Duration of the window, such as 2h.
	// +kubebuilder:validation:XValidation:rule="self >= duration('10m') && self <= duration('168h')",message="the duration of a maintenance window must be from 10m to 168h: a restart of all instances takes minutes; for example: 2h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:MaxLength=32
	Duration metav1.Duration `json:"duration"`
}

// Scheduling says where the pods of a cluster may run: those of its instances and of the Jobs that work for it.
// +kubebuilder:validation:XValidation:rule="!has(self.topologySpreadConstraints) || self.topologySpreadConstraints.all(c, c.maxSkew >= 1 && size(c.topologyKey) > 0 && c.whenUnsatisfiable in ['DoNotSchedule', 'ScheduleAnyway'])",message="spec.scheduling.topologySpreadConstraints: each needs a maxSkew of at least 1, a topologyKey such as topology.kubernetes.io/zone, and DoNotSchedule or ScheduleAnyway as whenUnsatisfiable"
type Scheduling struct {
	// NodeSelector has the labels of nodes that pods may run on.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// NodeAffinity of the pods.
	// +optional
	NodeAffinity *corev1.NodeAffinity `json:"nodeAffinity,omitempty"`
	// Tolerations of the pods.
	// +optional
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// PriorityClassName of the pods.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// Spread of the instances over zones and nodes. With Preferred, two instances share a node if there are too few nodes.
	// With Required, an instance waits for a node of its own. Zones are always only preferred.
	// +optional
	// +kubebuilder:default=Preferred
	Spread SpreadPolicy `json:"spread,omitempty"`
	// TopologySpreadConstraints of the instances, such as one with maxSkew: 1, whenUnsatisfiable: DoNotSchedule and
	// topologyKey: topology.kubernetes.io/zone. One replaces what spread does for the same topologyKey. Without a
	// labelSelector, the instances of this cluster are counted.
	// +optional
	// +listType=map
	// +listMapKey=topologyKey
	// +listMapKey=whenUnsatisfiable
	// +kubebuilder:validation:MaxItems=8
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`
}

// SpreadPolicy says how strictly instances are kept apart.
// +kubebuilder:validation:Enum=Preferred;Required
type SpreadPolicy string

const (
	// SpreadPreferred keeps instances apart if that is possible.
	SpreadPreferred SpreadPolicy = "Preferred"
	// SpreadRequired gives each instance a node of its own.
	SpreadRequired SpreadPolicy = "Required"
)
