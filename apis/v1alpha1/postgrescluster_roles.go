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
// +kubebuilder:validation:XValidation:rule="self.ensure != 'Absent' || !has(self.extensions)",message="spec.databases: a database with ensure: Absent is dropped with everything in it; remove its extensions"
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
	// Extensions in the database. An extension that is removed from the list stays.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Extensions []Extension `json:"extensions,omitempty"`
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
