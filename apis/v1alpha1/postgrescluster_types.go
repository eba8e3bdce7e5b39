package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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

	// Resources of the PostgreSQL container. Changing them restarts PostgreSQL.
	// +optional
	Resources Resources `json:"resources,omitempty"`

	// PostgreSQL's configuration.
	// +optional
	PostgreSQL PostgreSQLSpec `json:"postgresql,omitempty"`

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

// Synchronous replication.
type Synchronous struct {
	// Number of replicas that must have a commit before it is acknowledged; any of them. It is less than spec.instances.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	Number int32 `json:"number,omitempty"`
	// Durability says what happens while fewer replicas are there: Required lets commits wait for them, Preferred does
	// with those that there are.
	// +optional
	// +kubebuilder:default=Required
	Durability Durability `json:"durability,omitempty"`
}

// Durability says what synchronous replication does while replicas are missing.
// +kubebuilder:validation:Enum=Required;Preferred
type Durability string

const (
	// DurabilityRequired lets commits wait until there are enough replicas.
	DurabilityRequired Durability = "Required"
	// DurabilityPreferred does with the replicas that there are.
	DurabilityPreferred Durability = "Preferred"
)

// Switchover is a wish for another primary.
type Switchover struct {
	// To is the instance that becomes primary, such as shop-1. Left out: the replica that is furthest ahead.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	To string `json:"to,omitempty"`
	// Token makes this wish another one than the one before: any text, such as the time of day. A wish is carried out
	// or refused once.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Token string `json:"token"`
}

// MaintenanceWindow is a time that comes again and again.
type MaintenanceWindow struct {
	// Schedule of its beginning, in cron's form with five fields, such as "0 3 * * 0", or @daily, @weekly, @monthly.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.startsWith('@') ? self in ['@daily','@weekly','@monthly'] : self.trim().split(' ').filter(f, f != '').size() == 5",message="spec.maintenanceWindow.schedule must have five fields (minute hour day-of-month month day-of-week), such as '0 3 * * 0' for Sundays at 3, or be one of @daily, @weekly, @monthly"
	Schedule string `json:"schedule"`
	// TimeZone of the schedule, such as Europe/Berlin.
	// +optional
	// +kubebuilder:default=UTC
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
	// Duration of the window, such as 2h.
	// +kubebuilder:validation:XValidation:rule="self >= duration('10m') && self <= duration('168h')",message="spec.maintenanceWindow.duration must be from 10m to 168h: a restart of all instances takes minutes; for example: 2h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:MaxLength=32
	Duration metav1.Duration `json:"duration"`
}

// Scheduling says where pods may run.
type Scheduling struct {
	// NodeAffinity of the pods.
	// +optional
	NodeAffinity *corev1.NodeAffinity `json:"nodeAffinity,omitempty"`
	// Tolerations of the pods.
	// +optional
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// PriorityClassName of the pods.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// Spread of the instances over zones and nodes: Preferred puts two on one node where there are too few, Required
	// lets an instance wait for a node of its own. Zones are only ever preferred.
	// +optional
	// +kubebuilder:default=Preferred
	Spread SpreadPolicy `json:"spread,omitempty"`
}

// SpreadPolicy says how strictly instances are kept apart.
// +kubebuilder:validation:Enum=Preferred;Required
type SpreadPolicy string

const (
	// SpreadPreferred keeps instances apart where that is possible.
	SpreadPreferred SpreadPolicy = "Preferred"
	// SpreadRequired gives each instance a node of its own.
	SpreadRequired SpreadPolicy = "Required"
)

// StorageSpec describes a volume.
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",message="spec.storage.storageClassName can't be changed: restore a backup into a new PostgresCluster with the other class"
type StorageSpec struct {
	// Size of the volume, such as 10Gi.
	// +kubebuilder:validation:XValidation:rule="quantity(self).compareTo(quantity('256Mi')) >= 0",message="spec.storage.size must be at least 256Mi: an empty PostgreSQL with its WAL needs that much; for example: 10Gi"
	// +kubebuilder:validation:XValidation:rule="quantity(self).compareTo(quantity(oldSelf)) == 0",message="spec.storage.size can't be changed yet: restore a backup into a new PostgresCluster with the other size"
	Size resource.Quantity `json:"size"`
	// StorageClassName of the volume. Left out: the default class.
	// +optional
	// +kubebuilder:validation:MinLength=1
	StorageClassName *string `json:"storageClassName,omitempty"`
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
}

// ParameterValue is the value of a parameter of postgresql.conf, without quotes.
// +kubebuilder:validation:MaxLength=1024
// +kubebuilder:validation:Pattern=`^[^\n\r\x00]*$`
type ParameterValue string

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

