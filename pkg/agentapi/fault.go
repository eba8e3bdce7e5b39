package agentapi

// FaultRequest has the agent of the primary cause a fault for a failover drill, once for each token: the UID of the FailoverDrill.
type FaultRequest struct {
	Token string `json:"token"`
	// Fault is FaultKill or FaultFreeze.
	Fault string `json:"fault"`
}

// Faults that an agent causes.
const (
	FaultKill   = "KillPostmaster"
	FaultFreeze = "FreezePostmaster"
)

// FaultStatus is what came of the last one.
type FaultStatus struct {
	Token string `json:"token"`
	// State: Running, Done or Refused.
	State   string `json:"state"`
	Message string `json:"message,omitempty"`
}

// States of a fault.
const (
	FaultRunning = "Running" // it is being caused, or the server that it hit has not ended
	FaultDone    = "Done"    // it was caused, and is over
	FaultRefused = "Refused" // nothing was done
)
