package agentapi

import "time"

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

// Checks are what an instance has found in the deep checks that each agent does every few minutes.
type Checks struct {
	// Found is what is wrong by now.
	Found []LoadFinding `json:"found,omitempty"`
	// Damaged: pages or indexes of this instance are damaged.
	Damaged bool `json:"damaged,omitempty"`
	// DamageCertain: PostgreSQL's own code says so, of checksums or of an index whose order depends on nothing that a user can define. An
	// error of any other index may be one that a function of a user raises.
	DamageCertain bool `json:"damageCertain,omitempty"`
	// Done are the checks by name: those below.
	Done map[string]Check `json:"done,omitempty"`
	// IndexesChecked and IndexesSkipped count those of the present round, and RoundEnded is when all had been gone through; zero: not yet.
	IndexesChecked int64 `json:"indexesChecked,omitempty"`
	IndexesSkipped int64 `json:"indexesSkipped,omitempty"`
	// IndexesWaiting take longer than others may, and are checked at the end of the round, each alone.
	IndexesWaiting int64     `json:"indexesWaiting,omitempty"`
	RoundEnded     time.Time `json:"roundEnded,omitzero"`
	// RoundWhole: that round checked every index of every database. Otherwise it says nothing of those that it skipped or missed.
	RoundWhole           bool  `json:"roundWhole,omitempty"`
	RoundSkippedIndexes  int64 `json:"roundSkippedIndexes,omitempty"`
	RoundMissedDatabases int64 `json:"roundMissedDatabases,omitempty"`
	// ClockAheadSeconds is the clock of the node against that of the API server; negative: it is behind.
	ClockAheadSeconds float64 `json:"clockAheadSeconds,omitempty"`
}

// DeepChecks are settings of them.
type DeepChecks struct {
	// Suspend: nothing is checked.
	Suspend bool `json:"suspend,omitempty"`
	// IntervalSeconds between two rounds through all indexes; 0 is the default.
	IntervalSeconds int64 `json:"intervalSeconds,omitempty"`
	// IndexTimeoutSeconds that the check of one index may take; 0 is the default.
	IndexTimeoutSeconds int64 `json:"indexTimeoutSeconds,omitempty"`
}

// Suspended says whether nothing is checked.
func (d *DeepChecks) Suspended() bool { return d != nil && d.Suspend }

// Check is how one ended last.
type Check struct {
	Time   time.Time `json:"time"`
	Failed bool      `json:"failed,omitempty"`
}

// Names of deep checks.
const (
	CheckIndexes   = "indexes"
	CheckChecksums = "checksums"
	CheckService   = "service"
	CheckDNS       = "dns"
	CheckClock     = "clock"
)

// Reasons of findings. The API has the same, and its documentation says what to do about each.
const (
	FindingCheckpointsRequested = "CheckpointsRequested"
	FindingTemporaryFiles       = "TemporaryFiles"
	FindingAutovacuumBusy       = "AutovacuumBusy"
	FindingConnectionsNearLimit = "ConnectionsNearLimit"
	FindingWraparoundAge        = "WraparoundAge"
	FindingSlotRetainsWAL       = "SlotRetainsWAL"
	FindingSlotsSetAside        = "SlotsSetAside"
	FindingChecksumFailures     = "ChecksumFailures"
	FindingClockSkew            = "ClockSkew"
	FindingCertificateExpires   = "CertificateExpires"
	FindingIndexDamaged         = "IndexDamaged"
	FindingReplicaDamaged       = "ReplicaDamaged"
	FindingChecksIncomplete     = "ChecksIncomplete"
	FindingServiceUnreachable   = "ServiceUnreachable"
	FindingServiceNotResolved   = "ServiceNotResolved"
)
