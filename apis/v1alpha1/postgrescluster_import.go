package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BootstrapImport takes databases from a PostgreSQL server that runs elsewhere. What is written there after the import has begun doesn't
// come over, unless it is online. Otherwise the source is only read.
// +kubebuilder:validation:XValidation:rule="!has(self.databases) || self.databases.exists(d, d.name == self.database)",message="spec.bootstrap.import.databases must contain spec.bootstrap.import.database, the database of the application: add it, or remove databases to import all of them"
type BootstrapImport struct {
	// Source is the server that the databases come from.
	Source ImportSource `json:"source"`
	// Databases to import. By default, all but postgres and the templates.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Databases []ImportDatabase `json:"databases,omitempty"`
	// Database is the name of the application's database, one of those that are imported.
	// +kubebuilder:validation:Pattern=`^[a-z_][a-z0-9_]{0,62}$`
	// +kubebuilder:validation:XValidation:rule="!(self in ['postgres','template0','template1'])",message="spec.bootstrap.import.database is a name that PostgreSQL uses itself: name the database of the application, such as shop"
	Database string `json:"database"`
	// Owner is the name of the role that the application logs in as. It gets the password in Secret <name>-app; all other roles keep theirs.
	// +kubebuilder:validation:Pattern=`^[a-z_][a-z0-9_]{0,62}$`
	// +kubebuilder:validation:XValidation:rule="self != 'postgres' && !self.startsWith('pg_') && !self.startsWith('howdah_')",message="spec.bootstrap.import.owner is a name that PostgreSQL or Howdah uses itself: name the role that the application logs in as; if that is postgres, create another one on the source first, and give it what it needs"
	Owner string `json:"owner"`
	// Connections is how many tables are copied, and indexes are built, at the same time.
	// +optional
	// +kubebuilder:default=4
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 32",message="spec.bootstrap.import.connections must be from 1 to 32, and no more than the source can spare; for example: 4"
	Connections int32 `json:"connections,omitempty"`
	// Locales says which locale and encoding the databases get. With Source, those that they have there, which the image must have.
	// With Cluster, UTF8 and C.UTF-8, in which text is ordered by code points. The default is Source.
	// +optional
	Locales ImportLocales `json:"locales,omitempty"`
	// ExcludeExtensions are not created, such as those that only the source's provider has.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	ExcludeExtensions []ImportName `json:"excludeExtensions,omitempty"`
	// Online lets the import follow the source by logical replication after the copy, until the cutover. The source needs wal_level logical,
	// and the user needs the attribute REPLICATION and the privileges of the owner of each table. Until the cutover, there are a publication
	// and a replication slot on the source for each database.
	// +optional
	Online *OnlineImport `json:"online,omitempty"`
}

// OnlineImport follows the source until a person requests the cutover. It is the only part of spec.bootstrap that can be changed.
type OnlineImport struct {
	// Cutover ends the import: once nobody can write to the databases on the source, and everything that was written there is in the cluster,
	// the cluster starts. Set it to false to take the request back, which has no effect once status.import.online.state is CutOver.
	// +optional
	Cutover bool `json:"cutover,omitempty"`
	// MaxRetainedWAL is how much WAL the replication slots may retain on the source while the init Job runs. If they retain more, they are
	// dropped, and the import fails.
	// +optional
	// +kubebuilder:default="64Gi"
	// +kubebuilder:validation:XValidation:rule="quantity(self).compareTo(quantity('64Mi')) >= 0",message="spec.bootstrap.import.online.maxRetainedWAL must be at least 64Mi, such as 64Gi, and less than what the source's disk has left"
	MaxRetainedWAL *resource.Quantity `json:"maxRetainedWAL,omitempty"`
	// AbandonSource lets the PostgresCluster be deleted although the source can't be reached: publications and replication slots that may be
	// left there are not dropped.
	// +optional
	AbandonSource bool `json:"abandonSource,omitempty"`
}

