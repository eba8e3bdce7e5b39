package agentapi

// FailoverDrillJob is job.json of a Job that writes numbered rows while a fault is caused: `agent failover-drill`. The client certificate of
// FailoverDrillRole is at ClientTLSDir.
type FailoverDrillJob struct {
	Object Object `json:"object"`
	// Host that leads to the primary.
	Host string `json:"host"`
}

// Phases of its progress.
const (
	FailoverDrillConnecting = "Connecting" // few rows are acknowledged yet
	FailoverDrillWriting    = "Writing"    // the fault may be caused
	FailoverDrillCounting   = "Counting"
)

// FailoverDrillResult is what its clients have noticed.
type FailoverDrillResult struct {
	Acknowledged int64 `json:"acknowledged"`
	// Lost rows were acknowledged, and are missing.
	Lost int64 `json:"lost"`
	// LongestGapMilliseconds is the longest time without an acknowledged row on new connections, LongestGapKeptMilliseconds on a kept one.
	LongestGapMilliseconds     int64 `json:"longestGapMilliseconds"`
	LongestGapKeptMilliseconds int64 `json:"longestGapKeptMilliseconds"`
}
