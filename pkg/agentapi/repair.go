package agentapi

import "time"

// Repair says when agents repair their instances by themselves.
type Repair struct {
	// PausedFrom and PausedUntil are between when they don't: they start no PostgreSQL that ended by itself, and rewind and clone nothing.
	PausedFrom  time.Time `json:"pausedFrom,omitzero"`
	PausedUntil time.Time `json:"pausedUntil,omitzero"`
	// KeepCopies: copies that were replaced are not removed.
	KeepCopies bool `json:"keepCopies,omitempty"`
}

// Paused says whether repairs are paused at that time.
func (r *Repair) Paused(now time.Time) bool {
	return r != nil && !now.Before(r.PausedFrom) && now.Before(r.PausedUntil)
}
