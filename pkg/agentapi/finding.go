package agentapi

// LoadFinding is a setting that does not fit what a primary does, or something that a person should look at.
type LoadFinding struct {
	// Reason is one of those below.
	Reason string `json:"reason"`
	// Evidence has the numbers, and Advice the field to set; sentences for a person.
	Evidence string `json:"evidence"`
	Advice   string `json:"advice"`
}

// Findings are those of a primary that has looked. The numbers of one that stays are an hour old at most.
type Findings struct {
	Found []LoadFinding `json:"found,omitempty"`
	// Undecided are reasons that can't be judged yet.
	Undecided []string `json:"undecided,omitempty"`
}

// Reasons of findings. The API has the same, and its documentation says what to do about each.
const (
	FindingCheckpointsRequested = "CheckpointsRequested"
	FindingTemporaryFiles       = "TemporaryFiles"
	FindingAutovacuumBusy       = "AutovacuumBusy"
	FindingConnectionsNearLimit = "ConnectionsNearLimit"
	FindingWraparoundAge        = "WraparoundAge"
	FindingSlotRetainsWAL       = "SlotRetainsWAL"
	FindingChecksumFailures     = "ChecksumFailures"
	FindingClockSkew            = "ClockSkew"
	FindingCertificateExpires   = "CertificateExpires"
)
