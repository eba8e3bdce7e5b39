package agentapi

// CloneJob says of which cluster an init Job makes a clone.
type CloneJob struct {
	// Object is the ConfigMap in which the Job says how far it is.
	Object Object `json:"object"`
	// Cluster that is cloned.
	Cluster string `json:"cluster"`
	// SystemIdentifier that it must have.
	SystemIdentifier string `json:"systemIdentifier"`
	// Database and Owner of the application, which the data must have.
	Database string `json:"database,omitempty"`
	Owner    string `json:"owner,omitempty"`
	// Hosts that lead to its servers, the best first. Their certificates have these names.
	Hosts []string `json:"hosts"`
	// Secret is mounted below SecretsDir; CA, Certificate and Key are the keys with which replicas log in.
	Secret      string `json:"secret"`
	CA          string `json:"ca"`
	Certificate string `json:"certificate"`
	Key         string `json:"key"`
	// PreloadLibraries is shared_preload_libraries of the new cluster, without which PostgreSQL may not understand all of the WAL.
	PreloadLibraries string `json:"preloadLibraries,omitempty"`
}
