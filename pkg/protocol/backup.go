package protocol

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
)

// BackupRequest is the request of one object for a backup.
type BackupRequest struct {
	Kind      string
	Requester metav1.ObjectMeta
	Request   v1alpha1.BackupRequest
}

// BackupRequestOf is the request in the status of an object, or nil.
func BackupRequestOf(obj metav1.Object) *BackupRequest {
	switch o := obj.(type) {
	case *v1alpha1.PostgresCluster:
		if o.Status.BackupRequest == nil {
			return damagedWAL(o)
		}
		return backupRequest(v1alpha1.KindPostgresCluster, o.ObjectMeta, o.Status.BackupRequest)
	case *v1alpha1.Restore:
		return backupRequest(v1alpha1.KindRestore, o.ObjectMeta, o.Status.BackupRequest)
	case *v1alpha1.Upgrade:
		return backupRequest(v1alpha1.KindUpgrade, o.ObjectMeta, o.Status.BackupRequest)
	}
	return nil
}

// damagedWAL is the request that follows from damaged WAL in the archive of a cluster: only a backup that begins after it makes
// later points restorable again. The position is the attempt, so that each damage requests one backup.
func damagedWAL(cluster *v1alpha1.PostgresCluster) *BackupRequest {
	archive := cluster.Status.Archive
	if archive == nil || archive.DamagedWAL == nil || !cluster.DeletionTimestamp.IsZero() {
		return nil
	}
	return &BackupRequest{v1alpha1.KindPostgresCluster, cluster.ObjectMeta, v1alpha1.BackupRequest{
		Cluster: cluster.Name, ClusterUID: cluster.UID, Token: string(cluster.UID) + "/" + archive.Lineage + "/" + archive.DamagedWAL.LSN,
		Purpose: v1alpha1.PurposeDamage,
	}}
}

func backupRequest(kind string, requester metav1.ObjectMeta, request *v1alpha1.BackupRequest) *BackupRequest {
	if request == nil {
		return nil
	}
	return &BackupRequest{kind, requester, *request}
}

// NewBackup is the Backup that the backup-controller creates for a request.
func NewBackup(request *BackupRequest) *v1alpha1.Backup {
	return &v1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: request.Requester.Namespace,
			Name:      BackupName(request.Request),
			Labels: map[string]string{
				v1alpha1.LabelCluster:   request.Request.Cluster,
				v1alpha1.LabelManagedBy: v1alpha1.ManagedBy,
			},
		},
		Spec: v1alpha1.BackupSpec{
			Cluster:        v1alpha1.LocalReference{Name: request.Request.Cluster},
			DeletionPolicy: v1alpha1.BackupDelete,
			Hold:           request.Request.Hold,
			RequestedBy: &v1alpha1.Requester{
				Kind: request.Kind, Name: request.Requester.Name, UID: request.Requester.UID,
				Token: request.Request.Token, Purpose: request.Request.Purpose,
			},
		},
	}
}

// BackupOutcome is the state of a requested backup.
type BackupOutcome int

const (
	// BackupPending: not there yet, or not done.
	BackupPending BackupOutcome = iota
	// BackupSucceeded: it can be restored.
	BackupSucceeded
	// BackupFailed: it has ended without success.
	BackupFailed
)

// BackupOutcomeFor says what became of a requested Backup, with its message for a person. A Backup of that name that
// somebody else requested doesn't count.
func BackupOutcomeFor(backup *v1alpha1.Backup, request *v1alpha1.BackupRequest) (BackupOutcome, string) {
	if backup == nil || request == nil || backup.Spec.RequestedBy == nil ||
		backup.Spec.RequestedBy.Token != request.Token {
		return BackupPending, "The backup-controller has not created the Backup yet."
	}
	condition := meta.FindStatusCondition(backup.Status.Conditions, v1alpha1.ConditionSucceeded)
	switch {
	case condition == nil || !Current(backup, backup.Status.ObservedGeneration):
		return BackupPending, "The backup-controller has not acted on the Backup yet."
	case condition.Status == metav1.ConditionTrue:
		return BackupSucceeded, condition.Message
	case condition.Status == metav1.ConditionFalse:
		return BackupFailed, condition.Message
	}
	return BackupPending, condition.Message
}
