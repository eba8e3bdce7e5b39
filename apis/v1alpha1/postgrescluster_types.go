package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PostgresCluster is a PostgreSQL server: a primary, and its replicas where there are more instances than one.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=pgc,categories=howdah
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.instances,statuspath=.status.readyInstances,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Instances",type=integer,JSONPath=`.spec.instances`
// +kubebuilder:printcolumn:name="Serving",type=integer,JSONPath=`.status.readyInstances`
// +kubebuilder:printcolumn:name="Primary",type=string,JSONPath=`.status.primary`
// +kubebuilder:printcolumn:name="Replicated",type=string,JSONPath=`.status.conditions[?(@.type=="Replicated")].status`
// +kubebuilder:printcolumn:name="Archiving",type=string,JSONPath=`.status.conditions[?(@.type=="Archiving")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 40",message="metadata.name is too long: names of a cluster's objects are made from it; use at most 40 characters"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be a DNS label that begins with a letter (a-z, 0-9 and '-'), for Services are named after it; for example: shop"
type PostgresCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec PostgresClusterSpec `json:"spec"`
	// +optional
	Status PostgresClusterStatus `json:"status,omitempty"`
}

// PostgresClusterList is a list of PostgresClusters.
// +kubebuilder:object:root=true
type PostgresClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PostgresCluster `json:"items"`
}

