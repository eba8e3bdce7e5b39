package v1alpha1

// Subscription is a logical subscription of a database, which receives the changes of another server's publications. It
// needs PostgreSQL 16 or later, where it runs with the rights of its owner.
//
// +kubebuilder:validation:XValidation:rule="self.ensure == 'Absent' || (has(self.publisher) && has(self.publications))",message="spec.databases[].subscriptions: a subscription needs a publisher and publications, such as publications: [orders]; to drop it, set ensure: Absent"
type Subscription struct {
	// Name of the subscription.
	// +kubebuilder:validation:Pattern=`^[a-z_][a-z0-9_]{0,62}$`
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Ensure is Present to create the subscription, or Absent to drop it. The slot of one that is enabled is dropped with it, and so is that of
	// one which a restore in place, an undo or a rollback has disabled. The slot of any other disabled one stays at the publisher: it may be
	// that of the cluster which this one is a copy of.
	// +optional
	// +kubebuilder:default=Present
	Ensure Presence `json:"ensure,omitempty"`
	// Enabled says whether the subscription receives changes. One that a restore, an undo or a rollback has disabled
	// stays disabled until it was Absent, because it would silently skip the changes that its slot at the publisher has
	// passed.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`
	// Publisher is the server that it connects to.
	// +optional
	Publisher *Publisher `json:"publisher,omitempty"`
	// Publications of that server.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:Pattern=`^[a-z_][a-z0-9_]{0,62}$`
	// +kubebuilder:validation:items:MaxLength=63
	Publications []string `json:"publications,omitempty"`
	// Owner is a role that is a member of pg_create_subscription, and may change the tables: spec.roles[].inRoles can
	// say so. By default, the owner of the database. It applies when the subscription is created.
	// +optional
	// +kubebuilder:validation:Pattern=`^[a-z_][a-z0-9_-]{0,62}$`
	// +kubebuilder:validation:MaxLength=63
	Owner string `json:"owner,omitempty"`
	// SlotName is the replication slot at the publisher, which is created with the subscription. By default, the name of the subscription.
	// +optional
	// +kubebuilder:validation:Pattern=`^[a-z0-9_]{1,63}$`
	// +kubebuilder:validation:MaxLength=63
	SlotName string `json:"slotName,omitempty"`
	// CopyData copies the rows that exist when the subscription is created.
	// +optional
	// +kubebuilder:default=true
	CopyData *bool `json:"copyData,omitempty"`
	// Failover makes the publisher's replicas keep a copy of the slot, so that the subscription continues after a
	// failover there. Both servers must be of version 17 or later.
	// +optional
	Failover bool `json:"failover,omitempty"`
}

// Publisher is a server that a subscription connects to.
type Publisher struct {
	// Host is a DNS name or an IP address.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9.:]*[A-Za-z0-9])?$`
	Host string `json:"host"`
	// Port of PostgreSQL.
	// +optional
	// +kubebuilder:default=5432
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// Database that has the publications.
	// +kubebuilder:validation:Pattern=`^[A-Za-z_][A-Za-z0-9_-]{0,62}$`
	// +kubebuilder:validation:MaxLength=63
	Database string `json:"database"`
	// User that logs in there. It needs the attribute REPLICATION, and may read the tables.
	// +kubebuilder:validation:Pattern=`^[A-Za-z_][A-Za-z0-9_-]{0,62}$`
	// +kubebuilder:validation:MaxLength=63
	User string `json:"user"`
	// PasswordSecret has the user's password.
	PasswordSecret PasswordSecret `json:"passwordSecret"`
	// SSLMode of the connection.
	// +optional
	// +kubebuilder:default=require
	SSLMode SSLMode `json:"sslMode,omitempty"`
	// SSLRootCert is a file in the pods with the CA certificates to trust, which spec.pods can mount; or system for those of the image.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^(system|/[-A-Za-z0-9._/]+)$`
	SSLRootCert string `json:"sslRootCert,omitempty"`
}

// SSLMode says how a connection is protected, as libpq's sslmode does.
// +kubebuilder:validation:Enum=require;verify-ca;verify-full
type SSLMode string
