package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ReplicationSlot is a logical replication slot that the primary keeps for a client, such as a CDC tool. It is created once. If it
// is lost after that, it isn't created again by itself: its client would miss what was written meanwhile, and not notice.
//
// +kubebuilder:validation:XValidation:rule="self.ensure != 'Absent' || !(has(self.database) || has(self.maxRetainedWAL))",message="spec.replicationSlots: a slot with ensure: Absent is dropped; remove its other fields"
type ReplicationSlot struct {
	// Name of the slot.
	// +kubebuilder:validation:Pattern=`^[a-z0-9_]{1,63}$`
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('howdah_') && !self.startsWith('pg_')",message="spec.replicationSlots contains a name that PostgreSQL or Howdah uses itself; choose another one, such as cdc"
	Name string `json:"name"`
	// Ensure is Present to create the slot, or Absent to drop it, with what its client has not read yet. A slot that Howdah did not
	// create, or that a client is connected to, isn't dropped. A slot that was lost is created again once it was Absent.
	// +optional
	// +kubebuilder:default=Present
	Ensure Presence `json:"ensure,omitempty"`
	// Database whose changes it has. By default, the application's database.
	// +optional
	// +kubebuilder:validation:Pattern=`^[a-z_][a-z0-9_-]{0,62}$`
	// +kubebuilder:validation:MaxLength=63
	Database string `json:"database,omitempty"`
	// Plugin that writes the changes for the client. The image must contain it.
	// +optional
	// +kubebuilder:default=pgoutput
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_-]{1,63}$`
	// +kubebuilder:validation:MaxLength=63
	Plugin string `json:"plugin,omitempty"`
	// Failover has replicas keep a copy, with which the client continues after a failover. Before version 17 there are no copies.
	// +optional
	// +kubebuilder:default=true
	Failover *bool `json:"failover,omitempty"`
	// MaxRetainedWAL is how much WAL the slot may hold back while no client is connected. A slot that holds back more is dropped
	// after ten minutes without a client, which status announces, and its client has to copy its tables again. By default,
	// max_slot_wal_keep_size is the only limit.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(self).compareTo(quantity('64Mi')) >= 0",message="spec.replicationSlots[].maxRetainedWAL must be at least 64Mi, such as 20Gi"
	MaxRetainedWAL *resource.Quantity `json:"maxRetainedWAL,omitempty"`
}

// ReplicationSlotStatus is the state of a declared slot, as the primary's agent reports.
type ReplicationSlotStatus struct {
	// Name of the slot.
	Name string `json:"name"`
	// State is Ready if it is as declared, and Absent if it isn't there, as declared. Creating: it can't be created yet. Lost: what
	// its client has not read is lost, or its client may be ahead of the data. Conflict: it differs from what is declared. InUse: a client keeps it from being dropped.
	// OverLimit: it holds back more than maxRetainedWAL, and will be dropped.
	State ReplicationSlotState `json:"state"`
	// Active says that a client is connected.
	// +optional
	Active bool `json:"active,omitempty"`
	// RetainedWALBytes is how much WAL it holds back, rounded; metrics have the exact bytes.
	// +optional
	RetainedWALBytes int64 `json:"retainedWALBytes,omitempty"`
	// DropTime is when it is dropped because of maxRetainedWAL, unless its client connects before.
	// +optional
	DropTime *metav1.Time `json:"dropTime,omitempty"`
	// Message says why it isn't as declared, and what to do.
	// +optional
	Message string `json:"message,omitempty"`
}

// ReplicationSlotState is how a declared slot is.
// +kubebuilder:validation:Enum=Ready;Creating;Lost;Conflict;InUse;OverLimit;Absent
type ReplicationSlotState string
