package agentapi

// Repository is repository.json: which repository was found first at the place that WAL goes to. That one is in a file of its own, as an
// agent that doesn't know it would compute another hash of the configuration.
type Repository struct {
	// Identity as status.identity of the BackupRepository has it.
	Identity string `json:"identity"`
}
