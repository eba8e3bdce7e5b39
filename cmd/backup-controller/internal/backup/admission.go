package backup

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
	return flow.EnsureFinalizer(ctx, r.Client, o.backup, finalizer)
}

// requireCluster ends a backup of a cluster that doesn't exist, or of another one than was asked for.
func requireCluster(_ context.Context, o *observed) flow.Outcome {
	name := o.backup.Spec.Cluster.Name
	if o.cluster == nil {
		return o.stop(v1alpha1.ReasonClusterNotFound, fmt.Sprintf(
			"PostgresCluster %s does not exist in namespace %s. Create another Backup that names an existing cluster in spec.cluster.name.", name, o.backup.Namespace))
	}
	by := o.backup.Spec.RequestedBy
	if by != nil && by.Kind == v1alpha1.KindPostgresCluster && by.UID != o.cluster.UID {
		return o.stop(v1alpha1.ReasonClusterReplaced, fmt.Sprintf("PostgresCluster %s, which requested this backup, was deleted. The one that has its name now is another cluster.", name))
	}
	return flow.Next
}

// requireSameCluster ends a backup whose cluster went away under it.
func requireSameCluster(_ context.Context, o *observed) flow.Outcome {
	if o.cluster != nil && o.cluster.Identity() == o.backup.Status.Plan.ClusterUID {
		return flow.Next
	}
	return o.stop(v1alpha1.ReasonClusterReplaced, "The backup can't be completed: "+o.outdated+".")
}

func requireArchive(_ context.Context, o *observed) flow.Outcome {
	if o.cluster.Spec.Archive != nil {
		return flow.Next
	}
	return o.stop(v1alpha1.ReasonNoArchive, fmt.Sprintf(
		"PostgresCluster %s has no spec.archive, so there is nowhere to store a backup. Set its spec.archive.repository.name to a BackupRepository, and create another Backup.", o.cluster.Name))
}

// awaitTurn lets one backup of a cluster run at a time.
func awaitTurn(_ context.Context, o *observed) flow.Outcome {
	if o.ahead == nil {
		return flow.Next
	}
	return flow.Wait(v1alpha1.ReasonQueued, fmt.Sprintf("Waiting for Backup %s of the same cluster.", o.ahead.Name))
}

func awaitRepository(_ context.Context, o *observed) flow.Outcome {
	name := o.cluster.Spec.Archive.Repository.Name
	if o.wanted == nil {
		return flow.Poll(storeRetry, v1alpha1.ReasonRepositoryNotFound, fmt.Sprintf(
			"BackupRepository %s, which PostgresCluster %s names in spec.archive.repository, does not exist in namespace %s. Create it, or name another.",
			name, o.cluster.Name, o.backup.Namespace))
	}
	if o.wanted.Spec.ReadOnly {
		return o.stop(v1alpha1.ReasonReadOnly, fmt.Sprintf(
			"BackupRepository %s is read-only (spec.readOnly), so nothing can be backed up to it. Name another in spec.archive.repository of PostgresCluster %s.", name, o.cluster.Name))
	}
	ready := meta.FindStatusCondition(o.wanted.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case ready == nil || !protocol.Current(o.wanted, o.wanted.Status.ObservedGeneration):
		return flow.Wait(v1alpha1.ReasonRepositoryNotReady, fmt.Sprintf("BackupRepository %s has not been checked yet.", name))
	case ready.Status != metav1.ConditionTrue:
		return flow.Wait(v1alpha1.ReasonRepositoryNotReady, fmt.Sprintf("BackupRepository %s can't be used now: %s", name, ready.Message))
	}
	return flow.Next
}

// awaitCluster waits until the primary accepts connections and all that a plan needs is known.
func awaitCluster(_ context.Context, o *observed) flow.Outcome {
	if why := notReady(o.cluster); why != "" {
		return flow.Wait(v1alpha1.ReasonClusterNotReady, fmt.Sprintf("PostgresCluster %s can't be backed up now: %s", o.cluster.Name, why))
	}
	return flow.Next
}

// notReady says why a cluster can't be backed up now; empty if it can. A cluster that is being deleted isn't Ready, but
// its last backup is taken as long as its primary accepts connections.
func notReady(cluster *v1alpha1.PostgresCluster) string {
	status := &cluster.Status
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	archiving := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionArchiving)
	primary := primaryOf(cluster)
	switch {
	case !protocol.Current(cluster, status.ObservedGeneration):
		return "the db-controller has not yet acted on its latest change."
	case cluster.DeletionTimestamp.IsZero() && (ready == nil || ready.Status != metav1.ConditionTrue):
		return "it is not Ready: " + messageOf(ready)
	case primary == nil || !primary.Ready:
		return "its primary does not accept connections."
	case primary.Node == "" || primary.Address == "" || primary.Volume == "" || status.Connection == nil ||
		protocol.Lineage(status.SystemIdentifier, status.DataGeneration) == "":
		return "its status does not yet say where its data is."
	case archiving != nil && archiving.Status == metav1.ConditionFalse && archiving.Reason == v1alpha1.ReasonArchiveFailing:
		return "its WAL does not reach the archive, and a backup needs that WAL: " + archiving.Message
	}
	return ""
}

func messageOf(condition *metav1.Condition) string {
	if condition == nil {
		return "its status is not known yet."
	}
	return condition.Message
}

func primaryOf(cluster *v1alpha1.PostgresCluster) *v1alpha1.InstanceStatus {
	for i := range cluster.Status.Instances {
		if cluster.Status.Instances[i].Name == cluster.Status.Primary {
			return &cluster.Status.Instances[i]
		}
	}
	return nil
}

// requireAttempts gives up after maxAttempts Jobs.
func requireAttempts(_ context.Context, o *observed) flow.Outcome {
	if o.backup.Status.Plan.Attempt < maxAttempts {
		return flow.Next
	}
	reason, message := v1alpha1.ReasonJobFailed, o.outdated
	if o.job.Failed {
		reason, message = o.job.FailureReason()
	}
	return o.stop(reason, fmt.Sprintf("The backup failed after %d attempts. The last one ended with: %s", maxAttempts, message))
}

// stop ends the backup without success.
func (o *observed) stop(reason, message string) flow.Outcome {
	o.backup.Status.CompletedAt = &metav1.Time{Time: o.now}
	return flow.Stop(reason, message)
}
