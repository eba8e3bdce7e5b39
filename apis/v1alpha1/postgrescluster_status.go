package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PostgresClusterStatus is the observed state of a cluster. Written by the db-controller alone.
type PostgresClusterStatus struct {
	// ObservedGeneration is the metadata.generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions: Ready, UpToDate, Replicated (with more than one instance), AutomaticFailover (with spec.failover too), AutomaticRepair
	// (with a pause in spec.repair), LogicalSlotsSynchronized (with more than one instance and wal_level=logical), Updated, Archiving, StorageHealthy, RolesAndDatabasesReady (with roles or databases), CertificatesReady (with tls.serverSecret, tls.clientCABundle or ldapCA), MonitoringReady (with spec.monitoring), Maintained (after a restore or an upgrade), ReplicationSlotsReady
	// (with replicationSlots), FollowsSource (of a standby), FirstBackupTaken (of a standby that was promoted).
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Identity is the UID under which the volumes and the repository know the cluster, if it took over a database that another
	// PostgresCluster has released: the UID of the one that created it.
	// +optional
	Identity types.UID `json:"identity,omitempty"`
	// Version of PostgreSQL that runs, such as 17.5. It has only the major version until PostgreSQL has run for the first
	// time.
	// +optional
	Version string `json:"version,omitempty"`
	// MajorVersion of the data.
	// +optional
	MajorVersion int32 `json:"majorVersion,omitempty"`
	// Image of PostgreSQL that runs. A new default of the suite does not change it.
	// +optional
	Image string `json:"image,omitempty"`
	// ImageChange is a change of image that has not reached every instance yet.
	// +optional
	ImageChange *ImageChange `json:"imageChange,omitempty"`
	// Rollout of a change that restarts instances, such as a new image or a parameter that needs a restart, while it is
	// in progress.
	// +optional
	Rollout *RolloutStatus `json:"rollout,omitempty"`
	// PendingUpdate is the suite's image for the version that runs, while the cluster runs in another one and spec.image names none.
	// +optional
	PendingUpdate *PendingUpdate `json:"pendingUpdate,omitempty"`
	// RefusedImage is an image of spec.image that was reverted, because an instance did not come up in it; or one of an
	// automatic update, if its trial failed too.
	// +optional
	RefusedImage *RefusedImage `json:"refusedImage,omitempty"`
	// AgentImage is the image from which the pods got their agent. A newer suite changes it only when the pods restart
	// for another reason.
	// +optional
	AgentImage string `json:"agentImage,omitempty"`
	// SystemIdentifier of the database, as pg_controldata prints it.
	// +optional
	SystemIdentifier string `json:"systemIdentifier,omitempty"`
	// DataGeneration that the cluster runs on.
	// +optional
	DataGeneration string `json:"dataGeneration,omitempty"`
	// Adoptions counts how many times another data generation was adopted. The volumes record it as well, so that
	// instances refuse a status that is older than their data, such as one from a backup of etcd.
	// +optional
	Adoptions int64 `json:"adoptions,omitempty"`
	// PreviousDataGeneration is what the cluster ran on previously, and what is still on the volumes.
	// +optional
	PreviousDataGeneration string `json:"previousDataGeneration,omitempty"`
	// Poolers that the certificate in Secret <name>-pooler is for.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Poolers []string `json:"poolers,omitempty"`
	// PodMonitor is the name of the PodMonitor of the cluster, beside which there is a Secret <name>-metrics.
	// +optional
	PodMonitor string `json:"podMonitor,omitempty"`
	// Written says how much was written to the data generation since it was adopted, while the previous one is kept. It is
	// updated about once a minute.
	// +optional
	Written *WrittenData `json:"written,omitempty"`
	// ReleasedDataGenerations are no longer needed: instances remove them from their volumes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	ReleasedDataGenerations []string `json:"releasedDataGenerations,omitempty"`
	// DataInstance is the instance with which the data generation starts, because its volume has every commit. It
	// changes with the data generation, and when the Lease was deleted, but not with a failover.
	// +optional
	DataInstance string `json:"dataInstance,omitempty"`
	// Timeline of the primary.
	// +optional
	Timeline int64 `json:"timeline,omitempty"`
	// Primary is the name of the primary instance; while there is none, of the last one.
	// +optional
	Primary string `json:"primary,omitempty"`
	// Synchronous says where acknowledged commits are, beside the primary.
	// +optional
	Synchronous *SynchronousStatus `json:"synchronous,omitempty"`
	// Switchover is the outcome of the last spec.switchover.
	// +optional
	Switchover *SwitchoverStatus `json:"switchover,omitempty"`
	// Reinit is the outcome of the last spec.reinit.
	// +optional
	Reinit *ReinitStatus `json:"reinit,omitempty"`
	// AutomaticReinit is the last clone of a replica with damaged data that nobody requested.
	// +optional
	AutomaticReinit *AutomaticReinitStatus `json:"automaticReinit,omitempty"`
	// FailoverDrill is the response to the FailoverDrill whose turn it is; one at a time.
	// +optional
	FailoverDrill *ClusterFailoverDrill `json:"failoverDrill,omitempty"`
	// DrilledFaults are the times of the faults that FailoverDrills caused within the last seven days, at most the last
	// 50.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	DrilledFaults []metav1.Time `json:"drilledFaults,omitempty"`
	// Findings are settings that do not fit what the primary does, and other things that a person should look at, one of each reason.
	// +optional
	// +listType=map
	// +listMapKey=reason
	// +kubebuilder:validation:MaxItems=20
	Findings []ClusterFinding `json:"findings,omitempty"`
	// Autoscale is what spec.autoscale recommends.
	// +optional
	Autoscale *AutoscaleStatus `json:"autoscale,omitempty"`
	// AutomaticTuning is what spec.tuning: Automatic has changed. It is recorded before an instance gets it.
	// +optional
	AutomaticTuning *AutomaticTuning `json:"automaticTuning,omitempty"`
	// StandbyLimits are the parameters that must not be lower on a replica than on its primary, with the values that
	// the primary runs with. Whether a change raises or lowers them decides which instance restarts first.
	// +optional
	StandbyLimits map[string]ParameterValue `json:"standbyLimits,omitempty"`
	// Tuning has the parameters of the primary that were computed from the memory and CPU of its pod, the size of its
	// volume, and the number of instances. spec.postgresql.parameters overrides each of them.
	// +optional
	Tuning map[string]ParameterValue `json:"tuning,omitempty"`
	// ReadyInstances is the number of instances that accept connections.
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
	// Storage says how large the volumes should be, once they have grown automatically.
	// +optional
	Storage *StorageStatus `json:"storage,omitempty"`
	// WALStorage says how large the WAL volumes should be, once they have grown automatically.
	// +optional
	WALStorage *StorageStatus `json:"walStorage,omitempty"`
	// StorageMove is the move of the instances to smaller volumes, or to those of another StorageClass, as
	// spec.storage.move requests it.
	// +optional
	StorageMove *StorageMoveStatus `json:"storageMove,omitempty"`
	// Connection says how to connect.
	// +optional
	Connection *ConnectionStatus `json:"connection,omitempty"`
	// Binding makes the PostgresCluster a Provisioned Service of the Service Binding specification: tools that bind a
	// workload to it mount the Secret that it names.
	// +optional
	Binding *BindingStatus `json:"binding,omitempty"`
	// ReplicationSlots are the declared slots, as the primary's agent last reported them.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	ReplicationSlots []ReplicationSlotStatus `json:"replicationSlots,omitempty"`
	// Archive is the health of the archive.
	// +optional
	Archive *ArchiveStatus `json:"archive,omitempty"`
	// Maintenance that is still running after a restore or a major upgrade: Extensions, Statistics.
	// +optional
	// +listType=atomic
	Maintenance []string `json:"maintenance,omitempty"`
	// MaintenanceMessages say what that maintenance could not do.
	// +optional
	// +listType=atomic
	MaintenanceMessages []string `json:"maintenanceMessages,omitempty"`
	// Import is the state of spec.bootstrap.import.
	// +optional
	Import *ImportStatus `json:"import,omitempty"`
	// Clone is the state of spec.bootstrap.clone.
	// +optional
	Clone *CloneStatus `json:"clone,omitempty"`
	// Standby says how a standby follows its source, and how far its promotion is.
	// +optional
	Standby *StandbyStatus `json:"standby,omitempty"`
	// VolumeLocks has the response to every Restore and Upgrade that requests the volumes of this cluster.
	// +optional
	// +listType=map
	// +listMapKey=requesterUID
	VolumeLocks []VolumeLock `json:"volumeLocks,omitempty"`
	// BackupRequest requests the final backup from the backup-controller, or the first one after the promotion of a standby.
	// +optional
	BackupRequest *BackupRequest `json:"backupRequest,omitempty"`
}

