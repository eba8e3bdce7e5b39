package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Role is a role that the primary keeps as it is declared here. No role can become a superuser this way.
//
// +kubebuilder:validation:XValidation:rule="self.ensure != 'Absent' || !(has(self.passwordSecret) || has(self.certificateSecret) || has(self.inRoles))",message="spec.roles: a role with ensure: Absent is dropped; remove its other fields"
// +kubebuilder:validation:XValidation:rule="self.login || !has(self.certificateSecret)",message="spec.roles: a role with login: false can't log in; remove its certificateSecret, or set login: true"
type Role struct {
	// Name of the role.
	// +kubebuilder:validation:Pattern=`^[a-z_][a-z0-9_-]{0,62}$`
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="!(self in ['postgres','public','none']) && !self.startsWith('pg_') && !self.startsWith('howdah_') && !self.startsWith('howdah-')",message="spec.roles contains a name that PostgreSQL or Howdah uses itself; choose another one, such as reporting"
	Name string `json:"name"`
	// Ensure is Present to create the role if it is missing, or Absent to drop it. A role that owns something can't be
	// dropped.
	// +optional
	// +kubebuilder:default=Present
	Ensure Presence `json:"ensure,omitempty"`
	// Login allows sessions as this role.
	// +optional
	// +kubebuilder:default=true
	Login *bool `json:"login,omitempty"`
	// CreateDB allows the role to create databases.
	// +optional
	CreateDB bool `json:"createdb,omitempty"`
	// CreateRole allows the role to create roles. Before PostgreSQL 16 this is nearly as powerful as a superuser: the role
	// may change every role that is not a superuser.
	// +optional
	CreateRole bool `json:"createrole,omitempty"`
	// Replication allows the role to read changes of the databases, as CDC tools do, and to create and drop replication slots. With a
	// line of spec.postgresql.hba for the database replication, the role can copy the whole data directory. By default, a new role
	// may not, and one that exists keeps what it has.
	// +optional
	Replication *bool `json:"replication,omitempty"`
	// BypassRLS lets the role read and write all rows, whatever policies of row-level security say. By default, a new role does not
	// bypass them, and one that exists keeps what it has.
	// +optional
	BypassRLS *bool `json:"bypassrls,omitempty"`
	// Parameters are what the role's sessions start with, such as statement_timeout: 30s. Where there are some, the role has no others:
	// what somebody else has set for it is reset. By default, they are left as they are.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	Parameters map[RoleParameter]ParameterValue `json:"parameters,omitempty"`
	// Inherit gives the role the privileges of the roles that it is a member of, without SET ROLE.
	// +optional
	// +kubebuilder:default=true
	Inherit *bool `json:"inherit,omitempty"`
	// ConnectionLimit is the number of simultaneous sessions that are allowed; -1 means any number.
	// +optional
	// +kubebuilder:default=-1
	// +kubebuilder:validation:Minimum=-1
	ConnectionLimit *int32 `json:"connectionLimit,omitempty"`
	// ValidUntil is when the password expires. By default, never.
	// +optional
	ValidUntil *metav1.Time `json:"validUntil,omitempty"`
	// InRoles are the roles that it is a member of. A membership that the superuser has granted and that is not listed here
	// is revoked.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:Pattern=`^[a-z_][a-z0-9_-]{0,62}$`
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="!self.exists(r, r in ['postgres','pg_execute_server_program','pg_read_server_files','pg_write_server_files'] || r.startsWith('howdah_'))",message="spec.roles[].inRoles contains a role that is as powerful as a superuser, or that belongs to Howdah; remove it"
	InRoles []string `json:"inRoles,omitempty"`
	// PasswordSecret has the password. Changing the Secret changes the password. By default, the role keeps the password
	// that it has.
	// +optional
	PasswordSecret *PasswordSecret `json:"passwordSecret,omitempty"`
	// CertificateSecret is created with a certificate with which this role can log in where spec.postgresql.hba says cert.
	// +optional
	CertificateSecret *CertificateSecret `json:"certificateSecret,omitempty"`
}

// RoleParameter is the name of a parameter that a role has a value of.
// +kubebuilder:validation:MaxLength=127
type RoleParameter string

