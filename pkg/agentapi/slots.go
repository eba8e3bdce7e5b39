package agentapi

import "time"

// ReplicationSlot is a logical replication slot that the cluster declares.
type ReplicationSlot struct {
	Name     string `json:"name"`
	Absent   bool   `json:"absent,omitempty"`
	Database string `json:"database,omitempty"`
	Plugin   string `json:"plugin,omitempty"`
	// Failover: replicas keep a copy, from 17 on.
	Failover bool `json:"failover,omitempty"`
	// MaxRetainedBytes of WAL that it may hold back while no client is connected; 0: as much as the server allows.
	MaxRetainedBytes int64 `json:"maxRetainedBytes,omitempty"`
}

// SlotsHash identifies what slots are declared; that of none is empty.
func SlotsHash(slots []ReplicationSlot) string {
	if len(slots) == 0 {
		return ""
	}
	return hash(slots)
}

// SlotsStatus is what became of declared slots, on the primary.
type SlotsStatus struct {
	// Hash of what was declared when they were last looked at.
	Hash  string       `json:"hash"`
	Slots []SlotStatus `json:"slots"`
}

// SlotStatus is what became of one declared slot.
type SlotStatus struct {
	Name  string    `json:"name"`
	State SlotState `json:"state"`
	// Active: a client reads it.
	Active bool `json:"active,omitempty"`
	// RetainedBytes of WAL that it holds back.
	RetainedBytes int64 `json:"retainedBytes,omitempty"`
	// DropAt is when it is dropped because it holds back too much, unless a client connects.
	DropAt time.Time `json:"dropAt,omitzero"`
	// Message says why it isn't as declared, a sentence.
	Message string `json:"message,omitempty"`
}

// Problem is the sentence about a slot that isn't as declared; empty: it is.
func (s SlotStatus) Problem() string {
	if s.State == SlotReady || s.State == SlotAbsent {
		return ""
	}
	return "replication slot " + s.Name + ": " + s.Message
}

// SlotState is how a declared slot is.
type SlotState string

const (
	// SlotReady: it is as declared.
	SlotReady SlotState = "Ready"
	// SlotCreating: it can't be created yet.
	SlotCreating SlotState = "Creating"
	// SlotLost: it was there, and what its client has not read is lost; or its client may be ahead of the data. It isn't created again by itself.
	SlotLost SlotState = "Lost"
	// SlotConflict: it differs from what is declared, or isn't ours to drop.
	SlotConflict SlotState = "Conflict"
	// SlotInUse: it is to be dropped, and a client is connected.
	SlotInUse SlotState = "InUse"
	// SlotOverLimit: it holds back more than it may, and is about to be dropped.
	SlotOverLimit SlotState = "OverLimit"
	// SlotAbsent: it isn't there, as declared.
	SlotAbsent SlotState = "Absent"
)