// WrittenData is how much was written to a data generation, and would be lost with it.
type WrittenData struct {
	// DataGeneration that it was written to.
	DataGeneration string `json:"dataGeneration"`
	// FromLSN is where the primary was when it was first seen on the data generation.
	FromLSN string `json:"fromLSN"`
	// LSN is where it was at Time.
	LSN string `json:"lsn"`
	// WALBytes are the bytes of WAL between the two, those of checkpoints and autovacuum among them.
	WALBytes int64 `json:"walBytes"`
	// Time of LSN.
	Time metav1.Time `json:"time"`
}

// RolloutStatus is the rollout of a change to the instances. The suite limits how many clusters have one at a time.
type RolloutStatus struct {
	// StartedAt is when it began.
	StartedAt metav1.Time `json:"startedAt"`
}

// ImageChange is a change from one image to another.
type ImageChange struct {
	// From is the image that ran previously.
	From string `json:"from"`
	// To is the new image.
	To string `json:"to"`
	// MajorVersion of both.
	MajorVersion int32 `json:"majorVersion"`
	// Automatic says that spec.updates caused it, and not spec.image.
	// +optional
	Automatic bool `json:"automatic,omitempty"`
}

// RefusedImage is an image that is not used, because an instance did not come up in it or its trial failed.
type RefusedImage struct {
	// Image that was reverted.
	Image string `json:"image"`
	// Message says why.
	Message string `json:"message"`
	// Automatic says that it was to be rolled out because of spec.updates.
	// +optional
	Automatic bool `json:"automatic,omitempty"`
}

