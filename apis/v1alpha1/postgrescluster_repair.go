package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Repair says when the agents repair instances by themselves.
// +kubebuilder:validation:XValidation:rule="has(self.pausedFrom) == has(self.pausedUntil)",message="spec.repair must have both pausedFrom and pausedUntil, or neither: a pause has an end"
// +kubebuilder:validation:XValidation:rule="!has(self.pausedFrom) || !has(self.pausedUntil) || (self.pausedUntil > self.pausedFrom && self.pausedUntil - self.pausedFrom <= duration('24h'))",message="spec.repair.pausedUntil must be later than spec.repair.pausedFrom, by 24 hours at most, such as pausedFrom: 2026-03-01T06:00:00Z and pausedUntil: 2026-03-01T08:00:00Z"
type Repair struct {
	// PausedFrom is when a pause begins. While it lasts, the agents start no PostgreSQL that ended by itself, and rewind and clone
	// nothing. A primary that ends is still replaced by another instance, unless spec.failover.pausedUntil says otherwise.
	// +optional
	PausedFrom *metav1.Time `json:"pausedFrom,omitempty"`
	// PausedUntil is when the pause ends by itself, 24 hours after its beginning at most.
	// +optional
	PausedUntil *metav1.Time `json:"pausedUntil,omitempty"`
	// KeepReplacedCopies keeps copies of the data that a clone has replaced on the volumes, until it is false again. By default,
	// they are removed after an hour, or earlier if the volume has no room.
	// +optional
	KeepReplacedCopies bool `json:"keepReplacedCopies,omitempty"`
	// KeepDamagedReplicas leaves it to a person to clone a replica again whose data is damaged. By default, it is cloned by itself, one
	// replica a day, if another one streams and the primary shows no damage; status.automaticReinit records it before.
	// +optional
	KeepDamagedReplicas bool `json:"keepDamagedReplicas,omitempty"`
}

// Paused says whether repairs are paused at that time.
func (r *Repair) Paused(now time.Time) bool {
	return r != nil && r.PausedFrom != nil && r.PausedUntil != nil && !now.Before(r.PausedFrom.Time) && now.Before(r.PausedUntil.Time)
}
