package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// VolumeLockRequest requests the volumes of a cluster from the db-controller. It is in the status of a Restore or an
// Upgrade, and written by its controller. The lock ends when the request is cleared or its object no longer exists.
type VolumeLockRequest struct {
	// Cluster is the name of the PostgresCluster.
	Cluster string `json:"cluster"`
	// ClusterUID is the UID of that cluster; a response from another cluster of the same name does not count.
	ClusterUID types.UID `json:"clusterUID"`
	// Token consists of the requester's UID and attempt, so that every repeat of a request is the same request.
	Token string `json:"token"`
	// Mode is the state that the cluster must be in.
	Mode VolumeLockMode `json:"mode"`
	// MaxDowntime bounds how long the cluster is stopped before a data generation is handed over.
	// +optional
	// +kubebuilder:validation:Type=string
	MaxDowntime *metav1.Duration `json:"maxDowntime,omitempty"`
	// ReplicasLast says that a replica with every commit of the primary is needed when all is stopped. Nothing is stopped before each
	// instance knows that replicas end after their primary, and a replica replays the rest for as long as its grace period allows.
	// Without it, replicas end last if they hear of it within seconds, and replay the rest for some seconds.
	// +optional
	ReplicasLast bool `json:"replicasLast,omitempty"`
}

// VolumeLockMode is the state in which the requester needs the cluster.
// +kubebuilder:validation:Enum=Stopped
type VolumeLockMode string

// VolumeLockStopped says that PostgreSQL has been stopped cleanly and no pod uses the volumes.
const VolumeLockStopped VolumeLockMode = "Stopped"

// VolumeLock is the db-controller's response to one VolumeLockRequest, in the status of the PostgresCluster.
type VolumeLock struct {
	// Kind of the requester: Restore or Upgrade.
	Kind string `json:"kind"`
	// Name of the requester.
	Name string `json:"name"`
	// RequesterUID is the UID of the requester.
	RequesterUID types.UID `json:"requesterUID"`
	// Token of the request that this responds to.
	Token string `json:"token"`
	// State of the lock.
	State VolumeLockState `json:"state"`
	// Message for a person: who has the volumes before it, what keeps PostgreSQL from being stopped, or why the lock is refused.
	// +optional
	Message string `json:"message,omitempty"`
	// StoppingSince is when the db-controller began to stop PostgreSQL for the requester. It is recorded before
	// anything is stopped.
	// +optional
	StoppingSince *metav1.Time `json:"stoppingSince,omitempty"`
	// Deadline is the time by which a data generation must be handed over. After that, the lock is refused, and the
	// cluster starts again. Empty if the request has no maxDowntime.
	// +optional
	Deadline *metav1.Time `json:"deadline,omitempty"`
	// TellingSince is when the db-controller began to tell the instances that replicas end after their primary.
	// +optional
	TellingSince *metav1.Time `json:"tellingSince,omitempty"`
	// ReplicasLast says that the request has it set.
	// +optional
	ReplicasLast bool `json:"replicasLast,omitempty"`
	// Volumes that belong to the requester while the state is Granted. The first one has the data, and must contain the
	// data generation that is handed over.
	// +optional
	Volumes []LockedVolume `json:"volumes,omitempty"`
	// Shutdown is how the server with the data ended, as the exit status of its container says: Unclean if it was killed at the end
	// of its grace period, or had crashed. Empty: the container was deleted before that could be read. Whoever is about to
	// discard the data checks the state in its pg_control as well.
	// +optional
	Shutdown ShutdownState `json:"shutdown,omitempty"`
	// Archived: the last primary said, when it ended, that all WAL of the data is archived. Written with the grant. If it is false,
	// commits may be on the volume only.
	// +optional
	Archived bool `json:"archived,omitempty"`
	// AdoptedGeneration is the data generation of the requester's Handover that the cluster has adopted.
	// +optional
	AdoptedGeneration string `json:"adoptedGeneration,omitempty"`
	// ServedSince is when the db-controller first saw that clients are led to the adopted data. It is recorded once. From then on
	// the data may have new rows, and no other Handover under this lock is adopted.
	// +optional
	ServedSince *metav1.Time `json:"servedSince,omitempty"`
}

// ShutdownState says how a server ended.
// +kubebuilder:validation:Enum=Clean;Unclean
type ShutdownState string

const (
	// ShutdownClean: its container ended with exit status 0.
	ShutdownClean ShutdownState = "Clean"
	// ShutdownUnclean: it ended otherwise. Its data needs recovery before all of it can be read.
	ShutdownUnclean ShutdownState = "Unclean"
)

// VolumeLockState is the state of a volume lock.
// +kubebuilder:validation:Enum=Queued;Granted;Adopted;Refused
type VolumeLockState string

const (
	// VolumeLockQueued: another requester is ahead of this one, or the cluster is still stopping.
	VolumeLockQueued VolumeLockState = "Queued"
	// VolumeLockGranted: the volumes in the response belong to the requester.
	VolumeLockGranted VolumeLockState = "Granted"
	// VolumeLockAdopted: the requester's Handover was adopted; the volumes belong to the cluster again.
	VolumeLockAdopted VolumeLockState = "Adopted"
	// VolumeLockRefused: the request can't be granted, or its deadline has passed; the message says why. It stays so until the
	// request is withdrawn.
	VolumeLockRefused VolumeLockState = "Refused"
)

