package restore

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
)

func (r *Reconciler) ensureFinalizer(ctx context.Context, o *observed) flow.Outcome {
	return flow.EnsureFinalizer(ctx, r.Client, o.restore, finalizer)
}

func (r *Reconciler) removeFinalizer(ctx context.Context, o *observed) flow.Outcome {
	return flow.RemoveFinalizer(ctx, r.Client, o.restore, finalizer)
}

// preflight refuses what can't be done, before anything is read or touched. Each policy is a pure function of what was observed.
func preflight(_ context.Context, o *observed) flow.Outcome {
	if o.restore.Status.Plan != nil {
		return flow.Next
	}
	for _, policy := range []func(*observed) flow.Outcome{backupIsThere, backupSucceeded, repositoryIsKnown, repositoryIsThere, repositoryIsReady, archiveIsThere} {
		if outcome := policy(o); !outcome.Finished() {
			return outcome
		}
	}
	return flow.Next
}

// missing stops for something that doesn't exist, though not at once.
func missing(o *observed, reason, message string) flow.Outcome {
	return flow.Missing(o.restore, o.now, reason, message)
}

func backupIsThere(o *observed) flow.Outcome {
	name := o.restore.Spec.Source.Backup
	if name == nil || o.backup != nil {
		return flow.Next
	}
	return missing(o, v1alpha1.ReasonBackupNotFound, fmt.Sprintf(
		"There is no Backup %s in namespace %s. `kubectl get pgb` lists those that exist.", name.Name, o.restore.Namespace))
}

func backupSucceeded(o *observed) flow.Outcome {
	if o.backup == nil {
		return flow.Next
	}
	name := o.backup.Name
	if !o.backup.DeletionTimestamp.IsZero() && !o.backup.Spec.Hold {
		return flow.Stop(v1alpha1.ReasonBackupNotFound, fmt.Sprintf("Backup %s is being deleted. Restore another one.", name))
	}
	condition := meta.FindStatusCondition(o.backup.Status.Conditions, v1alpha1.ConditionSucceeded)
	switch {
	case condition == nil || !protocol.Current(o.backup, o.backup.Status.ObservedGeneration):
		return flow.Wait(v1alpha1.ReasonAwaitingBackup, fmt.Sprintf("Backup %s has not begun yet.", name))
	case condition.Status == metav1.ConditionFalse:
		return flow.Stop(v1alpha1.ReasonBackupNotFound, fmt.Sprintf("Backup %s has not succeeded (%s). Restore another one.", name, condition.Reason))
	case condition.Status != metav1.ConditionTrue || o.backup.Status.Plan == nil:
		return flow.Wait(v1alpha1.ReasonAwaitingBackup, fmt.Sprintf("Backup %s is not done yet. %s", name, flow.Sentence(condition.Message)))
	}
	return flow.Next
}

func repositoryIsKnown(o *observed) flow.Outcome {
	if o.repositoryName() != "" {
		return flow.Next
	}
	name := o.restore.Spec.Source.Cluster.Name
	if o.source == nil {
		return missing(o, v1alpha1.ReasonClusterNotFound, fmt.Sprintf(
			"There is no PostgresCluster %s in namespace %s. If it was deleted, set spec.source.cluster.repository to the BackupRepository that has its archive.",
			name, o.restore.Namespace))
	}
	return flow.Stop(v1alpha1.ReasonNoArchive, fmt.Sprintf(
		"PostgresCluster %s has no spec.archive, so nothing of it can be restored. If it had one, set spec.source.cluster.repository.", name))
}

func repositoryIsThere(o *observed) flow.Outcome {
	if o.repository != nil {
		return flow.Next
	}
	return missing(o, v1alpha1.ReasonRepositoryNotFound, fmt.Sprintf(
		"There is no BackupRepository %s in namespace %s. Create it, or name another one.", o.repositoryName(), o.restore.Namespace))
}

func repositoryIsReady(o *observed) flow.Outcome {
	condition := meta.FindStatusCondition(o.repository.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case condition == nil || !protocol.Current(o.repository, o.repository.Status.ObservedGeneration):
		return flow.Wait(v1alpha1.ReasonRepositoryNotReady, fmt.Sprintf("BackupRepository %s has not been checked yet.", o.repository.Name))
	case condition.Status != metav1.ConditionTrue:
		return flow.Wait(v1alpha1.ReasonRepositoryNotReady, fmt.Sprintf("BackupRepository %s is not ready. %s", o.repository.Name, flow.Sentence(condition.Message)))
	}
	return flow.Next
}

// archiveIsThere: the new cluster can archive to where it is told to.
func archiveIsThere(o *observed) flow.Outcome {
	wanted := o.restore.Spec.Destination.NewCluster
	switch {
	case wanted == nil || wanted.Repository == nil:
		return flow.Next
	case o.archive == nil:
		return missing(o, v1alpha1.ReasonRepositoryNotFound, fmt.Sprintf(
			"There is no BackupRepository %s in namespace %s. Create it, or name another one in spec.destination.newCluster.repository.name.",
			wanted.Repository.Name, o.restore.Namespace))
	case o.archive.Spec.ReadOnly:
		return flow.Stop(v1alpha1.ReasonReadOnly, fmt.Sprintf(
			"BackupRepository %s is read-only (spec.readOnly), so the new cluster can't archive to it. Name another one in spec.destination.newCluster.repository.name.",
			o.archive.Name))
	}
	return flow.Next
}
