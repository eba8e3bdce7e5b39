package restore

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/workload"
)

// stopJob makes sure that nobody writes to the volume any more. A Job that has ended stays: it says why.
func (r *Reconciler) stopJob(ctx context.Context, w *world) flow.Outcome {
	if !w.job.Exists || w.job.Ended() {
		return flow.Next
	}
	return r.deleteJob(ctx, w, "stopping the Job")
}

// deleteJob deletes the Job and waits: it is gone only when its pods are.
func (r *Reconciler) deleteJob(ctx context.Context, w *world, why string) flow.Outcome {
	if err := workload.Delete(ctx, r.writer, w.restore, jobName(w.restore), w.job); err != nil {
		return flow.Retry(err)
	}
	return flow.Poll(5*time.Second, v1alpha1.ReasonRunning, why)
}

// withdrawHold gives the volume back, and takes an offer of data back.
func (r *Reconciler) withdrawHold(_ context.Context, w *world) flow.Outcome {
	status := &w.restore.Status
	if status.VolumeLockRequest == nil && status.Handover == nil {
		return flow.Next
	}
	status.VolumeLockRequest, status.Handover = nil, nil
	return flow.Save(v1alpha1.ReasonAwaitingVolumeLock, "giving the volume back")
}

// awaitHoldGone waits until the db-controller has seen that. Only then is it certain whether the cluster has taken the
// data over.
func (r *Reconciler) awaitHoldGone(_ context.Context, w *world) flow.Outcome {
	if w.cluster == nil {
		return flow.Next
	}
	held := slices.ContainsFunc(w.cluster.Status.VolumeLocks, func(a v1alpha1.VolumeLock) bool { return a.RequesterUID == w.restore.UID })
	if held {
		return flow.Wait(v1alpha1.ReasonAwaitingVolumeLock, "waiting for the db-controller to take the volume back")
	}
	return flow.Next
}

// deleteUnfinished deletes the cluster that this Restore has made and that never ran.
func (r *Reconciler) deleteUnfinished(ctx context.Context, w *world) flow.Outcome {
	if !w.ours() || w.ran() || !w.cluster.DeletionTimestamp.IsZero() {
		return flow.Next
	}
	err := r.writer.Delete(ctx, w.cluster, client.Preconditions{UID: ptr.To(w.cluster.UID), ResourceVersion: ptr.To(w.cluster.ResourceVersion)})
	switch {
	case apierrors.IsConflict(err): // it may have taken the data over since it was seen
		return flow.Poll(time.Second, v1alpha1.ReasonDeleting, "The unfinished PostgresCluster "+w.cluster.Name+" has changed; it is looked at again.")
	case client.IgnoreNotFound(err) != nil:
		return flow.Retry(fmt.Errorf("delete PostgresCluster %s: %w", w.cluster.Name, err))
	}
	return flow.Poll(5*time.Second, v1alpha1.ReasonDeleting, "deleting the unfinished PostgresCluster "+w.cluster.Name)
}

// awaitClusterGone waits until nothing is left of it.
func (r *Reconciler) awaitClusterGone(_ context.Context, w *world) flow.Outcome {
	if !w.ours() || w.ran() {
		return flow.Next
	}
	return flow.Wait(v1alpha1.ReasonDeleting, "waiting until the unfinished PostgresCluster "+w.cluster.Name+" is gone")
}

// pinFailure records why it is given up: what told so may be gone when all is put away.
func (r *Reconciler) pinFailure(_ context.Context, w *world) flow.Outcome {
	if w.restore.Status.Failure != nil {
		return flow.Next
	}
	w.restore.Status.Failure = w.failure()
	return flow.Save(v1alpha1.ReasonDeleting, "giving up: "+w.restore.Status.Failure.Message)
}

// conclude says why it was given up, and what is left.
func (r *Reconciler) conclude(_ context.Context, w *world) flow.Outcome {
	failure, name := w.restore.Status.Failure, w.restore.Spec.Destination.ClusterName()
	message := failure.Message
	switch {
	case w.ours() && w.ran():
		message += fmt.Sprintf("; PostgresCluster %s has taken the restored data over already, and stays: delete it if it is not wanted", name)
	case w.restore.Status.Cluster != nil && failure.Reason != v1alpha1.ReasonClusterReplaced:
		message += fmt.Sprintf("; the unfinished PostgresCluster %s was deleted", name)
	}
	return flow.Stop(failure.Reason, message)
}

// awaitFirstBackup keeps asking for the first backup of the new lineage until it has ended.
func (r *Reconciler) awaitFirstBackup(_ context.Context, w *world) flow.Outcome {
	wanted := w.restore.Status.BackupRequest
	if wanted == nil {
		return flow.Next
	}
	if outcome, _ := protocol.BackupOutcomeFor(w.first, wanted); outcome == protocol.BackupPending && w.cluster != nil && w.cluster.UID == wanted.ClusterUID {
		return flow.Wait(v1alpha1.ReasonAwaitingBackup, "waiting for the first backup of the new cluster")
	}
	w.restore.Status.BackupRequest = nil
	return flow.Save(v1alpha1.ReasonCompleted, "the first backup has ended")
}

// expire deletes a Restore that ended long enough ago. The cluster stays.
func (r *Reconciler) expire(ctx context.Context, w *world) flow.Outcome {
	return flow.Expire(ctx, r.writer, w.restore, *w.restore.Status.CompletedAt, w.restore.Spec.TTLSecondsAfterFinished, w.now)
}
