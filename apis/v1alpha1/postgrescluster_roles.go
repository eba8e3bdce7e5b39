package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Role is a role that the primary keeps as it is written here. Nobody is made a superuser by it.
//
// +kubebuilder:validation:XValidation:rule="self.ensure != 'Absent' || !(has(self.passwordSecret) || has(self.certificateSecret) || has(self.inRoles))",message="spec.roles: a role with ensure: Absent is dropped; leave the rest of it out"
// +kubebuilder:validation:XValidation:rule="self.login || !has(self.certificateSecret)",message="spec.roles: a role with login: false opens no session; leave its certificateSecret out, or have login: true"
type Role struct {
	// Name of the role.
	// +kubebuilder:validation:Pattern=`^[a-z_][a-z0-9_-]{0,62}$`
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="!(self in ['postgres','public','none']) && !self.startsWith('pg_') && !self.startsWith('howdah_')",message="spec.roles has a name that PostgreSQL or Howdah uses itself; choose another, such as reporting"
	Name string `json:"name"`
	// Ensure that the role is there, or that it isn't. One that owns something can't be dropped.
	// +optional
	// +kubebuilder:default=Present
	Ensure Presence `json:"ensure,omitempty"`
	// Login: sessions may be opened as this role.
	// +optional
	// +kubebuilder:default=true
	Login *bool `json:"login,omitempty"`
	// CreateDB: it may make databases.
	// +optional
	CreateDB bool `json:"createdb,omitempty"`
	// CreateRole: it may make roles. Before PostgreSQL 16 that is nearly as much as a superuser's power: it may change
	// every role that is none.
	// +optional
	CreateRole bool `json:"createrole,omitempty"`
	// Inherit: it has the rights of the roles that it is in without SET ROLE.
	// +optional
	// +kubebuilder:default=true
	Inherit *bool `json:"inherit,omitempty"`
	// ConnectionLimit is how many sessions it may have at once; -1 is any number.
	// +optional
	// +kubebuilder:default=-1
	// +kubebuilder:validation:Minimum=-1
	ConnectionLimit *int32 `json:"connectionLimit,omitempty"`
	// ValidUntil is when its password ends. Left out: never.
	// +optional
	ValidUntil *metav1.Time `json:"validUntil,omitempty"`
	// InRoles are the roles that it is a member of. A membership that the superuser has given and that is not here is
	// taken away.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:Pattern=`^[a-z_][a-z0-9_-]{0,62}$`
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="!self.exists(r, r in ['postgres','pg_execute_server_program','pg_read_server_files','pg_write_server_files'] || r.startsWith('howdah_'))",message="spec.roles[].inRoles has a role that is as mighty as a superuser, or that is Howdah's; leave it out"
	InRoles []string `json:"inRoles,omitempty"`
	// PasswordSecret has the password. A change there is a change of the password. Left out: it keeps the one it has.
	// +optional
	PasswordSecret *PasswordSecret `json:"passwordSecret,omitempty"`
	// CertificateSecret is made with a certificate by which this role logs in where spec.postgresql.hba says cert.
	// +optional
	CertificateSecret *CertificateSecret `json:"certificateSecret,omitempty"`
}

// CertificateSecret is where a client's certificate is put: tls.crt and tls.key, and ca.crt to check the server by. It is
// renewed there before it ends.
type CertificateSecret struct {
	// Name of the Secret, in the same namespace. It must not be there, or have been made for this role.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
}

// PasswordSecret is where a password stands.
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

// Presence of something in the database.
// +kubebuilder:validation:Enum=Present;Absent
type Presence string

const (
	// Present: it is made if it is missing.
	Present Presence = "Present"
	// Absent: it is dropped.
	Absent Presence = "Absent"
)

// Database that the primary keeps as it is written here. One that is no longer written here stays.
//
// +kubebuilder:validation:XValidation:rule="self.ensure != 'Absent' || !has(self.extensions)",message="spec.databases: a database with ensure: Absent is dropped with all that is in it; leave its extensions out"
type Database struct {
	// Name of the database.
	// +kubebuilder:validation:Pattern=`^[a-z_][a-z0-9_-]{0,62}$`
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="!(self in ['postgres','template0','template1'])",message="spec.databases has a name that PostgreSQL uses itself; choose another, such as orders"
	Name string `json:"name"`
	// Ensure that the database is there, or that it isn't: then it is dropped with all that is in it, once nobody uses it.
	// +optional
	// +kubebuilder:default=Present
	Ensure Presence `json:"ensure,omitempty"`
	// Owner is a role. Left out: the application's for a new database, and no change for one that is there.
	// +optional
	// +kubebuilder:validation:Pattern=`^[a-z_][a-z0-9_-]{0,62}$`
	// +kubebuilder:validation:MaxLength=63
	Owner string `json:"owner,omitempty"`
	// Extensions in the database. One that is no longer written here stays.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Extensions []Extension `json:"extensions,omitempty"`
}

// Extension in a database.
type Extension struct {
	// Name of the extension, such as pg_trgm. The image has to have it.
	// +kubebuilder:validation:Pattern=`^[a-z_][a-z0-9_-]{0,62}$`
	Name string `json:"name"`
	// Schema that it is in, made if it is missing. Left out: the one that the extension names, or else public.
	// +optional
	// +kubebuilder:validation:Pattern=`^[a-z_][a-z0-9_]{0,62}$`
	Schema string `json:"schema,omitempty"`
	// Version of it. Left out: the image's newest when it is made, and no change later.
	// +optional
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`
	Version string `json:"version,omitempty"`
}
