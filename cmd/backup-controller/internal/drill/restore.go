package drill

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/clustercopy"
	"howdah.dev/howdah/pkg/flow"
)

// newRestore is the Restore of a drill. It belongs to the repository, and its cluster to it.
func newRestore(repo *v1alpha1.BackupRepository, run *v1alpha1.DrillRun) *v1alpha1.Restore {
	spec := repo.Spec.Drill
	target := (*v1alpha1.RestoreTarget)(nil)
	if run.TargetTime != "" {
		target = &v1alpha1.RestoreTarget{Time: run.TargetTime}
	}
	return clustercopy.Copy{
		Owner: repo, Kind: v1alpha1.KindBackupRepository, Name: run.Name, Source: clustercopy.OfCluster(spec.Cluster.Name, repo.Name),
		Target: target, Storage: spec.Storage, Resources: spec.Resources, AcceptRecorded: spec.AcceptRecorded,
	}.Restore()
}

// ensureRestore makes the Restore, and records which one it is.
func (r *Reconciler) ensureRestore(ctx context.Context, o *observed) flow.Outcome {
	run := o.underWay()
	if o.copy.Restore != nil {
		if run.RestoreUID != "" {
			return flow.Next
		}
		run.RestoreUID = o.copy.Restore.UID
		return flow.Save(v1alpha1.ReasonRunning, fmt.Sprintf("Restore %s was created.", run.Name))
	}
	switch underWay, err := r.stillUnderWay(ctx, o); {
	case err != nil:
		return flow.Retry(err)
	case !underWay:
		return flow.Poll(cacheLag, "", "")
	}
	err := r.Client.Create(ctx, newRestore(o.repo, run))
	switch {
	case apierrors.IsInvalid(err):
		o.end(v1alpha1.DrillFailed, v1alpha1.ReasonRestoreFailed, fmt.Sprintf("The API server refuses the Restore: %v. Correct spec.drill.", err))
		return flow.Save(v1alpha1.ReasonRestoreFailed, run.Message)
	case err != nil && !apierrors.IsAlreadyExists(err): // whose it is is seen in the next pass
		return flow.Retry(fmt.Errorf("create Restore %s: %w", run.Name, err))
	}
	return flow.Save(v1alpha1.ReasonRunning, fmt.Sprintf("Restore %s is being created.", run.Name))
}

// stillUnderWay reports that the API server itself says so of the drill: a cache that is behind may show one that is over
// and put away, and nobody would delete what is made for that.
func (r *Reconciler) stillUnderWay(ctx context.Context, o *observed) (bool, error) {
	now := &v1alpha1.BackupRepository{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(o.repo), now); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	fresh := observed{repo: now}
	run := fresh.underWay()
	return now.UID == o.repo.UID && !fresh.leaving() && run != nil && run.Name == o.underWay().Name && run.Outcome == "", nil
}

// awaitRestore waits for the restored cluster, and records how long that took. A failure is ending's.
func (r *Reconciler) awaitRestore(_ context.Context, o *observed) flow.Outcome {
	run := o.underWay()
	seconds, message := o.copy.Seconds()
	switch {
	case seconds == 0:
		return flow.Wait(v1alpha1.ReasonRunning, message)
	case run.RestoreSeconds > 0:
		return flow.Next
	}
	run.RestoreSeconds = seconds
	run.BackupID, run.LastCommit = o.copy.Data()
	return flow.Save(v1alpha1.ReasonRunning, fmt.Sprintf("PostgresCluster %s is restored.", run.Name))
}

// removeRestore deletes the Restore. What it has made goes with it, whatever it was at.
func (r *Reconciler) removeRestore(ctx context.Context, o *observed) flow.Outcome {
	run := o.underWay()
	switch {
	case o.copy.Restore == nil:
		return flow.Next
	case run.RestoreUID == "":
		run.RestoreUID = o.copy.Restore.UID // by which its cluster is known once it is deleted
		return flow.Save(v1alpha1.ReasonDeleting, "Deleting what the drill created.")
	}
	if err := clustercopy.Delete(ctx, r.Client, o.copy.Restore); err != nil {
		return flow.Retry(err)
	}
	return flow.Poll(lookAgain, v1alpha1.ReasonDeleting, fmt.Sprintf("Deleting Restore %s and its PostgresCluster.", run.Name))
}

// awaitClusterGone waits until nothing is left of the restored cluster, which goes with its owner.
func (r *Reconciler) awaitClusterGone(_ context.Context, o *observed) flow.Outcome {
	if o.copy.Cluster == nil {
		return flow.Next
	}
	return flow.Poll(lookAgain, v1alpha1.ReasonDeleting, fmt.Sprintf("Waiting until PostgresCluster %s is deleted.", o.copy.Cluster.Name))
}

// putAway ends a drill of which nothing is left.
func (r *Reconciler) putAway(_ context.Context, o *observed) flow.Outcome {
	o.repo.Status.Drill.UnderWay = nil
	return flow.Save("", "")
}
