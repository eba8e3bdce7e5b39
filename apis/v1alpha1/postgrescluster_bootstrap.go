package v1alpha1

// Bootstrap says where the first data of a cluster comes from.
// +kubebuilder:validation:XValidation:rule="[has(self.initdb), has(self.restore), has(self.__import__), has(self.volumes), has(self.clone)].filter(x, x).size() == 1",message="spec.bootstrap must have exactly one of initdb, restore, import, volumes and clone"
type Bootstrap struct {
	// Initdb creates a new, empty database.
	// +optional
	Initdb *BootstrapInitdb `json:"initdb,omitempty"`
	// Restore lets a Restore provide the data.
	// +optional
	Restore *BootstrapRestore `json:"restore,omitempty"`
	// Import takes databases from a PostgreSQL server that runs elsewhere.
	// +optional
	Import *BootstrapImport `json:"import,omitempty"`
	// Volumes starts the cluster from volumes that already exist.
	// +optional
	Volumes *BootstrapVolumes `json:"volumes,omitempty"`
	// Clone copies the data of another PostgresCluster, which continues running.
	// +optional
	Clone *BootstrapClone `json:"clone,omitempty"`
}

// BootstrapRestore says that a Restore provides the data. The Restore creates the cluster with this field set.
type BootstrapRestore struct {
	// Name of the Restore.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Database is the name of the application's database in that data.
	// +optional
	// +kubebuilder:default=app
	// +kubebuilder:validation:Pattern=`^[a-z_][a-z0-9_]{0,62}$`
	Database string `json:"database,omitempty"`
	// Owner is the name of the application's role in that data.
	// +optional
	// +kubebuilder:default=app
	// +kubebuilder:validation:Pattern=`^[a-z_][a-z0-9_]{0,62}$`
	// +kubebuilder:validation:XValidation:rule="self != 'postgres' && !self.startsWith('pg_') && !self.startsWith('howdah_')",message="spec.bootstrap.restore.owner is a name that PostgreSQL or Howdah uses itself; name the role that owns the application's database, such as app"
	Owner string `json:"owner,omitempty"`
}
