package drill

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
)

// quiet are the parameters of a copy that nobody shall notice: a subscription in it would take the changes that are for
// the subscriber it is a copy of, and pg_cron would do its jobs once more.
var quiet = map[string]v1alpha1.ParameterValue{
	"max_logical_replication_workers": "0",
	"cron.launch_active_jobs":         "off",
}

// newRestore is the Restore of a drill. It belongs to the repository, and its cluster to it.
func newRestore(repo *v1alpha1.BackupRepository, run *v1alpha1.DrillRun) *v1alpha1.Restore {
	spec := repo.Spec.Drill
	restore := &v1alpha1.Restore{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: repo.Namespace, Name: run.Name,
			Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy},
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(repo, v1alpha1.GroupVersion.WithKind(v1alpha1.KindBackupRepository)),
			},
		},
		Spec: v1alpha1.RestoreSpec{
			Source: v1alpha1.RestoreSource{Cluster: &v1alpha1.ClusterSource{
				Name: spec.Cluster.Name, Repository: &v1alpha1.LocalReference{Name: repo.Name},
			}},
			Destination: v1alpha1.RestoreDestination{NewCluster: &v1alpha1.NewCluster{
				Name: run.Name, Temporary: true, SuperuserAccess: ptr.To(true), Parameters: quiet,
				Storage: spec.Storage, Resources: spec.Resources,
			}},
		},
	}
	if run.TargetTime != "" {
		restore.Spec.Target = &v1alpha1.RestoreTarget{Time: run.TargetTime}
	}
	return restore
}

// ensureRestore makes the Restore, and records which one it is.
func (r *Reconciler) ensureRestore(ctx context.Context, o *observed) flow.Outcome {
	run := o.underWay()
	if o.restore != nil {
		if run.RestoreUID != "" {
			return flow.Next
		}
		run.RestoreUID = o.restore.UID
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
	run, status := o.underWay(), &o.restore.Status
	condition := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionSucceeded)
	switch {
	case condition == nil:
		return flow.Wait(v1alpha1.ReasonRunning, fmt.Sprintf("The restore-controller has not looked at Restore %s yet.", run.Name))
	case condition.Status != metav1.ConditionTrue || status.CompletedAt == nil:
		return flow.Wait(v1alpha1.ReasonRunning, fmt.Sprintf("Restore %s: %s", run.Name, condition.Message))
	case run.RestoreSeconds > 0:
		return flow.Next
	}
	took := status.CompletedAt.Sub(o.restore.CreationTimestamp.Time)
	run.RestoreSeconds = max(1, int64(took.Round(time.Second).Seconds()))
	if status.Plan != nil {
		run.BackupID = status.Plan.BackupID
	}
	if status.Reached != nil {
		run.LastCommit = status.Reached.LastCommit
	}
	return flow.Save(v1alpha1.ReasonRunning, fmt.Sprintf("PostgresCluster %s is restored.", run.Name))
}

// removeRestore deletes the Restore. What it has made goes with it, whatever it was at.
func (r *Reconciler) removeRestore(ctx context.Context, o *observed) flow.Outcome {
	run := o.underWay()
	switch {
	case o.restore == nil:
		return flow.Next
	case run.RestoreUID == "":
		run.RestoreUID = o.restore.UID // by which its cluster is known once it is deleted
		return flow.Save(v1alpha1.ReasonDeleting, "Deleting what the drill created.")
	case o.restore.DeletionTimestamp.IsZero():
		err := r.Client.Delete(ctx, o.restore, client.Preconditions{UID: ptr.To(o.restore.UID)})
		if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return flow.Retry(fmt.Errorf("delete Restore %s: %w", run.Name, err))
		}
	}
	return flow.Poll(lookAgain, v1alpha1.ReasonDeleting, fmt.Sprintf("Deleting Restore %s and its PostgresCluster.", run.Name))
}

// awaitClusterGone waits until nothing is left of the restored cluster, which goes with its owner.
func (r *Reconciler) awaitClusterGone(_ context.Context, o *observed) flow.Outcome {
	if o.cluster == nil {
		return flow.Next
	}
	return flow.Poll(lookAgain, v1alpha1.ReasonDeleting, fmt.Sprintf("Waiting until PostgresCluster %s is deleted.", o.cluster.Name))
}

// putAway ends a drill of which nothing is left.
func (r *Reconciler) putAway(_ context.Context, o *observed) flow.Outcome {
	o.repo.Status.Drill.UnderWay = nil
	return flow.Save("", "")
}