// ImportLocales says which locale and encoding imported databases get.
// +kubebuilder:validation:Enum=Source;Cluster
type ImportLocales string

const (
	// ImportLocalesSource are those that the databases have on the source.
	ImportLocalesSource ImportLocales = "Source"
	// ImportLocalesCluster are those of a new database of the cluster.
	ImportLocalesCluster ImportLocales = "Cluster"
)

// ImportName is the name of a schema or of an extension.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
type ImportName string

// ImportTable is the name of a table with its schema.
// +kubebuilder:validation:MaxLength=127
// +kubebuilder:validation:XValidation:rule="self.matches('^[^.]{1,63}[.][^.]{1,63}$')",message="spec.bootstrap.import.databases: name a table with its schema and without wildcards, such as public.events"
type ImportTable string

// ImportDatabase is a database to import, and what of it stays behind.
type ImportDatabase struct {
	// Name of the database.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="!(self in ['postgres','template0','template1'])",message="spec.bootstrap.import.databases: postgres and the templates are every server's own and can't be imported: move what they have into another database first"
	Name string `json:"name"`
	// ExcludeSchemas are left out with everything in them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	ExcludeSchemas []ImportName `json:"excludeSchemas,omitempty"`
	// ExcludeTables are left out. Each partition is a table.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	ExcludeTables []ImportTable `json:"excludeTables,omitempty"`
	// ExcludeTableData are tables that are imported empty. Each partition is a table.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	ExcludeTableData []ImportTable `json:"excludeTableData,omitempty"`
}

// ImportSSLMode says how the connection to the source is protected.
// +kubebuilder:validation:Enum=Disable;Require;VerifyCA;VerifyFull
type ImportSSLMode string

const (
	// ImportSSLDisable is a connection that anybody on the way can read.
	ImportSSLDisable ImportSSLMode = "Disable"
	// ImportSSLRequire encrypts, and doesn't ask who answers.
	ImportSSLRequire ImportSSLMode = "Require"
	// ImportSSLVerifyCA checks that the source's certificate is one of the CA.
	ImportSSLVerifyCA ImportSSLMode = "VerifyCA"
	// ImportSSLVerifyFull checks the name in it, too.
	ImportSSLVerifyFull ImportSSLMode = "VerifyFull"
)

// ImportSource is a PostgreSQL server and how to log in there. Who owns tables there is trusted as a superuser of the cluster is.
// +kubebuilder:validation:XValidation:rule="!(self.sslMode in ['VerifyCA','VerifyFull']) || has(self.caSecret)",message="spec.bootstrap.import.source.sslMode: VerifyFull and VerifyCA need the CA of the source's certificate: set caSecret.name to a Secret with the key ca.crt, or sslMode: Require to encrypt without knowing who answers"
// +kubebuilder:validation:XValidation:rule="has(self.passwordSecret) || has(self.clientCertificateSecret)",message="spec.bootstrap.import.source needs something to log in with: set passwordSecret.name to a Secret with the key password, or clientCertificateSecret.name to one with tls.crt and tls.key"
// +kubebuilder:validation:XValidation:rule="!has(self.clientCertificateSecret) || self.sslMode != 'Disable'",message="spec.bootstrap.import.source.clientCertificateSecret needs TLS: remove sslMode: Disable"
type ImportSource struct {
	// Host is the name or the address of the server.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]([-A-Za-z0-9._:]*[A-Za-z0-9])?$')",message="spec.bootstrap.import.source.host must be one name or address, such as db.example.com"
	Host string `json:"host"`
	// Port of the server itself, not of a pooler such as PgBouncer.
	// +optional
	// +kubebuilder:default=5432
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// User to log in as. It must be able to read all that is imported: a superuser, or a member of pg_read_all_data.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	User string `json:"user"`
	// MaintenanceDatabase is the database in which roles and databases are listed.
	// +optional
	// +kubebuilder:default=postgres
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	MaintenanceDatabase string `json:"maintenanceDatabase,omitempty"`
	// SSLMode says how the connection is protected. By default, the source must prove with its certificate that it is the host.
	// +optional
	// +kubebuilder:default=VerifyFull
	SSLMode ImportSSLMode `json:"sslMode,omitempty"`
	// PasswordSecret is a key of a Secret; by default, password.
	// +optional
	PasswordSecret *ImportSecretKey `json:"passwordSecret,omitempty"`
	// CASecret is a key of a Secret that has the CA of the source's certificate; by default, ca.crt.
	// +optional
	CASecret *ImportSecretKey `json:"caSecret,omitempty"`
	// ClientCertificateSecret is a Secret with tls.crt and tls.key to log in with.
	// +optional
	ClientCertificateSecret *LocalReference `json:"clientCertificateSecret,omitempty"`
}