// InstanceStatus is the state of one instance.
type InstanceStatus struct {
	// Name of the instance and of its pod.
	Name string `json:"name"`
	// PodUID is the UID of its pod.
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
	// VolumeUID is the UID of that claim; empty while there is none.
	// +optional
	VolumeUID types.UID `json:"volumeUID,omitempty"`
	// Storage says how large and how full its volume is.
	// +optional
	Storage *InstanceStorage `json:"storage,omitempty"`
	// Copies of the same data on its volume, where there are several, by their folders below generations: clones have replaced all but the one in use.
	// A single one is listed while a clone replaces it. See spec.repair.keepReplacedCopies.
	// +optional
	// +listType=atomic
	Copies []string `json:"copies,omitempty"`
	// Role is primary or replica.
	// +optional
	Role InstanceRole `json:"role,omitempty"`
	// Timeline that it is on.
	// +optional
	Timeline int64 `json:"timeline,omitempty"`
	// Ready says that it accepts connections.
	// +optional
	Ready bool `json:"ready,omitempty"`
	// Streaming says that it is a replica, and receives WAL from the primary as it is written.
	// +optional
	Streaming bool `json:"streaming,omitempty"`
	// Fenced says that its PostgreSQL is stopped because spec.failover.fenced names it.
	// +optional
	Fenced bool `json:"fenced,omitempty"`
	// Eligible says that it is a member: the primary allows it to take over.
	// +optional
	Eligible bool `json:"eligible,omitempty"`
	// LagBytes is how far it lags behind the primary, in whole MiB; metrics have the exact bytes.
	// +optional
	LagBytes int64 `json:"lagBytes,omitempty"`
	// LagSeconds is how long ago it had all of the primary's WAL, rounded; metrics have the exact seconds.
	// +optional
	LagSeconds int64 `json:"lagSeconds,omitempty"`
	// DelaySeconds is how late it replays WAL, because spec.delayedReplicas names it. It has no lag then.
	// +optional
	DelaySeconds int64 `json:"delaySeconds,omitempty"`
	// ReplayPaused says that somebody has paused the replay of a delayed replica.
	// +optional
	ReplayPaused bool `json:"replayPaused,omitempty"`
	// Rejoin describes how its data is being rewound or cloned so that it can follow the primary, while that is in
	// progress.
	// +optional
	Rejoin *RejoinStatus `json:"rejoin,omitempty"`
	// ConfigHash of the configuration that it has applied.
	// +optional
	ConfigHash string `json:"configHash,omitempty"`
	// PendingRestart lists the parameters whose new value waits for a restart.
	// +optional
	// +listType=atomic
	PendingRestart []string `json:"pendingRestart,omitempty"`
	// Message from the agent for a person, when something is wrong.
	// +optional
	Message string `json:"message,omitempty"`
}

// RejoinStatus describes the work that makes an instance fit to follow the primary.
type RejoinStatus struct {
	// Method is Rewind, which reverts what the primary does not have, or Clone, which copies everything.
	Method string `json:"method"`
	// Source is the instance that it copies from.
	// +optional
	Source string `json:"source,omitempty"`
	// BytesDone of BytesTotal are copied. Both are updated with each percent.
	// +optional
	BytesDone int64 `json:"bytesDone,omitempty"`
	// BytesTotal is the number of bytes to copy.
	// +optional
	BytesTotal int64 `json:"bytesTotal,omitempty"`
	// Percent that is done.
	// +optional
	Percent int32 `json:"percent,omitempty"`
	// Attempts so far, including this one.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`
	// Message of the previous attempt, if it failed.
	// +optional
	Message string `json:"message,omitempty"`
}

