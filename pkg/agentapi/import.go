package agentapi

import "path/filepath"

// ImportJob says what an init Job takes from a server that runs elsewhere.
type ImportJob struct {
	// Object is the ConfigMap in which the Job says how far it is.
	Object Object       `json:"object"`
	Source ImportSource `json:"source"`
	// Databases to import; none: all but the server's own.
	Databases []ImportDatabase `json:"databases,omitempty"`
	// Database and Owner are the application's, and must come with the import.
	Database string `json:"database"`
	Owner    string `json:"owner"`
	// Connections at the same time.
	Connections int `json:"connections"`
	// ClusterLocales: databases get the encoding and the locale of the cluster, not those that they had.
	ClusterLocales    bool     `json:"clusterLocales,omitempty"`
	ExcludeExtensions []string `json:"excludeExtensions,omitempty"`
	// PreloadLibraries is shared_preload_libraries of the cluster, without which some extensions can't be created.
	PreloadLibraries string `json:"preloadLibraries,omitempty"`
}

// ImportSource is a server and how to log in there.
type ImportSource struct {
	Host     string `json:"host"`
	Port     int    `json:"port"`
	User     string `json:"user"`
	Database string `json:"database"`
	// SSLMode in the words of libpq.
	SSLMode string `json:"sslMode"`
	// Password, CA, Certificate and Key are mounted below SecretsDir.
	Password    *SecretKey `json:"password,omitempty"`
	CA          *SecretKey `json:"ca,omitempty"`
	Certificate *SecretKey `json:"certificate,omitempty"`
	Key         *SecretKey `json:"key,omitempty"`
}

// SecretKey is a key of a Secret that is mounted.
type SecretKey struct {
	Secret string `json:"secret"`
	Key    string `json:"key"`
}

// Path is where the key is, below the folder of Secrets.
func (k SecretKey) Path(dir string) string { return filepath.Join(dir, k.Secret, k.Key) }

// ImportDatabase is a database to import, and what of it stays behind. Tables have the name of their schema.
type ImportDatabase struct {
	Name             string   `json:"name"`
	ExcludeSchemas   []string `json:"excludeSchemas,omitempty"`
	ExcludeTables    []string `json:"excludeTables,omitempty"`
	ExcludeTableData []string `json:"excludeTableData,omitempty"`
}

// Keys of the ConfigMap in which an init Job that imports reports.
const (
	ImportProgressKey  = "progress"  // v1alpha1.Progress
	ImportPreflightKey = "preflight" // ImportPreflight
)

// ImportPreflight is what an import has found before it copied anything.
type ImportPreflight struct {
	SourceVersion string   `json:"sourceVersion"`
	Databases     []string `json:"databases"`
	Warnings      []string `json:"warnings,omitempty"`
	// RolesWithoutPassword could log in with a password on the source.
	RolesWithoutPassword []string `json:"rolesWithoutPassword,omitempty"`
}
