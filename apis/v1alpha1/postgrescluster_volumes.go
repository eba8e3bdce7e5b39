package v1alpha1

// VolumeOrigin says whose volumes a cluster begins with.
// +kubebuilder:validation:Enum=DeletedCluster
type VolumeOrigin string

// VolumesOfDeletedCluster are those that a PostgresCluster of the same name has left behind.
const VolumesOfDeletedCluster VolumeOrigin = "DeletedCluster"

// BootstrapVolumes says that the data is on volumes that exist already. Each is inspected first, by a Job that only reads. Nothing is
// written to any of them until all were compared, and until then nobody is served.
type BootstrapVolumes struct {
	// From says whose volumes they are. DeletedCluster: those that a PostgresCluster of this name has left behind, with
	// spec.deletionPolicy.volumes: Retain. The instance that was primary last starts first, and the others follow it.
	From VolumeOrigin `json:"from"`
	// Instance to start from, such as shop-1, whatever the other volumes contain. Commits that only another volume has
	// are lost. By default, the instance that was primary last; if its volume is missing, none is started.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Instance string `json:"instance,omitempty"`
	// Database is the name of the application's database in that data.
	// +optional
	// +kubebuilder:default=app
	// +kubebuilder:validation:Pattern=`^[a-z_][a-z0-9_]{0,62}$`
	Database string `json:"database,omitempty"`
	// Owner is the name of the application's role in that data.
	// +optional
	// +kubebuilder:default=app
	// +kubebuilder:validation:Pattern=`^[a-z_][a-z0-9_]{0,62}$`
	// +kubebuilder:validation:XValidation:rule="self != 'postgres' && !self.startsWith('pg_') && !self.startsWith('howdah_')",message="spec.bootstrap.volumes.owner is a name that PostgreSQL or Howdah uses itself; name the role that owns the application's database, such as app"
	Owner string `json:"owner,omitempty"`
}
