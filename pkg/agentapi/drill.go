package agentapi

// DrillJob is job.json of a Job that looks at a restored cluster: `agent drill`, in the cluster's PostgreSQL image. The
// certificate of the cluster's authority is at ClientTLSDir, and the superuser's Secret below SecretsDir.
type DrillJob struct {
	// Host of the restored cluster.
	Host         string `json:"host"`
	MajorVersion int    `json:"majorVersion"`
	// Database of the application.
	Database string `json:"database"`
	// SuperuserSecret has the password that pg_amcheck comes with.
	SuperuserSecret string           `json:"superuserSecret"`
	Assertions      []DrillAssertion `json:"assertions,omitempty"`
}

// DrillAssertion is a query whose one row and column must be true.
type DrillAssertion struct {
	Name     string `json:"name"`
	Database string `json:"database,omitempty"` // empty: the application's
	Query    string `json:"query"`
}

// DrillResult is what was found. Damage, and an assertion that isn't true, is a result, not a failure of the Job.
type DrillResult struct {
	Seconds int64 `json:"seconds"`
	// Corrupt names the relations that pg_amcheck complains of, the first of CorruptCount.
	Corrupt      []string `json:"corrupt,omitempty"`
	CorruptCount int      `json:"corruptCount,omitempty"`
	// Failed are the assertions that are not true, the first of FailedCount.
	Failed      []FailedAssertion `json:"failed,omitempty"`
	FailedCount int               `json:"failedCount,omitempty"`
}

// FailedAssertion is one that is not true, or could not be asked. It quotes no data.
type FailedAssertion struct {
	Name    string `json:"name"`
	Message string `json:"message"`
}
