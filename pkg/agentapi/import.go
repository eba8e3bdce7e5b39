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
	// Online follows the source after the copy; nil: the import ends with it.
	Online *OnlineImport `json:"online,omitempty"`
}

// OnlineImport says how a source is followed.
type OnlineImport struct {
	// Cluster is the UID of the cluster, from which the names of what is created on the source follow.
	Cluster string `json:"cluster"`
	// Release only drops what is there of the import.
	Release bool `json:"release,omitempty"`
}

// ImportWanted is what may change while an online import runs. It is not in the task, since another task is another Job, which would
// copy again.
type ImportWanted struct {
	// Cutover is requested.
	Cutover bool `json:"cutover,omitempty"`
	// MaxRetainedBytes of WAL that a slot may retain on the source; 0: not known yet.
	MaxRetainedBytes int64 `json:"maxRetainedBytes,omitempty"`
	// Generation of the PostgresCluster that says so. With it, a request that was taken back differs from one that was never made.
	Generation int64 `json:"generation,omitempty"`
}

// Name of the publication and of the slot on the source for a database, and of the subscription.
func (o OnlineImport) Name(database string) string {
	return OnlineImportPrefix + hash([]string{o.Cluster, database})
}

// OnlineImportPrefix begins the names of what online imports create on their sources.
const OnlineImportPrefix = "howdah_import_"

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
	ImportOnlineKey    = "online"    // v1alpha1.OnlineImportStatus
	ImportWantedKey    = "wanted"    // ImportWanted, which the db-controller writes
)

// ImportPreflight is what an import has found before it copied anything.
type ImportPreflight struct {
	SourceVersion string   `json:"sourceVersion"`
	Databases     []string `json:"databases"`
	Warnings      []string `json:"warnings,omitempty"`
	// RolesWithoutPassword could log in with a password on the source.
	RolesWithoutPassword []string `json:"rolesWithoutPassword,omitempty"`
}
