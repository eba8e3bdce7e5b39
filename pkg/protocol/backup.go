package protocol

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
)

// BackupAsk is one object's wish for a backup.
type BackupAsk struct {
	Kind    string
	Asker   metav1.ObjectMeta
	Request v1alpha1.BackupRequest
}

// BackupAskOf is the wish in the status of an object, or nil.
func BackupAskOf(obj metav1.Object) *BackupAsk {
	switch o := obj.(type) {
	case *v1alpha1.PostgresCluster:
		return backupAsk(v1alpha1.KindPostgresCluster, o.ObjectMeta, o.Status.BackupWanted)
	case *v1alpha1.Restore:
		return backupAsk(v1alpha1.KindRestore, o.ObjectMeta, o.Status.BackupWanted)
	case *v1alpha1.Upgrade:
		return backupAsk(v1alpha1.KindUpgrade, o.ObjectMeta, o.Status.BackupWanted)
	}
	return nil
}

func backupAsk(kind string, asker metav1.ObjectMeta, request *v1alpha1.BackupRequest) *BackupAsk {
	if request == nil {
		return nil
	}
	return &BackupAsk{kind, asker, *request}
}

// NewBackup is the Backup that the backup-controller makes for an ask.
func NewBackup(ask *BackupAsk) *v1alpha1.Backup {
	return &v1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ask.Asker.Namespace,
			Name:      BackupName(ask.Request),
			Labels: map[string]string{
				v1alpha1.LabelCluster:   ask.Request.Cluster,
				v1alpha1.LabelManagedBy: v1alpha1.ManagedBy,
			},
		},
		Spec: v1alpha1.BackupSpec{
			Cluster:        v1alpha1.LocalReference{Name: ask.Request.Cluster},
			DeletionPolicy: v1alpha1.BackupDelete,
			Hold:           ask.Request.Hold,
			RequestedBy: &v1alpha1.Requester{
				Kind: ask.Kind, Name: ask.Asker.Name, UID: ask.Asker.UID,
				Token: ask.Request.Token, Purpose: ask.Request.Purpose,
			},
		},
	}
}

// BackupOutcome is how a wished-for backup stands.
type BackupOutcome int

const (
	// BackupPending: not there yet, or not done.
	BackupPending BackupOutcome = iota
	// BackupSucceeded: it can be restored.
	BackupSucceeded
	// BackupFailed: it has ended without success.
	BackupFailed
)

// BackupAnswerFor says how the Backup that answers a request stands, with its message for a person. A Backup of that
// name that answers somebody else doesn't count.
func BackupAnswerFor(backup *v1alpha1.Backup, request *v1alpha1.BackupRequest) (BackupOutcome, string) {
	if backup == nil || request == nil || backup.Spec.RequestedBy == nil ||
		backup.Spec.RequestedBy.Token != request.Token {
		return BackupPending, "the backup-controller has not made the Backup yet"
	}
	condition := meta.FindStatusCondition(backup.Status.Conditions, v1alpha1.ConditionSucceeded)
	switch {
	case condition == nil || !Current(backup, backup.Status.ObservedGeneration):
		return BackupPending, "the backup-controller has not looked at the Backup yet"
	case condition.Status == metav1.ConditionTrue:
		return BackupSucceeded, condition.Message
	case condition.Status == metav1.ConditionFalse:
		return BackupFailed, condition.Message
	}
	return BackupPending, condition.Message
}
