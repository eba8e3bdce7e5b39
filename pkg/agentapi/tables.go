package agentapi

// TablesJob is job.json of a Job that brings tables back into a running cluster: `agent tables`, in the PostgreSQL image of that cluster.
// The Secrets that it names are below SecretsDir.
type TablesJob struct {
	Object Object `json:"object"`
	// CheckOnly: only the running cluster is looked at, and nothing is written.
	CheckOnly bool `json:"checkOnly,omitempty"`
	// MajorVersion of the running cluster.
	MajorVersion int `json:"majorVersion"`
	// AccessSecret has host, port, dbname and ca.crt of the running cluster, and CredentialsSecret username and password of the role.
	AccessSecret      string `json:"accessSecret"`
	CredentialsSecret string `json:"credentialsSecret"`
	// Database that the tables were in; empty: that of the AccessSecret. IntoDatabase; empty: the same.
	Database     string `json:"database,omitempty"`
	IntoDatabase string `json:"intoDatabase,omitempty"`
	// Tables with their schemas, or Schemas; neither: all of the database.
	Tables  []string `json:"tables,omitempty"`
	Schemas []string `json:"schemas,omitempty"`
	// IntoSchema instead of their own; empty: their own.
	IntoSchema      string `json:"intoSchema,omitempty"`
	OmitPrivileges  bool   `json:"omitPrivileges,omitempty"`
	OmitForeignKeys bool   `json:"omitForeignKeys,omitempty"`
	// Copy that they are taken from; nil for a check.
	Copy *TablesCopy `json:"copy,omitempty"`
}

// TablesCopy is the temporary cluster that the backup was restored to.
type TablesCopy struct {
	MajorVersion int `json:"majorVersion"`
	// SuperuserSecret has host, port, ca.crt, username and password.
	SuperuserSecret string `json:"superuserSecret"`
}

// TablesResult is what was checked or restored.
type TablesResult struct {
	// Checked: nothing was restored, as the Job only checks.
	Checked bool `json:"checked,omitempty"`
	// Role that has logged in, and Database that it has created the tables in.
	Role     string `json:"role"`
	Database string `json:"database"`
	// Restored are the first of RestoredCount relations.
	Restored      []string `json:"restored,omitempty"`
	RestoredCount int      `json:"restoredCount,omitempty"`
	Rows          int64    `json:"rows,omitempty"`
	Bytes         int64    `json:"bytes,omitempty"`
	Seconds       int64    `json:"seconds,omitempty"`
	// NotRestored are the first of what referred to them and is missing.
	NotRestored []string `json:"notRestored,omitempty"`
}