// PostgresClusterSpec says what is wanted.
// +kubebuilder:validation:XValidation:rule="has(self.bootstrap) == has(oldSelf.bootstrap) && (!has(self.bootstrap) || self.bootstrap == oldSelf.bootstrap)",message="spec.bootstrap can't be changed: the data is there already; make a new PostgresCluster, or a Restore"
// +kubebuilder:validation:XValidation:rule="!has(self.deletionPolicy) || !has(self.deletionPolicy.finalBackup) || !self.deletionPolicy.finalBackup || has(self.archive)",message="spec.deletionPolicy.finalBackup: true needs a place to put the backup: set spec.archive.repository.name to a BackupRepository, or write finalBackup: false"
// +kubebuilder:validation:XValidation:rule="!has(self.synchronous) || self.synchronous.number < self.instances",message="spec.synchronous.number must be less than spec.instances, for the primary is not counted: write a smaller number or more instances, or leave spec.synchronous out"
// +kubebuilder:validation:XValidation:rule="!has(self.roles) || self.roles.all(r, r.name != (has(self.bootstrap) && has(self.bootstrap.initdb) ? self.bootstrap.initdb.owner : has(self.bootstrap) && has(self.bootstrap.restore) ? self.bootstrap.restore.owner : 'app') || (r.ensure != 'Absent' && !has(r.passwordSecret) && r.login))",message="spec.roles: the application's role logs in with the password in Secret <name>-app; leave its passwordSecret, login and ensure out"
// +kubebuilder:validation:XValidation:rule="!has(self.databases) || self.databases.all(d, d.name != (has(self.bootstrap) && has(self.bootstrap.initdb) ? self.bootstrap.initdb.database : has(self.bootstrap) && has(self.bootstrap.restore) ? self.bootstrap.restore.database : 'app') || d.ensure != 'Absent')",message="spec.databases: the application's database can't be dropped here; delete the PostgresCluster instead"
type PostgresClusterSpec struct {
	// Version is the wished major version of PostgreSQL. What runs is status.version: the first one is taken from here,
	// a higher one is reached by an Upgrade, a lower one is never acted on.
	// +kubebuilder:validation:Minimum=14
	// +kubebuilder:validation:Maximum=99
	Version int32 `json:"version"`

	// Image of PostgreSQL, of the major version that runs. Any stock image works. Left out: the suite's image for the
	// version. Changing it restarts PostgreSQL, which is how minor versions are applied.
	// +optional
	// +kubebuilder:validation:MinLength=1
	Image string `json:"image,omitempty"`

	// Instances is the number of PostgreSQL servers: a primary, and the rest are replicas that follow it. With more
	// than one a primary that is lost is replaced within seconds. With fewer than before the highest numbers go, and
	// what becomes of their volumes is deletionPolicy.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 9",message="spec.instances must be from 1 to 9: write 1 for a single server, 3 for a primary with two replicas"
	Instances int32 `json:"instances,omitempty"`

	// Synchronous replication: a commit is acknowledged once so many replicas have it, and is lost with none of them.
	// Left out: replication is asynchronous, and a failover may lose the last commits.
	// +optional
	Synchronous *Synchronous `json:"synchronous,omitempty"`

	// MaxLagOnFailover is how far behind its primary a replica may be to take over, in bytes of WAL.
	// +optional
	// +kubebuilder:default="16Mi"
	// +kubebuilder:validation:XValidation:rule="quantity(self).compareTo(quantity('1Mi')) >= 0 && quantity(self).compareTo(quantity('1Ti')) <= 0",message="spec.maxLagOnFailover must be from 1Mi to 1Ti: a segment of WAL is 16Mi"
	MaxLagOnFailover *resource.Quantity `json:"maxLagOnFailover,omitempty"`

	// Switchover asks for another primary, once for each token. The answer is in status.switchover.
	// +optional
	Switchover *Switchover `json:"switchover,omitempty"`

	// Hibernate stops all instances and keeps their volumes, until it is false again.
	// +optional
	Hibernate bool `json:"hibernate,omitempty"`

	// MaintenanceWindow is when PostgreSQL may be restarted for what was changed. Left out: at once. What is down is
	// brought up at any time.
	// +optional
	MaintenanceWindow *MaintenanceWindow `json:"maintenanceWindow,omitempty"`

	// Scheduling says where the pods may run. What is changed here is for pods that start from then on.
	// +optional
	Scheduling Scheduling `json:"scheduling,omitempty"`

	// Storage of each instance.
	Storage StorageSpec `json:"storage"`

	// Resources of the PostgreSQL container. More memory, and more or less cpu, reach running pods without a restart, and so do
	// the parameters that follow from them; shared_buffers follows with the next restart, and status.instances[].pendingRestart
	// has it until then. Less memory, and what Kubernetes can't change in a running pod, replaces the pods one after the other.
	// +optional
	Resources Resources `json:"resources,omitempty"`

	// PostgreSQL's configuration.
	// +optional
	PostgreSQL PostgreSQLSpec `json:"postgresql,omitempty"`

	// Roles beside the application's. One that is no longer written here stays as it is.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Roles []Role `json:"roles,omitempty"`

	// Databases beside the application's, or its extensions.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Databases []Database `json:"databases,omitempty"`

	// Bootstrap says where the data comes from. Left out: a new, empty database.
	// +optional
	Bootstrap *Bootstrap `json:"bootstrap,omitempty"`

	// SuperuserAccess makes a Secret <name>-superuser with a password for the role postgres, and lets it connect with
	// that password over TLS.
	// +optional
	SuperuserAccess bool `json:"superuserAccess,omitempty"`

	// Archive says where WAL and backups go. Left out: nowhere, and there are no backups.
	// +optional
	Archive *ArchiveSpec `json:"archive,omitempty"`

	// DeletionPolicy says what happens when the PostgresCluster is deleted. It may be changed while the deletion waits.
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// Resources of a container.
type Resources struct {
	// Requests of cpu and memory.
	// +optional
	Requests corev1.ResourceList `json:"requests,omitempty"`
	// Limits of cpu and memory.
	// +optional
	Limits corev1.ResourceList `json:"limits,omitempty"`
}

// PostgreSQLSpec is the configuration of PostgreSQL.
type PostgreSQLSpec struct {
	// Parameters of postgresql.conf. One that needs a restart causes one. Some are Howdah's and refused by name.
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[a-z_][a-z0-9_]*([.][a-z_][a-z0-9_]*)?$'))",message="spec.postgresql.parameters has a name that PostgreSQL can't have: write it in lower case, with letters, digits and '_', such as work_mem or pg_stat_statements.max"
	// +kubebuilder:validation:XValidation:rule="!['archive_cleanup_command','archive_command','archive_library','archive_mode','cluster_name','config_file','data_directory','event_source','external_pid_file','fsync','full_page_writes','hba_file','hot_standby','ident_file','listen_addresses','log_destination','log_directory','log_file_mode','log_filename','log_line_prefix','logging_collector','port','primary_conninfo','primary_slot_name','promote_trigger_file','recovery_end_command','recovery_min_apply_delay','recovery_target','recovery_target_action','recovery_target_inclusive','recovery_target_lsn','recovery_target_name','recovery_target_time','recovery_target_timeline','recovery_target_xid','restore_command','ssl','ssl_ca_file','ssl_cert_file','ssl_crl_dir','ssl_crl_file','ssl_key_file','ssl_passphrase_command','ssl_passphrase_command_supports_reload','stats_temp_directory','synchronous_standby_names','syslog_facility','syslog_ident','unix_socket_directories','unix_socket_group','unix_socket_permissions','wal_log_hints'].exists(n, n in self)",messageExpression="'spec.postgresql.parameters can\\'t set ' + ['archive_cleanup_command','archive_command','archive_library','archive_mode','cluster_name','config_file','data_directory','event_source','external_pid_file','fsync','full_page_writes','hba_file','hot_standby','ident_file','listen_addresses','log_destination','log_directory','log_file_mode','log_filename','log_line_prefix','logging_collector','port','primary_conninfo','primary_slot_name','promote_trigger_file','recovery_end_command','recovery_min_apply_delay','recovery_target','recovery_target_action','recovery_target_inclusive','recovery_target_lsn','recovery_target_name','recovery_target_time','recovery_target_timeline','recovery_target_xid','restore_command','ssl','ssl_ca_file','ssl_cert_file','ssl_crl_dir','ssl_crl_file','ssl_key_file','ssl_passphrase_command','ssl_passphrase_command_supports_reload','stats_temp_directory','synchronous_standby_names','syslog_facility','syslog_ident','unix_socket_directories','unix_socket_group','unix_socket_permissions','wal_log_hints'].filter(n, n in self)[0] + ': Howdah sets it itself; leave it out'"
	Parameters map[string]ParameterValue `json:"parameters,omitempty"`
	// HBA are lines of pg_hba.conf, each such as: hostssl orders reporting 10.0.0.0/8 scram-sha-256. The first that fits a
	// session decides. Howdah's own come before them, and after them one that lets all in with their passwords.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	HBA []HBARule `json:"hba,omitempty"`
}

// ParameterValue is the value of a parameter of postgresql.conf, without quotes.
// +kubebuilder:validation:MaxLength=1024
// +kubebuilder:validation:Pattern=`^[^\n\r\x00]*$`
type ParameterValue string

// HBARule is one line of pg_hba.conf.
// +kubebuilder:validation:MaxLength=512
// +kubebuilder:validation:XValidation:rule="self.matches('^hostssl([ \\t]+[^ \\t\\n\\r#]+){4,}[ \\t]*$')",message="spec.postgresql.hba takes lines such as: hostssl DATABASE USER ADDRESS METHOD; connections are over TLS only, and comments are left out"
type HBARule string

// Bootstrap says where the first data of a cluster comes from.
// +kubebuilder:validation:XValidation:rule="has(self.initdb) != has(self.restore)",message="spec.bootstrap takes exactly one of initdb and restore"
type Bootstrap struct {
	// Initdb makes a new, empty database.
	// +optional
	Initdb *BootstrapInitdb `json:"initdb,omitempty"`
	// Restore leaves the volume to a Restore.
	// +optional
	Restore *BootstrapRestore `json:"restore,omitempty"`
}

// BootstrapRestore says that a Restore brings the data. The Restore makes the cluster with it.
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
	Owner string `json:"owner,omitempty"`
}

