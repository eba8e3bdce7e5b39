package agentapi

// ReinitRequest asks a replica to clone its data again, although its copy may be fit. One that was carried out, or refused, under the
// same token is not carried out again.
type ReinitRequest struct {
	Token string `json:"token"`
}

// ReinitStatus is the answer.
type ReinitStatus struct {
	Token string `json:"token"`
	// State: Running, Done, Refused or Failed.
	State   string `json:"state"`
	Message string `json:"message,omitempty"`
}

// States of a requested clone.
const (
	ReinitRunning = "Running"
	ReinitDone    = "Done"    // the new copy streams
	ReinitRefused = "Refused" // nothing was done
	ReinitFailed  = "Failed"  // the instance continues with the copy that it had
)
