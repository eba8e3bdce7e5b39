package restore

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
)

func (r *Reconciler) ensureFinalizer(ctx context.Context, w *world) flow.Outcome {
	return flow.EnsureFinalizer(ctx, r.writer, w.restore, finalizer)
}

func (r *Reconciler) removeFinalizer(ctx context.Context, w *world) flow.Outcome {
	return flow.RemoveFinalizer(ctx, r.writer, w.restore, finalizer)
}

// preflight refuses what can't be done, before anything is read or touched. Each policy is a pure function of the world.
func (r *Reconciler) preflight(_ context.Context, w *world) flow.Outcome {
	if w.restore.Status.Plan != nil {
		return flow.Next
	}
	for _, policy := range []func(*world) flow.Outcome{backupIsThere, backupSucceeded, repositoryIsKnown, repositoryIsThere, repositoryIsReady, archiveIsThere} {
		if outcome := policy(w); !outcome.Finished() {
			return outcome
		}
	}
	return flow.Next
}

// settling is how long something may be missing that was perhaps made together with the Restore: `kubectl apply` of
// several objects, and caches that are a moment behind.
const settling = 15 * time.Second

// missing stops for something that isn't there, though not at once.
func missing(w *world, reason, message string) flow.Outcome {
	if left := settling - w.now.Sub(w.restore.CreationTimestamp.Time); left > 0 {
		return flow.Poll(left, reason, message)
	}
	return flow.Stop(reason, message)
}

func backupIsThere(w *world) flow.Outcome {
	name := w.restore.Spec.Source.Backup
	if name == nil || w.backup != nil {
		return flow.Next
	}
	return missing(w, v1alpha1.ReasonBackupNotFound, fmt.Sprintf(
		"there is no Backup %s in namespace %s; `kubectl get pgb` lists those that are there", name.Name, w.restore.Namespace))
}

func backupSucceeded(w *world) flow.Outcome {
	if w.backup == nil {
		return flow.Next
	}
	name := w.backup.Name
	if !w.backup.DeletionTimestamp.IsZero() && !w.backup.Spec.Hold {
		return flow.Stop(v1alpha1.ReasonBackupNotFound, fmt.Sprintf("Backup %s is being deleted; restore another one", name))
	}
	condition := meta.FindStatusCondition(w.backup.Status.Conditions, v1alpha1.ConditionSucceeded)
	switch {
	case condition == nil || !protocol.Current(w.backup, w.backup.Status.ObservedGeneration):
		return flow.Wait(v1alpha1.ReasonAwaitingBackup, fmt.Sprintf("Backup %s has not begun yet", name))
	case condition.Status == metav1.ConditionFalse:
		return flow.Stop(v1alpha1.ReasonBackupNotFound, fmt.Sprintf("Backup %s has not succeeded (%s): restore another one", name, condition.Reason))
	case condition.Status != metav1.ConditionTrue || w.backup.Status.Plan == nil:
		return flow.Wait(v1alpha1.ReasonAwaitingBackup, fmt.Sprintf("Backup %s is not done yet: %s", name, condition.Message))
	}
	return flow.Next
}

func repositoryIsKnown(w *world) flow.Outcome {
	if w.repositoryName() != "" {
		return flow.Next
	}
	name := w.restore.Spec.Source.Cluster.Name
	if w.source == nil {
		return missing(w, v1alpha1.ReasonClusterNotFound, fmt.Sprintf(
			"there is no PostgresCluster %s in namespace %s; if it is gone, set spec.source.cluster.repository to the BackupRepository that has its archive",
			name, w.restore.Namespace))
	}
	return flow.Stop(v1alpha1.ReasonNoArchive, fmt.Sprintf(
		"PostgresCluster %s has no spec.archive, so nothing of it can be restored; if it had one, set spec.source.cluster.repository", name))
}

func repositoryIsThere(w *world) flow.Outcome {
	if w.repository != nil {
		return flow.Next
	}
	return missing(w, v1alpha1.ReasonRepositoryNotFound, fmt.Sprintf(
		"there is no BackupRepository %s in namespace %s; make it, or name another", w.repositoryName(), w.restore.Namespace))
}

func repositoryIsReady(w *world) flow.Outcome {
	condition := meta.FindStatusCondition(w.repository.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case condition == nil || !protocol.Current(w.repository, w.repository.Status.ObservedGeneration):
		return flow.Wait(v1alpha1.ReasonRepositoryNotReady, fmt.Sprintf("BackupRepository %s has not been checked yet", w.repository.Name))
	case condition.Status != metav1.ConditionTrue:
		return flow.Wait(v1alpha1.ReasonRepositoryNotReady, fmt.Sprintf("BackupRepository %s is not ready: %s", w.repository.Name, condition.Message))
	}
	return flow.Next
}

// archiveIsThere: the new cluster can archive to where it is told to.
func archiveIsThere(w *world) flow.Outcome {
	wanted := w.restore.Spec.Destination.NewCluster
	switch {
	case wanted == nil || wanted.Repository == nil:
		return flow.Next
	case w.archive == nil:
		return missing(w, v1alpha1.ReasonRepositoryNotFound, fmt.Sprintf(
			"there is no BackupRepository %s in namespace %s; make it, or name another in spec.destination.newCluster.repository.name",
			wanted.Repository.Name, w.restore.Namespace))
	case w.archive.Spec.ReadOnly:
		return flow.Stop(v1alpha1.ReasonReadOnly, fmt.Sprintf(
			"BackupRepository %s is read-only (spec.readOnly), so the new cluster can't archive to it: name another in spec.destination.newCluster.repository.name",
			w.archive.Name))
	}
	return flow.Next
}