// BootstrapInitdb describes the first database.
type BootstrapInitdb struct {
	// Database is the name of the application's database.
	// +optional
	// +kubebuilder:default=app
	// +kubebuilder:validation:Pattern=`^[a-z_][a-z0-9_]{0,62}$`
	// +kubebuilder:validation:XValidation:rule="!(self in ['postgres','template0','template1'])",message="spec.bootstrap.initdb.database is a name that PostgreSQL uses itself; choose another, such as app"
	Database string `json:"database,omitempty"`
	// Owner is the name of the application's role, which owns the database.
	// +optional
	// +kubebuilder:default=app
	// +kubebuilder:validation:Pattern=`^[a-z_][a-z0-9_]{0,62}$`
	// +kubebuilder:validation:XValidation:rule="self != 'postgres' && !self.startsWith('pg_') && !self.startsWith('howdah_')",message="spec.bootstrap.initdb.owner is a name that PostgreSQL or Howdah uses itself; choose another, such as app"
	Owner string `json:"owner,omitempty"`
}

// ArchiveSpec says where WAL and backups go.
type ArchiveSpec struct {
	// Repository is the BackupRepository, in the same namespace.
	Repository LocalReference `json:"repository"`
	// WALShipIntervalSeconds has the part of the open WAL segment that is written put into the repository so often, so that no more
	// than that is lost with all volumes. Left out: WAL is archived when its segment is complete, or after archive_timeout.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 3600",message="spec.archive.walShipIntervalSeconds is from 1 to 3600; leave it out to archive whole segments only"
	WALShipIntervalSeconds *int32 `json:"walShipIntervalSeconds,omitempty"`
}

// DeletionPolicy says what happens when a PostgresCluster is deleted.
type DeletionPolicy struct {
	// FinalBackup takes a last backup before anything goes; the deletion waits for it. Left out: true where there is
	// spec.archive.
	// +optional
	FinalBackup *bool `json:"finalBackup,omitempty"`
	// Volumes are deleted with the cluster, or stay. Left out: Delete where there is a final backup, else Retain.
	// +optional
	Volumes VolumePolicy `json:"volumes,omitempty"`
}

// VolumePolicy says what becomes of volumes.
// +kubebuilder:validation:Enum=Retain;Delete
type VolumePolicy string

const (
	// VolumesRetain leaves the volumes behind.
	VolumesRetain VolumePolicy = "Retain"
	// VolumesDelete deletes the volumes.
	VolumesDelete VolumePolicy = "Delete"
)
