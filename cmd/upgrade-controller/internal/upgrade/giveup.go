package upgrade

import (
	"context"
	"fmt"
	"time"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/volumelock"
	"howdah.dev/howdah/pkg/workload"
)

// pinFailure records why the upgrade is given up, before anything is taken back: what told so may be deleted by then.
func (r *Reconciler) pinFailure(_ context.Context, o *observed) flow.Outcome {
	if o.upgrade.Status.Failure != nil {
		return flow.Next
	}
	o.upgrade.Status.Failure, o.upgrade.Status.BackupRequest = o.failure(), nil
	return flow.Save(v1alpha1.ReasonRollingBack, o.upgrade.Status.Failure.Message)
}

// stopJobs deletes the Jobs and waits until their pods are gone: only then may the volumes change hands.
func (r *Reconciler) stopJobs(ctx context.Context, o *observed) flow.Outcome {
	if outcome := r.deleteJobs(ctx, o); !outcome.Finished() {
		return outcome
	}
	if o.check.Exists || o.work.Exists || o.inspecting() {
		message := "Waiting until the pods of the Jobs are deleted."
		if o.work.Lost(o.now) {
			message += " " + workload.LostMessage
		}
		return flow.Poll(2*time.Second, v1alpha1.ReasonRollingBack, message)
	}
	return flow.Next
}

// deleteJobs deletes the Jobs without waiting; they have ended.
func (r *Reconciler) deleteJobs(ctx context.Context, o *observed) flow.Outcome {
	if err := (checker{r}).deleteCheck(ctx, o); err != nil {
		return flow.Retry(err)
	}
	if err := workload.Delete(ctx, r.Client, o.upgrade, workJob(o.upgrade), o.work); err != nil {
		return flow.Retry(err)
	}
	return linker{r}.deleteInspections(ctx, o)
}

func takeBack(_ context.Context, o *observed) flow.Outcome {
	if outcome := o.leadBack(); !outcome.Finished() {
		return outcome
	}
	return o.lock().TakeBack()
}

func awaitTakenBack(_ context.Context, o *observed) flow.Outcome {
	return o.lock().AwaitTakenBack()
}

func withdrawLock(_ context.Context, o *observed) flow.Outcome {
	return o.lock().Withdraw()
}

func awaitReturned(_ context.Context, o *observed) flow.Outcome {
	return o.lock().AwaitReturned()
}

// releaseGivenUp has what the upgrade wrote removed, where it may have written something: a copy of all data, which nobody has a use for. Where the
// volumes were refused after they had been granted, this status may be from a backup of etcd, and clients may have used that data before a person chose
// other data. Then it stays until a person deletes the Upgrade.
func releaseGivenUp(ctx context.Context, o *observed) flow.Outcome {
	status := o.status()
	refused := status.Failure != nil && status.Failure.Reason == v1alpha1.ReasonVolumeLockRefused
	if status.Previous == nil || refused && !o.deleting() {
		return flow.Next
	}
	return releaseNew(ctx, o)
}

// awaitServing waits until a cluster that was stopped for nothing accepts connections again.
func (r *Reconciler) awaitServing(_ context.Context, o *observed) flow.Outcome {
	status := &o.upgrade.Status
	if status.DownAt == nil || o.cluster == nil || !o.cluster.DeletionTimestamp.IsZero() || volumelock.Ready(o.cluster) {
		return flow.Next
	}
	return flow.Wait(v1alpha1.ReasonRollingBack, fmt.Sprintf("%s Waiting until PostgresCluster %s accepts connections again. It says: %s",
		status.Failure.Message, o.cluster.Name, volumelock.State(o.cluster)))
}

// conclude says why the upgrade was given up, and what the cluster runs.
func (r *Reconciler) conclude(_ context.Context, o *observed) flow.Outcome {
	status := &o.upgrade.Status
	failure := status.Failure
	switch {
	case o.cluster == nil, failure.Reason == v1alpha1.ReasonClusterReplaced:
		return flow.Stop(failure.Reason, failure.Message)
	case status.DownAt == nil:
		return flow.Stop(failure.Reason, notTouched(failure.Message, o.cluster.Name))
	case failure.Reason == v1alpha1.ReasonCancelled:
		return flow.Stop(failure.Reason, fmt.Sprintf("%s PostgreSQL %d runs on the previous data%s.", failure.Message, status.Plan.FromVersion, o.ledBackBy()))
	}
	return flow.Stop(v1alpha1.ReasonRolledBack, fmt.Sprintf("PostgreSQL %d runs on the previous data%s. %s", status.Plan.FromVersion, o.ledBackBy(), failure.Message))
}

func (r *Reconciler) removeFinalizer(ctx context.Context, o *observed) flow.Outcome {
	return flow.RemoveFinalizer(ctx, r.Client, o.upgrade, finalizer)
}

// releaseLeft has the previous data removed where it could not be brought back: nothing leads to it any more.
func (r *Reconciler) releaseLeft(ctx context.Context, o *observed) flow.Outcome {
	if o.cluster == nil || o.decided() != v1alpha1.UpgradeRollBack || o.undone() {
		return flow.Next
	}
	return releasePrevious(ctx, o)
}

// expire deletes an Upgrade whose time after its end is over: after that of the upgrade, or of what was decided about it.
func (r *Reconciler) expire(ctx context.Context, o *observed) flow.Outcome {
	ended := *o.upgrade.Status.CompletedAt
	if settled := o.upgrade.Status.SettledAt; settled != nil && settled.After(ended.Time) {
		ended = *settled
	}
	return flow.Expire(ctx, r.Client, o.upgrade, ended, o.upgrade.Spec.TTLSecondsAfterFinished, o.now)
}
