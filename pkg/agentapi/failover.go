package agentapi

import "time"

// Failover says how a primary that fails is replaced, and by whom.
type Failover struct {
	// Profile of the time limits; empty: ProfileDefault.
	Profile string `json:"profile,omitempty"`
	// Priorities of instances by pod; DefaultPriority where none is given. Of those that are as far ahead, the highest takes over.
	Priorities map[string]int `json:"priorities,omitempty"`
	// Never take over by themselves.
	Never []string `json:"never,omitempty"`
	// PausedUntil: nobody replaces a primary that fails before that.
	PausedUntil time.Time `json:"pausedUntil,omitzero"`
	// IsolationSeconds is for how long a primary that nobody may replace continues when it reaches neither the API server nor another
	// instance; 0: for ever.
	IsolationSeconds int `json:"isolationSeconds,omitempty"`
	// Renewal is how the primary keeps the lease; empty: RenewalAPIServer.
	Renewal string `json:"renewal,omitempty"`
	// Fenced instances: their PostgreSQL is stopped.
	Fenced []string `json:"fenced,omitempty"`
}

// Profiles of time limits.
const (
	ProfileFast    = "Fast"
	ProfileDefault = "Default"
	ProfilePatient = "Patient"
)

// Ways of renewing the lease: by writing it again and again, or through the members, where all of them answer.
const (
	RenewalAPIServer = "APIServer"
	RenewalMembers   = "Members"
)

// DefaultPriority of an instance.
const DefaultPriority = 50
