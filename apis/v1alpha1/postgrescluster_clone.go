package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// BootstrapClone copies the data of another PostgresCluster of the same namespace, which continues running: all databases, roles and passwords,
// from one of its replicas if it has any. The two have nothing to do with each other afterwards. What is written there after the copy doesn't
// come over. Another way, which doesn't read the other cluster at all, is a Restore of its backup into a new cluster.
type BootstrapClone struct {
	// Cluster is the PostgresCluster whose data is copied. It must run the version of this one.
	Cluster LocalReference `json:"cluster"`
	// Database is the name of the application's database. The copied data must contain it.
	// +optional
	// +kubebuilder:default=app
	// +kubebuilder:validation:Pattern=`^[a-z_][a-z0-9_]{0,62}$`
	// +kubebuilder:validation:XValidation:rule="!(self in ['postgres','template0','template1'])",message="spec.bootstrap.clone.database is a name that PostgreSQL uses itself: name the database of the application, such as shop"
	Database string `json:"database,omitempty"`
	// Owner is the name of the application's role. The copied data must contain it. It gets the password in Secret
	// <name>-app; all other roles keep theirs.
	// +optional
	// +kubebuilder:default=app
	// +kubebuilder:validation:Pattern=`^[a-z_][a-z0-9_]{0,62}$`
	// +kubebuilder:validation:XValidation:rule="self != 'postgres' && !self.startsWith('pg_') && !self.startsWith('howdah_')",message="spec.bootstrap.clone.owner is a name that PostgreSQL or Howdah uses itself; name the role that owns the application's database, such as app"
	Owner string `json:"owner,omitempty"`
}

// CloneStatus is what came of spec.bootstrap.clone.
type CloneStatus struct {
	// ClusterUID of the PostgresCluster whose data is copied. A PostgresCluster that is created later under the same
	// name is a different one.
	ClusterUID types.UID `json:"clusterUID"`
	// SystemIdentifier of its data.
	// +kubebuilder:validation:MaxLength=20
	SystemIdentifier string `json:"systemIdentifier"`
	// Progress of the init Job.
	// +optional
	Progress *Progress `json:"progress,omitempty"`
	// CompletedAt is when all of it was on the volume. PostgreSQL is not started before that.
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`
}
