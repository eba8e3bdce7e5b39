package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// HoldRequest asks the db-controller for the volumes of a cluster. It stands in the status of a Restore or an
// Upgrade, written by its controller. The hold ends when it is cleared or its object is gone.
type HoldRequest struct {
	// Cluster is the name of the PostgresCluster.
	Cluster string `json:"cluster"`
	// ClusterUID is the UID of that very cluster; an answer by another one of that name doesn't count.
	ClusterUID types.UID `json:"clusterUID"`
	// Token is the asker's UID and attempt; it makes every repeat of the ask the same ask.
	Token string `json:"token"`
	// Mode says in what state the cluster must be.
	Mode HoldMode `json:"mode"`
}

// HoldMode is the state in which the holder wants the cluster.
// +kubebuilder:validation:Enum=Stopped
type HoldMode string

// HoldStopped: PostgreSQL has been stopped cleanly and no pod uses the volumes.
const HoldStopped HoldMode = "Stopped"

// HoldAnswer is the db-controller's answer to one HoldRequest, in the status of the PostgresCluster.
type HoldAnswer struct {
	// Kind of the asker: Restore or Upgrade.
	Kind string `json:"kind"`
	// Name of the asker.
	Name string `json:"name"`
	// AskerUID is the UID of the asker.
	AskerUID types.UID `json:"askerUID"`
	// Token of the request that this answers.
	Token string `json:"token"`
	// State of the hold.
	State HoldState `json:"state"`
	// Message for a person: who is before it in the queue, or why it is refused.
	// +optional
	Message string `json:"message,omitempty"`
	// Volumes that are the asker's while the state is Granted. The first one has the data, and takes what is handed over.
	// +optional
	Volumes []HeldVolume `json:"volumes,omitempty"`
	// AdoptedGeneration is the data generation of the asker's Handover that the cluster has taken over.
	// +optional
	AdoptedGeneration string `json:"adoptedGeneration,omitempty"`
}

// HoldState is the state of a hold.
// +kubebuilder:validation:Enum=Queued;Granted;Adopted;Refused
type HoldState string

const (
	// HoldQueued: another holder is before this one, or the cluster is still stopping.
	HoldQueued HoldState = "Queued"
	// HoldGranted: the volumes in the answer are the asker's.
	HoldGranted HoldState = "Granted"
	// HoldAdopted: the asker's Handover was taken over; the volumes are the cluster's again.
	HoldAdopted HoldState = "Adopted"
	// HoldRefused: the ask can't be granted; the message says why.
	HoldRefused HoldState = "Refused"
)

// HeldVolume is a volume that a hold hands to the asker.
type HeldVolume struct {
	// Instance is the name of the instance (pod) that the volume belongs to.
	Instance string `json:"instance"`
	// ClaimName is the name of the PersistentVolumeClaim.
	ClaimName string `json:"claimName"`
}

// Handover says that a data generation is ready on the held volume. It stands in the status of the asker of a hold.
type Handover struct {
	// Token of the hold under which the generation was made.
	Token string `json:"token"`
	// DataGeneration to adopt. Naming the generation of before takes an adoption back.
	DataGeneration string `json:"dataGeneration"`
	// SystemIdentifier of the generation, as pg_controldata prints it.
	SystemIdentifier string `json:"systemIdentifier"`
	// MajorVersion of the generation.
	MajorVersion int32 `json:"majorVersion"`
	// Image that runs it.
	Image string `json:"image"`
	// Instance whose volume has it. Left out: the first one that was granted.
	// +optional
	Instance string `json:"instance,omitempty"`
}

// ReleaseRequest says that nobody wants a data generation of a cluster any more. It stands in the status of the Restore
// that decided so.
type ReleaseRequest struct {
	// Cluster is the name of the PostgresCluster.
	Cluster string `json:"cluster"`
	// ClusterUID is the UID of that very cluster.
	ClusterUID types.UID `json:"clusterUID"`
	// DataGeneration to remove from its volumes. It is never the one that the cluster runs on.
	DataGeneration string `json:"dataGeneration"`
}

// BackupRequest asks the backup-controller for a backup. It stands in the status of a PostgresCluster that is being
// deleted, of a Restore or of an Upgrade. The Backup's name follows from it, and the Backup's status is the answer.
type BackupRequest struct {
	// Cluster is the name of the PostgresCluster to back up.
	Cluster string `json:"cluster"`
	// ClusterUID is the UID of that very cluster.
	ClusterUID types.UID `json:"clusterUID"`
	// Token is the asker's UID and attempt.
	Token string `json:"token"`
	// Purpose says what the backup is for.
	Purpose BackupPurpose `json:"purpose"`
	// Hold says that the backup is the only way back: the Backup is made with spec.hold, which a person sets to false when it
	// is needed no more.
	// +optional
	Hold bool `json:"hold,omitempty"`
}

// BackupPurpose is the reason for a backup that a controller asks for.
// +kubebuilder:validation:Enum=Final;Safety;First
type BackupPurpose string

const (
	// PurposeFinal: the last one before the volumes of a deleted cluster go.
	PurposeFinal BackupPurpose = "Final"
	// PurposeSafety: before something that could go wrong.
	PurposeSafety BackupPurpose = "Safety"
	// PurposeFirst: the first one of a new lineage, after a restore or a major upgrade.
	PurposeFirst BackupPurpose = "First"
)

// Requester says on whose behalf the backup-controller made a Backup.
type Requester struct {
	// Kind of the asker.
	Kind string `json:"kind"`
	// Name of the asker.
	Name string `json:"name"`
	// UID of the asker.
	UID types.UID `json:"uid"`
	// Token of the request.
	Token string `json:"token"`
	// Purpose of the request.
	Purpose BackupPurpose `json:"purpose"`
}

// Progress of long work. Written by the Job that does the work, with server-side apply and its own field manager;
// everything else in that status is the controller's.
type Progress struct {
	// Phase of the work, such as Copying, AwaitingWAL, Fetching, Replaying.
	Phase string `json:"phase"`
	// DoneBytes of TotalBytes are done.
	// +optional
	DoneBytes int64 `json:"doneBytes,omitempty"`
	// TotalBytes to do, as far as known.
	// +optional
	TotalBytes int64 `json:"totalBytes,omitempty"`
	// Percent done, 0 to 100.
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
