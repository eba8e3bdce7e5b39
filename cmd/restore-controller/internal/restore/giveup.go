package restore

import (
	"context"
	"fmt"
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
func (r *Reconciler) stopJob(ctx context.Context, o *observed) flow.Outcome {
	if !o.job.Exists || o.job.Ended() {
		return flow.Next
	}
	return r.deleteJob(ctx, o, "The Job is being stopped.")
}

// deleteJob deletes the Job and waits: it still exists as long as one of its pods does.
func (r *Reconciler) deleteJob(ctx context.Context, o *observed, why string) flow.Outcome {
	if err := workload.Delete(ctx, r.Client, o.restore, jobName(o.restore), o.job); err != nil {
		return flow.Retry(err)
	}
	if o.job.Lost(o.now) {
		why += " " + workload.LostMessage
	}
	return flow.Poll(5*time.Second, v1alpha1.ReasonRunning, why)
}

func withdrawLock(_ context.Context, o *observed) flow.Outcome {
	return o.lock().Withdraw()
}

func awaitReturned(_ context.Context, o *observed) flow.Outcome {
	return o.lock().AwaitReturned()
}

// deleteUnfinished deletes the cluster that this Restore has created and that never ran.
func (r *Reconciler) deleteUnfinished(ctx context.Context, o *observed) flow.Outcome {
	if !o.ours() || o.ran() || !o.cluster.DeletionTimestamp.IsZero() {
		return flow.Next
	}
	err := r.Client.Delete(ctx, o.cluster, client.Preconditions{UID: ptr.To(o.cluster.UID), ResourceVersion: ptr.To(o.cluster.ResourceVersion)})
	switch {
	case apierrors.IsConflict(err): // it may have taken the data over since it was seen
		return flow.Poll(time.Second, v1alpha1.ReasonDeleting, "The unfinished PostgresCluster "+o.cluster.Name+" has changed; it is looked at again.")
	case client.IgnoreNotFound(err) != nil:
		return flow.Retry(fmt.Errorf("delete PostgresCluster %s: %w", o.cluster.Name, err))
	}
	return flow.Poll(5*time.Second, v1alpha1.ReasonDeleting, "The unfinished PostgresCluster "+o.cluster.Name+" is being deleted.")
}

// awaitClusterDeleted waits until nothing is left of it.
func awaitClusterDeleted(_ context.Context, o *observed) flow.Outcome {
	if !o.ours() || o.ran() {
		return flow.Next
	}
	return flow.Wait(v1alpha1.ReasonDeleting, "Waiting until the unfinished PostgresCluster "+o.cluster.Name+" is deleted.")
}

// pinFailure records why the restore is given up, before anything is taken back: what told so may be deleted by then.
func pinFailure(_ context.Context, o *observed) flow.Outcome {
	if o.restore.Status.Failure != nil {
		return flow.Next
	}
	o.restore.Status.Failure = o.failure()
	return flow.Save(v1alpha1.ReasonRollingBack, o.restore.Status.Failure.Message)
}

// conclude says why it was given up, and what is left.
func conclude(_ context.Context, o *observed) flow.Outcome {
	failure, name := o.restore.Status.Failure, o.restore.Spec.Destination.ClusterName()
	message := failure.Message
	switch {
	case o.ours() && o.ran():
		message += fmt.Sprintf(" PostgresCluster %s already runs on the restored data, and stays. Delete it if you don't need it.", name)
	case o.restore.Status.Cluster != nil && failure.Reason != v1alpha1.ReasonClusterReplaced:
		message += fmt.Sprintf(" The unfinished PostgresCluster %s was deleted.", name)
	}
	return flow.Stop(failure.Reason, message)
}

// awaitFirstBackup keeps the request for the first backup of the new lineage until that has ended.
func awaitFirstBackup(_ context.Context, o *observed) flow.Outcome {
	request := o.restore.Status.BackupRequest
	if request == nil {
		return flow.Next
	}
	if outcome, _ := protocol.BackupOutcomeFor(o.first, request); outcome == protocol.BackupPending && o.cluster != nil && o.cluster.UID == request.ClusterUID {
		return flow.Wait(v1alpha1.ReasonAwaitingBackup, "Waiting for the first backup of the restored data.")
	}
	o.restore.Status.BackupRequest = nil
	return flow.Save(v1alpha1.ReasonCompleted, "The first backup has ended.")
}

// expire deletes a Restore that ended long enough ago. The cluster stays.
func (r *Reconciler) expire(ctx context.Context, o *observed) flow.Outcome {
	return flow.Expire(ctx, r.Client, o.restore, *o.restore.Status.CompletedAt, o.restore.Spec.TTLSecondsAfterFinished, o.now)
}
