package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// IntoCluster says what to bring back into a running cluster. Without tables and schemas, that is all of the database. Nothing that
// exists there is overwritten: what is in the way is named, and then nothing is restored.
// +kubebuilder:validation:XValidation:rule="!has(self.tables) || !has(self.schemas)",message="spec.destination.intoCluster can't have both tables and schemas: create a Restore for each"
// +kubebuilder:validation:XValidation:rule="!has(self.intoSchema) || has(self.tables) || has(self.schemas) && self.schemas.size() == 1",message="spec.destination.intoCluster.intoSchema applies to tables, or to a single schema: name them, such as tables: [public.orders]"
type IntoCluster struct {
	// Name of the PostgresCluster, in the same namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	Name string `json:"name"`
	// Database of the backup. By default, that of the application.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="!(self in ['template0','template1'])",message="spec.destination.intoCluster.database can't be template0 or template1: name the database that the tables were in, such as shop"
	Database string `json:"database,omitempty"`
	// Tables to restore, such as public.orders, with all partitions. Views, materialized views and sequences can be named, too. Names
	// are written as in the catalogs, without quotes.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	Tables []QualifiedName `json:"tables,omitempty"`
	// Schemas to restore, with everything in them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=50
	Schemas []SchemaName `json:"schemas,omitempty"`
	// IntoSchema is the schema to create them in, such as restored, instead of their own. It is created if it does not exist.
	// +optional
	IntoSchema SchemaName `json:"intoSchema,omitempty"`
	// IntoDatabase is the database to create them in, which must exist. By default, the one with the name of database.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="!(self in ['template0','template1'])",message="spec.destination.intoCluster.intoDatabase can't be template0 or template1: name a database of the application, such as shop"
	IntoDatabase string `json:"intoDatabase,omitempty"`
	// Credentials of the role that creates them. It must own the database, or be allowed to create in the schemas, and must not be a
	// superuser. By default, those of the application, in the Secret <name>-app.
	// +optional
	Credentials *RoleCredentials `json:"credentials,omitempty"`
	// Privileges says whether owners and grants are as they were (Restore), or all belongs to the role that creates it and
	// nothing is granted (Omit). The default is Restore.
	// +optional
	Privileges Inclusion `json:"privileges,omitempty"`
	// ForeignKeys says whether the foreign keys of restored tables to other tables are created (Restore) or left out (Omit), for example
	// because the rows that they refer to were deleted. The default is Restore.
	// +optional
	ForeignKeys Inclusion `json:"foreignKeys,omitempty"`
	// Storage of the temporary copy that the backup is restored to. By default, that of the cluster that was backed up.
	// +optional
	Storage *NewStorage `json:"storage,omitempty"`
	// Resources of the temporary copy. By default, those of the cluster that was backed up.
	// +optional
	Resources *Resources `json:"resources,omitempty"`
}

// QualifiedName is the name of a table with that of its schema.
// +kubebuilder:validation:MaxLength=127
// +kubebuilder:validation:XValidation:rule="self.matches('^[^.\"[:cntrl:]]{1,63}[.][^.\"[:cntrl:]]{1,63}$')",message="spec.destination.intoCluster.tables must have names with their schema and without quotes, such as public.orders"
// +kubebuilder:validation:XValidation:rule="!self.startsWith('pg_') && !self.startsWith('information_schema.')",message="spec.destination.intoCluster.tables can't have tables of PostgreSQL itself: name tables of the application, such as public.orders"
type QualifiedName string

// SchemaName is the name of a schema.
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self.matches('^[^.\"[:cntrl:]]{1,63}$')",message="the name of a schema in spec.destination.intoCluster must be written without quotes, such as sales"
// +kubebuilder:validation:XValidation:rule="!self.startsWith('pg_') && !self.startsWith('howdah_') && self != 'information_schema'",message="a schema in spec.destination.intoCluster can't be one of PostgreSQL or Howdah itself: name one of the application, such as sales"
type SchemaName string

// RoleCredentials are those of a role of the database.
type RoleCredentials struct {
	// SecretName of a Secret with username and password, in the same namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName"`
}

// Inclusion says whether something is restored.
// +kubebuilder:validation:Enum=Restore;Omit
type Inclusion string

const (
	// InclusionRestore restores it.
	InclusionRestore Inclusion = "Restore"
	// InclusionOmit leaves it out.
	InclusionOmit Inclusion = "Omit"
)

// IntoClusterStatus says how far a restore into a running cluster is.
type IntoClusterStatus struct {
	// Copy is the name of the Restore of the temporary copy and of its PostgresCluster, which are deleted in the end.
	Copy string `json:"copy"`
	// CopyUID is the UID of that Restore.
	// +optional
	CopyUID types.UID `json:"copyUID,omitempty"`
	// Role that creates what is restored.
	// +optional
	Role string `json:"role,omitempty"`
	// Database that it is created in.
	// +optional
	Database string `json:"database,omitempty"`
	// CheckedAt is when the running cluster was found to be able to take it.
	// +optional
	CheckedAt *metav1.Time `json:"checkedAt,omitempty"`
	// CopyingAt is since when the Job may write to the running cluster.
	// +optional
	CopyingAt *metav1.Time `json:"copyingAt,omitempty"`
	// CommittedAt is when it was known that everything is restored.
	// +optional
	CommittedAt *metav1.Time `json:"committedAt,omitempty"`
	// Restored are the first of the tables, views and sequences that were restored, at most 20.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Restored []string `json:"restored,omitempty"`
	// RestoredCount is how many there are.
	// +optional
	RestoredCount int64 `json:"restoredCount,omitempty"`
	// Rows that were copied.
	// +optional
	Rows int64 `json:"rows,omitempty"`
	// Bytes of rows that were copied, as text.
	// +optional
	Bytes int64 `json:"bytes,omitempty"`
	// Seconds that the copying took.
	// +optional
	Seconds int64 `json:"seconds,omitempty"`
	// NotRestored are objects that referred to the restored ones in the backup and that the cluster no longer has, such as views and
	// foreign keys of other tables that DROP ... CASCADE has dropped; at most 10.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	NotRestored []string `json:"notRestored,omitempty"`
}

// Reasons of a Restore into a running cluster. Written by the restore-controller.
const (
	// ReasonCheckingTarget: the running cluster is looked at before anything is restored.
	ReasonCheckingTarget = "CheckingTarget"
	// ReasonRestoringCopy: the backup is restored to the temporary copy.
	ReasonRestoringCopy = "RestoringCopy"
	// ReasonCopyingTables: the tables are copied from the temporary copy.
	ReasonCopyingTables = "CopyingTables"
	// ReasonObjectExists: something that is to be restored exists in the running cluster.
	ReasonObjectExists = "ObjectExists"
	// ReasonObjectMissing: the backup lacks what is to be restored, or the running cluster lacks what it needs.
	ReasonObjectMissing = "ObjectMissing"
	// ReasonRoleUnsuitable: the role may do too little for the restore, or so much that a backup could misuse it.
	ReasonRoleUnsuitable = "RoleUnsuitable"
	// ReasonNotCopied: the running cluster did not accept what was to be restored; nothing of it is there.
	ReasonNotCopied = "NotCopied"
)