// PostgresClusterStatus says what is true. Written by the db-controller alone.
type PostgresClusterStatus struct {
	// ObservedGeneration is the metadata.generation that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions: Ready, UpToDate, Replicated (with more than one instance), Archiving.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Version of PostgreSQL that runs, such as 17.5; only the major number until it has run for the first time.
	// +optional
	Version string `json:"version,omitempty"`
	// MajorVersion of the data.
	// +optional
	MajorVersion int32 `json:"majorVersion,omitempty"`
	// Image of PostgreSQL that runs; a changed default of the suite doesn't change it.
	// +optional
	Image string `json:"image,omitempty"`
	// AgentImage that was copied into the pods; a newer suite changes it only when the pods restart for another reason.
	// +optional
	AgentImage string `json:"agentImage,omitempty"`
	// SystemIdentifier of the database, as pg_controldata prints it.
	// +optional
	SystemIdentifier string `json:"systemIdentifier,omitempty"`
	// DataGeneration that the cluster runs on.
	// +optional
	DataGeneration string `json:"dataGeneration,omitempty"`
	// PreviousDataGeneration is what it ran on before, still on the volumes.
	// +optional
	PreviousDataGeneration string `json:"previousDataGeneration,omitempty"`
	// Timeline of the primary.
	// +optional
	Timeline int64 `json:"timeline,omitempty"`
	// Primary is the name of the primary instance; while there is none, of the last one.
	// +optional
	Primary string `json:"primary,omitempty"`
	// Synchronous is where acknowledged commits are, beside the primary.
	// +optional
	Synchronous *SynchronousStatus `json:"synchronous,omitempty"`
	// Switchover answers the last spec.switchover.
	// +optional
	Switchover *SwitchoverStatus `json:"switchover,omitempty"`
	// StandbyLimits are the parameters that a replica must not have less of than its primary, as the primary runs with
	// them. Whether a change raises or lowers them decides who restarts first.
	// +optional
	StandbyLimits map[string]ParameterValue `json:"standbyLimits,omitempty"`
	// ReadyInstances is the number of instances that take connections.
	// +optional
	ReadyInstances int32 `json:"readyInstances"`
	// Selector of the pods, for the scale subresource.
	// +optional
	Selector string `json:"selector,omitempty"`
	// Instances of the cluster.
	// +optional
	// +listType=map
	// +listMapKey=name
	Instances []InstanceStatus `json:"instances,omitempty"`
	// Connection says how to connect.
	// +optional
	Connection *ConnectionStatus `json:"connection,omitempty"`
	// Archive health.
	// +optional
	Archive *ArchiveStatus `json:"archive,omitempty"`
	// Maintenance still running after a restore or a major upgrade: Extensions, Statistics.
	// +optional
	// +listType=atomic
	Maintenance []string `json:"maintenance,omitempty"`
	// MaintenanceMessages tell of what could not be done there.
	// +optional
	// +listType=atomic
	MaintenanceMessages []string `json:"maintenanceMessages,omitempty"`
	// Holds answers every Restore and Upgrade that asks for this cluster's volumes.
	// +optional
	// +listType=map
	// +listMapKey=askerUID
	Holds []HoldAnswer `json:"holds,omitempty"`
	// BackupWanted asks the backup-controller for the final backup.
	// +optional
	BackupWanted *BackupRequest `json:"backupWanted,omitempty"`
}

// InstanceStatus is what is known of one instance.
type InstanceStatus struct {
	// Name of the instance and of its pod.
	Name string `json:"name"`
	// UID of its pod.
	// +optional
	PodUID types.UID `json:"podUID,omitempty"`
	// Node that it runs on.
	// +optional
	Node string `json:"node,omitempty"`
	// Volume is the name of its PersistentVolumeClaim.
	// +optional
	Volume string `json:"volume,omitempty"`
	// Role: primary or replica.
	// +optional
	Role InstanceRole `json:"role,omitempty"`
	// Timeline that it is on.
	// +optional
	Timeline int64 `json:"timeline,omitempty"`
	// Ready: it takes connections.
	// +optional
	Ready bool `json:"ready,omitempty"`
	// Streaming: it is a replica, and gets WAL from the primary as it is written.
	// +optional
	Streaming bool `json:"streaming,omitempty"`
	// Eligible: the primary counts it among those that may take over.
	// +optional
	Eligible bool `json:"eligible,omitempty"`
	// LagBytes is how far it is behind the primary, in whole MiB; metrics have it by the byte.
	// +optional
	LagBytes int64 `json:"lagBytes,omitempty"`
	// LagSeconds is how long ago it was level with the primary, rounded; metrics have it by the second.
	// +optional
	LagSeconds int64 `json:"lagSeconds,omitempty"`
	// Rejoin says how its data is being made fit to follow the primary, while it is.
	// +optional
	Rejoin *RejoinStatus `json:"rejoin,omitempty"`
	// ConfigHash of the configuration that it has applied.
	// +optional
	ConfigHash string `json:"configHash,omitempty"`
	// PendingRestart names the parameters whose new value waits for a restart.
	// +optional
	// +listType=atomic
	PendingRestart []string `json:"pendingRestart,omitempty"`
	// Message of the agent for a person, when something is wrong.
	// +optional
	Message string `json:"message,omitempty"`
}

