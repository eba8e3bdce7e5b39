package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// VolumeLockStatus is the part of a status that every kind has whose controller works on the volumes of a cluster. Written by
// that controller; the db-controller reads volumeLockRequest and handover.
type VolumeLockStatus struct {
	// VolumeLockRequest requests the volumes of the cluster from the db-controller.
	// +optional
	VolumeLockRequest *VolumeLockRequest `json:"volumeLockRequest,omitempty"`
	// DownAt is when the db-controller began to stop the cluster.
	// +optional
	DownAt *metav1.Time `json:"downAt,omitempty"`
	// Previous is the data that the cluster ran on when it was stopped, and runs on again when the work is undone.
	// +optional
	Previous *PreviousData `json:"previous,omitempty"`
	// Handover offers the new data to the cluster, or the previous data again.
	// +optional
	Handover *Handover `json:"handover,omitempty"`
	// HandedOverAt is when the new data was offered to the cluster.
	// +optional
	HandedOverAt *metav1.Time `json:"handedOverAt,omitempty"`
	// Failure is why the work is abandoned. It is recorded before anything is reverted.
	// +optional
	Failure *Failure `json:"failure,omitempty"`
	// ConfirmBy is the time until which a person can bring the previous data back. After that, the new data is
	// confirmed.
	// +optional
	ConfirmBy *metav1.Time `json:"confirmBy,omitempty"`
	// UndoneAt is when the cluster accepted connections on the previous data again, because a person had decided so.
	// +optional
	UndoneAt *metav1.Time `json:"undoneAt,omitempty"`
	// Release requests that the db-controller removes a data generation from the volumes.
	// +optional
	Release *ReleaseRequest `json:"release,omitempty"`
}

// PreviousData is a data generation to return to.
type PreviousData struct {
	// DataGeneration that the cluster ran on.
	DataGeneration string `json:"dataGeneration"`
	// Instance whose volume has every commit of it.
	Instance string `json:"instance"`
	// VolumeUID is the UID of the PersistentVolumeClaim of that volume.
	// +optional
	VolumeUID types.UID `json:"volumeUID,omitempty"`
	// SystemIdentifier of it.
	SystemIdentifier string `json:"systemIdentifier"`
	// MajorVersion of it.
	MajorVersion int32 `json:"majorVersion"`
	// Image that ran it.
	Image string `json:"image"`
	// Archived: the last primary said, when it ended, that all WAL of it is archived. If it is false, commits may be on the volume
	// only.
	// +optional
	Archived bool `json:"archived,omitempty"`
	// Repository is the BackupRepository to which its WAL was archived when it ended.
	// +optional
	Repository string `json:"repository,omitempty"`
}

// Failure is why the work on a cluster is given up.
type Failure struct {
	// Reason is one of the reasons of the condition Succeeded.
	Reason string `json:"reason"`
	// Message for a person.
	Message string `json:"message"`
}

// Reasons of every kind whose controller works on the volumes of a cluster. Written by that controller.
const (
	// ReasonAwaitingVolumeLock: the volumes are not granted yet.
	ReasonAwaitingVolumeLock = "AwaitingVolumeLock"
	// ReasonVolumeLockRefused: the db-controller refuses the volumes, or has none to grant.
	ReasonVolumeLockRefused = "VolumeLockRefused"
	// ReasonAwaitingAdoption: the cluster does not run on the new data yet.
	ReasonAwaitingAdoption = "AwaitingAdoption"
	// ReasonMaxDowntimeExceeded: the cluster would have been down for longer than spec.maxDowntime.
	ReasonMaxDowntimeExceeded = "MaxDowntimeExceeded"
	// ReasonNotStarted: the cluster did not accept connections on the new data in time.
	ReasonNotStarted = "NotStarted"
	// ReasonRollingBack: the work failed, and the cluster is being brought back to its previous data.
	ReasonRollingBack = "RollingBack"
	// ReasonAwaitingConfirmation: the cluster runs on the new data, and a person may confirm that or go back.
	ReasonAwaitingConfirmation = "AwaitingConfirmation"
	// ReasonAwaitingDecision: the time for a decision is over, and the previous data is kept until a person gives it up, because it may
	// be the only copy of commits.
	ReasonAwaitingDecision = "AwaitingDecision"
	// ReasonConfirming: the previous data is being deleted.
	ReasonConfirming = "Confirming"
	// ReasonSafetyBackupFailed: the safety backup failed, so nothing was touched.
	ReasonSafetyBackupFailed = "SafetyBackupFailed"
	// ReasonUndoImpossible: the previous data can't be brought back; the message says why.
	ReasonUndoImpossible = "UndoImpossible"
	// ReasonReturningVolumes: the volumes are being given back to the cluster.
	ReasonReturningVolumes = "ReturningVolumes"
)
