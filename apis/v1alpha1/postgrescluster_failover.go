package v1alpha1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Failover says how a primary that fails is replaced, and by whom.
type Failover struct {
	// Profile of the time limits. When the node of a primary dies silently, another instance takes over after up to 6 s
	// with Fast, 9 s with Default, and 27 s with Patient. Fast renews the lease about 40 times a minute instead of 18,
	// and a shorter pause of the network or of a node ends in a failover. Patient tolerates most pauses.
	// +optional
	// +kubebuilder:default=Default
	Profile FailoverProfile `json:"profile,omitempty"`
	// Renewal says how the primary keeps its lease. With APIServer, it renews it at the API server as often as the profile says. With
	// Members, it asks the instances that may take over several times a second, in datagrams to UDP port 8443, and writes the Lease only
	// when something changes: a silent death is then noticed after up to 4 s (12 s with Patient). When one of them doesn't
	// answer, the primary renews the lease as with APIServer until all answer again.
	// +optional
	// +kubebuilder:default=APIServer
	Renewal LeaseRenewal `json:"renewal,omitempty"`
	// PausedUntil is a time before which no instance replaces a primary that fails, such as 2026-03-01T06:00:00Z. Switchovers still
	// work, and so does the handover of a primary whose pod is terminated gracefully. The pause ends at that time.
	// +optional
	PausedUntil *metav1.Time `json:"pausedUntil,omitempty"`
	// Instances says which instances should become primary, and which should not.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=9
	Instances []FailoverInstance `json:"instances,omitempty"`
	// IsolationTimeoutSeconds stops a primary that no replica may replace, once it has reached neither the API server nor any other
	// instance for so long. By default, such a primary continues. A single instance always does.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 10 && self <= 3600",message="spec.failover.isolationTimeoutSeconds must be from 10 to 3600, such as 60; remove it to let an isolated primary continue"
	IsolationTimeoutSeconds int32 `json:"isolationTimeoutSeconds,omitempty"`
	// Fenced names instances whose PostgreSQL is shut down and stays down until they are removed from this list. A primary first
	// hands over to another instance, if one can take over.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=9
	Fenced []InstanceName `json:"fenced,omitempty"`
}

// FailoverInstance says whether an instance should become primary.
type FailoverInstance struct {
	// Name of the instance, such as shop-1.
	Name InstanceName `json:"name"`
	// Priority among instances that have the same amount of WAL: the one with the highest priority takes over. An instance that
	// has more WAL comes first, regardless of priorities.
	// +optional
	// +kubebuilder:default=50
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Priority *int32 `json:"priority,omitempty"`
	// Never keeps the instance from becoming primary automatically. It takes over only by a switchover or a manual failover
	// (kubectl howdah failover) that names it. For synchronous replication, it counts like any other instance.
	// +optional
	Never bool `json:"never,omitempty"`
}

// InstanceName is the name of an instance.
// +kubebuilder:validation:MinLength=3
// +kubebuilder:validation:MaxLength=42
// +kubebuilder:validation:XValidation:rule="self.matches('-[0-8]$')",message="spec.failover must name instances of this cluster, whose names end in a number from 0 to 8, such as shop-1"
type InstanceName string

// FailoverProfile is a set of time limits.
// +kubebuilder:validation:Enum=Fast;Default;Patient
type FailoverProfile string

// The profiles.
const (
	FailoverFast    FailoverProfile = "Fast"
	FailoverDefault FailoverProfile = "Default"
	FailoverPatient FailoverProfile = "Patient"
)

// LeaseRenewal is how a primary keeps its lease.
// +kubebuilder:validation:Enum=APIServer;Members
type LeaseRenewal string

// The ways.
const (
	RenewalAPIServer LeaseRenewal = "APIServer"
	RenewalMembers   LeaseRenewal = "Members"
)

// defaultPriority of an instance.
const defaultPriority = 50

// Priority of an instance.
func (f *Failover) Priority(name string) int32 {
	if f == nil {
		return defaultPriority
	}
	for i := range f.Instances {
		if p := &f.Instances[i]; string(p.Name) == name && p.Priority != nil {
			return *p.Priority
		}
	}
	return defaultPriority
}

// Never says whether an instance does not become primary automatically.
func (f *Failover) Never(name string) bool {
	return f != nil && slices.ContainsFunc(f.Instances, func(i FailoverInstance) bool { return i.Never && string(i.Name) == name })
}

// ByMembers says whether the primary is to renew its lease through the others.
func (f *Failover) ByMembers() bool { return f != nil && f.Renewal == RenewalMembers }

// IsFenced says whether the PostgreSQL of an instance is to be stopped.
func (f *Failover) IsFenced(name string) bool {
	return f != nil && slices.Contains(f.Fenced, InstanceName(name))
}