// SynchronousStatus says where acknowledged commits are, as the primary's agent reports.
type SynchronousStatus struct {
	// Members are the replicas that count.
	// +optional
	// +listType=atomic
	Members []string `json:"members,omitempty"`
	// Quorum is how many of the members have each acknowledged commit.
	Quorum int32 `json:"quorum"`
	// ReducedSince is the time since which commits don't wait for all replicas that spec.synchronous requests, because
	// those are being built after the data was replaced (spec.synchronous.duringRebuild). It is removed once they are
	// there, and does not return on this data.
	// +optional
	ReducedSince *metav1.Time `json:"reducedSince,omitempty"`
}

// SwitchoverStatus is the outcome of spec.switchover.
type SwitchoverStatus struct {
	// Token of the request.
	Token string `json:"token"`
	// From is the previous primary.
	// +optional
	From string `json:"from,omitempty"`
	// To is the instance that became primary, or should become it.
	// +optional
	To string `json:"to,omitempty"`
	// State of the request.
	State SwitchoverState `json:"state"`
	// Message for a person.
	// +optional
	Message string `json:"message,omitempty"`
	// CompletedAt is when it was done or refused.
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`
}

// SwitchoverState is the state of a switchover.
// +kubebuilder:validation:Enum=Running;Done;Refused
type SwitchoverState string

const (
	// SwitchoverRunning means that it is under way.
	SwitchoverRunning SwitchoverState = "Running"
	// SwitchoverDone means that another instance is the primary.
	SwitchoverDone SwitchoverState = "Done"
	// SwitchoverRefused means that it is not possible; the message says why.
	SwitchoverRefused SwitchoverState = "Refused"
)

// InstanceRole is the role of an instance in the cluster.
// +kubebuilder:validation:Enum=primary;replica
type InstanceRole string

const (
	// RolePrimary accepts writes.
	RolePrimary InstanceRole = "primary"
	// RoleReplica follows the primary.
	RoleReplica InstanceRole = "replica"
)

// BindingStatus names the Secret with which an application connects.
type BindingStatus struct {
	// Name of the Secret.
	Name string `json:"name"`
}

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
	// SuperuserSecret exists if spec.superuserAccess is set.
	// +optional
	SuperuserSecret string `json:"superuserSecret,omitempty"`
	// BackupSecret has the client certificate of the role howdah_backup.
	BackupSecret string `json:"backupSecret"`
	// UpgradeSecret has the client certificate of the role howdah_upgrade.
	UpgradeSecret string `json:"upgradeSecret"`
}

// DamagedWAL is a record of WAL whose checksum is wrong, in a segment that PostgreSQL has completed.
type DamagedWAL struct {
	// Segment that the record was found in.
	Segment string `json:"segment"`
	// LSN at which the record begins.
	LSN string `json:"lsn"`
	// Time when it was found.
	Time metav1.Time `json:"time"`
}

// ArchiveStatus is the health of the archive as the primary's agent sees it.
type ArchiveStatus struct {
	// Repository that WAL is archived to.
	Repository string `json:"repository"`
	// Lineage in the repository: <system identifier>-<data generation>.
	// +optional
	Lineage string `json:"lineage,omitempty"`
	// LastArchivedWAL is the name of the segment that was archived last. It is updated about once a minute.
	// +optional
	LastArchivedWAL string `json:"lastArchivedWAL,omitempty"`
	// LastArchivedTime is when that segment was archived.
	// +optional
	LastArchivedTime *metav1.Time `json:"lastArchivedTime,omitempty"`
	// FailingSince is set while pushing fails.
	// +optional
	FailingSince *metav1.Time `json:"failingSince,omitempty"`
	// Waiting is the number of segments that wait, while pushing fails or lags.
	// +optional
	Waiting int32 `json:"waiting,omitempty"`
	// WaitingSince is the time since which the first of them has waited.
	// +optional
	WaitingSince *metav1.Time `json:"waitingSince,omitempty"`
	// CompleteUntil is the time until which everything that was committed is archived, as far as is known. Later commits
	// would be lost with the volumes. It is updated about once a minute, and does not advance while nothing is written.
	// +optional
	CompleteUntil *metav1.Time `json:"completeUntil,omitempty"`
	// DiskFullAt is an estimate of when the volume of the primary will be full, while segments wait and the volume
	// fills.
	// +optional
	DiskFullAt *metav1.Time `json:"diskFullAt,omitempty"`
	// DamagedWAL is the last damage that was found in WAL while it was archived. A restore from an earlier backup can't
	// get past it, so the backup-controller takes a backup that begins after it.
	// +optional
	DamagedWAL *DamagedWAL `json:"damagedWAL,omitempty"`
	// LastFailure is why an attempt last failed; the problem may be over.
	// +optional
	LastFailure string `json:"lastFailure,omitempty"`
	// LastFailureTime is when that attempt failed.
	// +optional
	LastFailureTime *metav1.Time `json:"lastFailureTime,omitempty"`
}
