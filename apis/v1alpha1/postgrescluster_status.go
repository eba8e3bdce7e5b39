package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PostgresClusterStatus says what is true. Written by the db-controller alone.
type PostgresClusterStatus struct {
	// ObservedGeneration is the metadata.generation that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions: Ready, UpToDate, Replicated (with more than one instance), Archiving, StorageHealthy,
	// RolesAndDatabasesReady (with roles or databases).
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
	// AgentImage that the pods got their agent from; a newer suite changes it only when the pods restart for another reason.
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
	// ReleasedDataGenerations are those that nobody wants any more: instances remove them from their volumes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	ReleasedDataGenerations []string `json:"releasedDataGenerations,omitempty"`
	// DataInstance is the instance that begins the data generation, because its volume has every commit. It changes with the
	// data generation, and when the Lease has gone, not with a failover.
	// +optional
	DataInstance string `json:"dataInstance,omitempty"`
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
	// Tuning are the parameters of the primary that were chosen for the memory and CPU of its pod, the size of its volume
	// and the number of instances; spec.postgresql.parameters replaces each of them.
	// +optional
	Tuning map[string]ParameterValue `json:"tuning,omitempty"`
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
	// Storage is how large the volumes are to be, once they have grown by themselves.
	// +optional
	Storage *StorageStatus `json:"storage,omitempty"`
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
	// VolumeLocks has the response to every Restore and Upgrade that requests the volumes of this cluster.
	// +optional
	// +listType=map
	// +listMapKey=requesterUID
	VolumeLocks []VolumeLock `json:"volumeLocks,omitempty"`
	// BackupRequest requests from the backup-controller the final backup.
	// +optional
	BackupRequest *BackupRequest `json:"backupRequest,omitempty"`
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
	// Address is the IP of its pod.
	// +optional
	Address string `json:"address,omitempty"`
	// Volume is the name of its PersistentVolumeClaim.
	// +optional
	Volume string `json:"volume,omitempty"`
	// Storage says how large and how full its volume is.
	// +optional
	Storage *InstanceStorage `json:"storage,omitempty"`
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
	// Waiting segments, while pushing fails or is behind.
	// +optional
	Waiting int32 `json:"waiting,omitempty"`
	// WaitingSince is since when the first of them does.
	// +optional
	WaitingSince *metav1.Time `json:"waitingSince,omitempty"`
	// CompleteUntil: all that was committed until then is archived, as far as is known. What was committed since would be
	// lost with the volumes. Updated about once a minute; it stands still while nothing is written.
	// +optional
	CompleteUntil *metav1.Time `json:"completeUntil,omitempty"`
	// DiskFullAt estimates when the volume of the primary will be full, while segments wait and it fills.
	// +optional
	DiskFullAt *metav1.Time `json:"diskFullAt,omitempty"`
	// LastFailure is why a try failed last, which may have passed since.
	// +optional
	LastFailure string `json:"lastFailure,omitempty"`
	// LastFailureTime is when that was.
	// +optional
	LastFailureTime *metav1.Time `json:"lastFailureTime,omitempty"`
}