// ImportSecretKey is a key of a Secret in the same namespace.
type ImportSecretKey struct {
	// Name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Key in it.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-_a-zA-Z0-9][-._a-zA-Z0-9]*$`
	Key string `json:"key,omitempty"`
}

// ImportStatus is what came of spec.bootstrap.import. The last attempt counts: one that ends early begins anew.
type ImportStatus struct {
	// SourceVersion of PostgreSQL, such as 15.4.
	// +optional
	SourceVersion string `json:"sourceVersion,omitempty"`
	// Databases that are imported.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Databases []string `json:"databases,omitempty"`
	// Warnings say what isn't imported, or is imported with changes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Warnings []string `json:"warnings,omitempty"`
	// RolesWithoutPassword are roles that could log in with a password on the source, and can't here, because the
	// source did not show the password, or not as scram-sha-256. Give them a new one with spec.roles or ALTER ROLE.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	RolesWithoutPassword []string `json:"rolesWithoutPassword,omitempty"`
	// Progress of the init Job.
	// +optional
	Progress *Progress `json:"progress,omitempty"`
	// Online is how an online import follows the source.
	// +optional
	Online *OnlineImportStatus `json:"online,omitempty"`
	// CompletedAt is when all of it was on the volume. PostgreSQL is not started before that.
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`
}

// OnlineImportState is how far an online import is.
// +kubebuilder:validation:Enum=Copying;Following;CuttingOver;CutOver;Released
type OnlineImportState string

const (
	// OnlineImportCopying: what was there at the beginning is copied.
	OnlineImportCopying OnlineImportState = "Copying"
	// OnlineImportFollowing: changes are applied, and the cutover isn't requested.
	OnlineImportFollowing OnlineImportState = "Following"
	// OnlineImportCuttingOver: the cutover was requested, and its conditions are checked.
	OnlineImportCuttingOver OnlineImportState = "CuttingOver"
	// OnlineImportCutOver: the cutover is decided, and changes of the source are no longer applied.
	OnlineImportCutOver OnlineImportState = "CutOver"
	// OnlineImportReleased: the PostgresCluster is being deleted, and nothing of the import is left on the source.
	OnlineImportReleased OnlineImportState = "Released"
)

// OnlineImportStatus is how an online import follows the source, as the init Job has said.
type OnlineImportStatus struct {
	// State of the import.
	// +optional
	State OnlineImportState `json:"state,omitempty"`
	// LagBytes of WAL are not applied yet, in the database that lags most.
	// +optional
	LagBytes int64 `json:"lagBytes,omitempty"`
	// RetainedBytes of WAL are kept on the source for the replication slot that needs most.
	// +optional
	RetainedBytes int64 `json:"retainedBytes,omitempty"`
	// ComparedRows is how many rows both sides had when they were compared last.
	// +optional
	ComparedRows int64 `json:"comparedRows,omitempty"`
	// Problems keep it from following the source, or from the cutover.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Problems []string `json:"problems,omitempty"`
}