// LockedVolume is a volume that a lock gives to the requester.
type LockedVolume struct {
	// Instance is the name of the instance (pod) that the volume belongs to.
	Instance string `json:"instance"`
	// ClaimName is the name of the PersistentVolumeClaim.
	ClaimName string `json:"claimName"`
	// UID of the PersistentVolumeClaim: one that was deleted and created again has the same name, and none of the data.
	// +optional
	UID types.UID `json:"uid,omitempty"`
}

// Handover says that a data generation is ready on the locked volume. It is in the status of the object that has the lock.
type Handover struct {
	// Token of the lock under which the generation was written.
	Token string `json:"token"`
	// DataGeneration to adopt. Naming the previous generation reverts an adoption, as long as the adopted data has not served
	// clients.
	DataGeneration string `json:"dataGeneration"`
	// SystemIdentifier of the generation, as pg_controldata prints it.
	SystemIdentifier string `json:"systemIdentifier"`
	// MajorVersion of the generation.
	MajorVersion int32 `json:"majorVersion"`
	// Image that runs it.
	Image string `json:"image"`
	// Instance whose volume has it. By default, the first one that was granted.
	// +optional
	Instance string `json:"instance,omitempty"`
	// VolumeUID is the UID of the PersistentVolumeClaim of that instance. If it has another one by now, the data was deleted, and the
	// Handover is refused.
	// +optional
	VolumeUID types.UID `json:"volumeUID,omitempty"`
}

// ReleaseRequest says that a data generation of a cluster is no longer needed. It is in the status of the Restore or Upgrade whose
// decision gave it up.
type ReleaseRequest struct {
	// Cluster is the name of the PostgresCluster.
	Cluster string `json:"cluster"`
	// ClusterUID is the UID of that cluster.
	ClusterUID types.UID `json:"clusterUID"`
	// DataGeneration to remove from its volumes. It is never the one that the cluster runs on.
	DataGeneration string `json:"dataGeneration"`
}

// BackupRequest requests a backup from the backup-controller. It is in the status of a PostgresCluster that is being
// deleted or that was a standby, of a Restore or of an Upgrade. The Backup's name follows from it, and the Backup's status is the response.
type BackupRequest struct {
	// Cluster is the name of the PostgresCluster to back up.
	Cluster string `json:"cluster"`
	// ClusterUID is the UID of that cluster.
	ClusterUID types.UID `json:"clusterUID"`
	// Token consists of the requester's UID and attempt.
	Token string `json:"token"`
	// Purpose says what the backup is for.
	Purpose BackupPurpose `json:"purpose"`
	// Hold says that the backup is the only way back: the Backup is created with spec.hold, which a person sets to false when
	// it is no longer needed.
	// +optional
	Hold bool `json:"hold,omitempty"`
}

// BackupPurpose is the reason for a backup that a controller requests.
// +kubebuilder:validation:Enum=Final;Safety;First;Damage
type BackupPurpose string

const (
	// PurposeFinal is for the last backup before the volumes of a deleted cluster are deleted.
	PurposeFinal BackupPurpose = "Final"
	// PurposeSafety is for a backup before something that could go wrong.
	PurposeSafety BackupPurpose = "Safety"
	// PurposeFirst is for the first backup of a new lineage, after a restore, a major upgrade or the promotion of a standby.
	PurposeFirst BackupPurpose = "First"
	// PurposeDamage is for a backup that begins after WAL that is damaged, and so can't be replayed.
	PurposeDamage BackupPurpose = "Damage"
)

// Requester says on whose behalf the backup-controller created a Backup.
type Requester struct {
	// Kind of the requester.
	Kind string `json:"kind"`
	// Name of the requester.
	Name string `json:"name"`
	// UID of the requester.
	UID types.UID `json:"uid"`
	// Token of the request.
	Token string `json:"token"`
	// Purpose of the request.
	Purpose BackupPurpose `json:"purpose"`
}

// Progress of long work. Written by the Job that does the work, with server-side apply and its own field manager;
// everything else in that status belongs to the controller.
type Progress struct {
	// Phase of the work, such as Copying, AwaitingWAL, Fetching, Replaying.
	Phase string `json:"phase"`
	// DoneBytes of TotalBytes are done.
	// +optional
	DoneBytes int64 `json:"doneBytes,omitempty"`
	// TotalBytes to do, as far as known.
	// +optional
	TotalBytes int64 `json:"totalBytes,omitempty"`
	// Percent that is done, 0 to 100.
	// +optional
	Percent int32 `json:"percent,omitempty"`
	// BytesPerSecond is the rate over the last interval.
	// +optional
	BytesPerSecond int64 `json:"bytesPerSecond,omitempty"`
	// SecondsLeft is the estimated time left.
	// +optional
	SecondsLeft int64 `json:"secondsLeft,omitempty"`
	// Message for a person, such as the WAL position that replay has reached.
	// +optional
	Message string `json:"message,omitempty"`
	// UpdatedAt is when the worker wrote this.
	// +optional
	UpdatedAt metav1.Time `json:"updatedAt,omitempty"`
}