// CertificateSecret is where a client certificate is stored: tls.crt and tls.key, and ca.crt to verify the server. The
// certificate is renewed there before it expires.
type CertificateSecret struct {
	// Name of the Secret, in the same namespace. It must not exist yet, unless it was created for this role.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
}

// PasswordSecret says where a password is stored.
type PasswordSecret struct {
	// Name of the Secret, in the same namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Key in the Secret.
	// +optional
	// +kubebuilder:default=password
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// Presence says whether something should exist in the database.
// +kubebuilder:validation:Enum=Present;Absent
type Presence string

const (
	// Present creates it if it is missing.
	Present Presence = "Present"
	// Absent drops it.
	Absent Presence = "Absent"
)

// Database is a database that the primary keeps as it is declared here. A database that is removed from the list stays.
//
// +kubebuilder:validation:XValidation:rule="self.ensure != 'Absent' || !(has(self.extensions) || has(self.schemas) || has(self.publications) || has(self.subscriptions))",message="spec.databases: a database with ensure: Absent is dropped with everything in it; remove its extensions, schemas, publications and subscriptions"
// +kubebuilder:validation:XValidation:rule="!has(self.locale) || has(self.localeProvider)",message="spec.databases[].locale needs a localeProvider, because the name means something else to each: set localeProvider to Builtin, ICU or Libc"
// +kubebuilder:validation:XValidation:rule="!has(self.localeProvider) || has(self.locale)",message="spec.databases[].localeProvider needs a locale; for example: locale: de-AT with ICU"
type Database struct {
	// Name of the database.
	// +kubebuilder:validation:Pattern=`^[a-z_][a-z0-9_-]{0,62}$`
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="!(self in ['postgres','template0','template1']) && !self.startsWith('howdah_') && !self.startsWith('howdah-')",message="spec.databases contains a name that PostgreSQL or Howdah uses itself; choose another one, such as orders"
	Name string `json:"name"`
	// Ensure is Present to create the database if it is missing, or Absent to drop it with everything in it, once nobody
	// uses it.
	// +optional
	// +kubebuilder:default=Present
	Ensure Presence `json:"ensure,omitempty"`
	// Owner is a role. By default, a new database is owned by the application's role, and the owner of an existing one is
	// not changed.
	// +optional
	// +kubebuilder:validation:Pattern=`^[a-z_][a-z0-9_-]{0,62}$`
	// +kubebuilder:validation:MaxLength=63
	Owner string `json:"owner,omitempty"`
	// Encoding of a new database, such as UTF8. By default, that of its template.
	// +optional
	// +kubebuilder:validation:Pattern=`^[A-Z0-9_]{1,32}$`
	Encoding string `json:"encoding,omitempty"`
	// LocaleProvider of a new database (from version 15 on; Builtin from 17 on). By default, that of its template.
	// +optional
	LocaleProvider LocaleProvider `json:"localeProvider,omitempty"`
	// Locale of a new database, by its name in the provider: C.UTF-8, de_DE.UTF-8, de-AT. By default, that of its template.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z][-A-Za-z0-9_.@=]*$`
	Locale string `json:"locale,omitempty"`
	// Template is the database that a new one is a copy of. Nobody may use it at that moment. By default, template0 where encoding or
	// locale are set, else template1.
	// +optional
	// +kubebuilder:validation:Pattern=`^[a-z_][a-z0-9_-]{0,62}$`
	Template string `json:"template,omitempty"`
	// ConnectionLimit is the number of simultaneous sessions that are allowed; -1 means any number. By default, a new database has no
	// limit, and one that exists keeps what it has.
	// +optional
	// +kubebuilder:validation:Minimum=-1
	ConnectionLimit *int32 `json:"connectionLimit,omitempty"`
	// Schemas in the database. A schema that is removed from the list stays.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Schemas []DatabaseSchema `json:"schemas,omitempty"`
	// Publications of tables for subscribers and CDC tools. A publication that is removed from the list stays.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Publications []Publication `json:"publications,omitempty"`
	// Subscriptions to publications of other servers (from version 16 on). A subscription that is removed from the list stays.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Subscriptions []Subscription `json:"subscriptions,omitempty"`
	// Extensions in the database. An extension that is removed from the list stays.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Extensions []Extension `json:"extensions,omitempty"`
}

// DatabaseSchema is a schema in a database.
type DatabaseSchema struct {
	// Name of the schema.
	// +kubebuilder:validation:Pattern=`^[a-z_][a-z0-9_]{0,62}$`
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Owner is a role, which may create anything in the schema. By default, a new schema is owned by the owner of the database, and
	// the owner of an existing one is not changed.
	// +optional
	// +kubebuilder:validation:Pattern=`^[a-z_][a-z0-9_-]{0,62}$`
	// +kubebuilder:validation:MaxLength=63
	Owner string `json:"owner,omitempty"`
	// Grants of rights in the schema. A grant that is removed from the list stays; REVOKE takes it back.
	// +optional
	// +listType=map
	// +listMapKey=role
	// +kubebuilder:validation:MaxItems=16
	Grants []SchemaGrant `json:"grants,omitempty"`
}

// SchemaGrant is what a role may do in a schema, with existing objects and with those that the owner of the schema
// creates later.
type SchemaGrant struct {
	// Role that has the rights.
	// +kubebuilder:validation:Pattern=`^[a-z_][a-z0-9_-]{0,62}$`
	// +kubebuilder:validation:MaxLength=63
	Role string `json:"role"`
	// Access is Read, to read tables and sequences, or Write, to change their rows as well and to execute functions.
	Access SchemaAccess `json:"access"`
}

// SchemaAccess is what a role may do in a schema.
// +kubebuilder:validation:Enum=Read;Write
type SchemaAccess string

// The rights in a schema.
const (
	// AccessRead allows USAGE of the schema, and SELECT of its tables, views and sequences.
	AccessRead SchemaAccess = "Read"
	// AccessWrite also allows INSERT, UPDATE and DELETE, USAGE of sequences and EXECUTE of functions.
	AccessWrite SchemaAccess = "Write"
)

// Publication of changes in a database.
//
// +kubebuilder:validation:XValidation:rule="self.ensure == 'Absent' || (has(self.allTables) && self.allTables) != (has(self.tables) || has(self.schemas))",message="spec.databases[].publications: a publication must have either allTables: true, or tables or schemas"
type Publication struct {
	// Name of the publication.
	// +kubebuilder:validation:Pattern=`^[a-z_][a-z0-9_]{0,62}$`
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Ensure is Present to create the publication, or Absent to drop it, after which its subscribers receive nothing.
	// +optional
	// +kubebuilder:default=Present
	Ensure Presence `json:"ensure,omitempty"`
	// AllTables publishes all tables, including those that are created later.
	// +optional
	AllTables bool `json:"allTables,omitempty"`
	// Tables that are published, such as public.orders. They must exist.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:Pattern=`^[a-z_][a-z0-9_]{0,62}[.][a-z_][a-z0-9_]{0,62}$`
	// +kubebuilder:validation:items:MaxLength=127
	Tables []string `json:"tables,omitempty"`
	// Schemas whose tables are all published, including those that are created later (from version 15 on).
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:Pattern=`^[a-z_][a-z0-9_]{0,62}$`
	// +kubebuilder:validation:items:MaxLength=63
	Schemas []string `json:"schemas,omitempty"`
}

// Extension in a database.
type Extension struct {
	// Name of the extension, such as pg_trgm. The image must contain it.
	// +kubebuilder:validation:Pattern=`^[a-z_][a-z0-9_-]{0,62}$`
	Name string `json:"name"`
	// Schema of the extension, which is created if it is missing. By default, the schema that the extension names, or else
	// public, or extensions for one that PostgreSQL doesn't trust: only superusers may own its schema or create anything in it.
	// +optional
	// +kubebuilder:validation:Pattern=`^[a-z_][a-z0-9_]{0,62}$`
	Schema string `json:"schema,omitempty"`
	// Version of the extension. By default, the newest in the image when it is created, and no change later.
	// +optional
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`
	Version string `json:"version,omitempty"`
}