// RejoinStatus is the work that makes an instance fit to follow the primary.
type RejoinStatus struct {
	// Method: Rewind takes back what the primary doesn't have, Clone copies everything.
	Method string `json:"method"`
	// Source is the instance that it copies from.
	// +optional
	Source string `json:"source,omitempty"`
	// BytesDone and BytesTotal, updated with each percent.
	// +optional
	BytesDone int64 `json:"bytesDone,omitempty"`
	// BytesTotal to copy.
	// +optional
	BytesTotal int64 `json:"bytesTotal,omitempty"`
	// Percent of it that is done.
	// +optional
	Percent int32 `json:"percent,omitempty"`
	// Attempts so far, this one among them.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`
	// Message of the attempt before, when it failed.
	// +optional
	Message string `json:"message,omitempty"`
}

// SynchronousStatus is where acknowledged commits are, as the primary's agent says.
type SynchronousStatus struct {
	// Members are the replicas that count.
	// +optional
	// +listType=atomic
	Members []string `json:"members,omitempty"`
	// Quorum is on how many of the members each acknowledged commit is.
	Quorum int32 `json:"quorum"`
}

// SwitchoverStatus is the answer to spec.switchover.
type SwitchoverStatus struct {
	// Token of the wish.
	Token string `json:"token"`
	// From is the primary of before.
	// +optional
	From string `json:"from,omitempty"`
	// To is the instance that became primary, or shall.
	// +optional
	To string `json:"to,omitempty"`
	// State of the wish.
	State SwitchoverState `json:"state"`
	// Message for a person.
	// +optional
	Message string `json:"message,omitempty"`
	// CompletedAt is when it was done or refused.
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`
}

// SwitchoverState is how a switchover stands.
// +kubebuilder:validation:Enum=Running;Done;Refused
type SwitchoverState string

const (
	// SwitchoverRunning: it is under way.
	SwitchoverRunning SwitchoverState = "Running"
	// SwitchoverDone: there is another primary.
	SwitchoverDone SwitchoverState = "Done"
	// SwitchoverRefused: it can't be; the message says why.
	SwitchoverRefused SwitchoverState = "Refused"
)

// InstanceRole is what an instance is in the cluster.
// +kubebuilder:validation:Enum=primary;replica
type InstanceRole string

const (
	// RolePrimary accepts writes.
	RolePrimary InstanceRole = "primary"
	// RoleReplica follows the primary.
	RoleReplica InstanceRole = "replica"
)

// ConnectionStatus says how to connect, and with which Secrets.
type ConnectionStatus struct {
	// Host of the primary, inside the Kubernetes cluster.
	Host string `json:"host"`
	// Port of PostgreSQL.
	Port int32 `json:"port"`
	// ConfigMap with host, port, dbname, sslmode and ca.crt.
	ConfigMap string `json:"configMap"`
	// AppSecret has the application's username, password and connection strings.
	AppSecret string `json:"appSecret"`
	// SuperuserSecret, where asked for.
	// +optional
	SuperuserSecret string `json:"superuserSecret,omitempty"`
	// BackupSecret has the client certificate of the role howdah_backup.
	BackupSecret string `json:"backupSecret"`
	// UpgradeSecret has the client certificate of the role howdah_upgrade.
	UpgradeSecret string `json:"upgradeSecret"`
}

// ArchiveStatus is the health of the archive as the primary's agent sees it.
type ArchiveStatus struct {
	// Repository that it goes to.
	Repository string `json:"repository"`
	// Lineage in the repository: <system identifier>-<data generation>.
	// +optional
	Lineage string `json:"lineage,omitempty"`
	// LastArchivedWAL is the name of the segment that was archived last, updated about once a minute.
	// +optional
	LastArchivedWAL string `json:"lastArchivedWAL,omitempty"`
	// LastArchivedTime is when that was.
	// +optional
	LastArchivedTime *metav1.Time `json:"lastArchivedTime,omitempty"`
	// FailingSince is set while pushing fails.
	// +optional
	FailingSince *metav1.Time `json:"failingSince,omitempty"`
	// Waiting segments, while pushing fails.
	// +optional
	Waiting int32 `json:"waiting,omitempty"`
}
