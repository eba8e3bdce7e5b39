package restore

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
)

// confirmBy is until when a restore in place can be undone.
func (o *observed) confirmBy() time.Time {
	within := defaultConfirmWithin
	if wanted := o.restore.Spec.ConfirmWithin; wanted != nil {
		within = wanted.Duration
	}
	return o.restore.Status.RestoredAt.Add(within)
}

// decided is the decision that is being carried out; empty: none yet.
func (o *observed) decided() v1alpha1.RestoreDecision {
	if decided := o.restore.Status.Decided; decided != nil {
		return decided.Decision
	}
	return ""
}

// decide waits for a decision of a person, or for the end of the time for one, and records it before it is carried out.
func decide(_ context.Context, o *observed) flow.Outcome {
	status, by := &o.restore.Status, o.confirmBy()
	status.ConfirmBy = &metav1.Time{Time: by}
	switch {
	case o.discarding():
		return record(o, v1alpha1.DecisionConfirm, "the previous data was given up, and is in Backup "+status.SafetyBackup+
			", which no retention removes until you set its spec.hold to false")
	case o.deleting():
		return record(o, v1alpha1.DecisionConfirm, "the Restore was deleted")
	case o.restore.Spec.Decision != "":
		return record(o, o.restore.Spec.Decision, "spec.decision")
	case !o.now.Before(by):
		return record(o, v1alpha1.DecisionConfirm, "nobody decided within the time of spec.confirmWithin")
	case o.lock().Gone():
		return record(o, v1alpha1.DecisionConfirm, "the PostgresCluster was deleted")
	}
	if outcome, _ := protocol.BackupOutcomeFor(o.first, status.BackupRequest); outcome != protocol.BackupPending {
		status.BackupRequest = nil
	}
	return flow.Poll(by.Sub(o.now), v1alpha1.ReasonAwaitingConfirmation, awaitingConfirmation(o))
}

func record(o *observed, decision v1alpha1.RestoreDecision, why string) flow.Outcome {
	o.restore.Status.Decided = &v1alpha1.DecidedRestore{Decision: decision, Why: why, At: metav1.Time{Time: o.now}}
	if decision == v1alpha1.DecisionUndo {
		o.restore.Status.BackupRequest = nil // of data that is being given up
		return flow.Save(v1alpha1.ReasonUndoing, "The previous data is being brought back.")
	}
	return flow.Save(v1alpha1.ReasonConfirming, "The previous data is being given up.")
}

func awaitingConfirmation(o *observed) string {
	return fmt.Sprintf("%s Look at the data, then set spec.decision to Confirm or Undo. Without a decision it is confirmed at %s.",
		summary(o.restore), o.confirmBy().UTC().Format(time.RFC3339))
}

// requestUndo requests the volumes once more, if the cluster runs on what this Restore has written.
func (r *Reconciler) requestUndo(ctx context.Context, o *observed) flow.Outcome {
	if o.restore.Status.VolumeLockRequest != nil {
		return flow.Next
	}
	if outcome := undoable(o); !outcome.Finished() {
		return r.orGo(ctx, o, outcome)
	}
	return undoing(o.lock().Request(undoAttempt, nil))
}

// undoAttempt tells the request for the undo from the one for the restore.
const undoAttempt = 1

// undoing shows a step of the lock as one of the undo.
func undoing(outcome flow.Outcome) flow.Outcome {
	if !outcome.Finished() {
		outcome.Reason = v1alpha1.ReasonUndoing
	}
	return outcome
}

// undone: the cluster runs on the previous data, and nothing is requested any more.
func (o *observed) undone() bool { return o.restore.Status.UndoneAt != nil }

// orGo lets a Restore that is being deleted go where it would have to stop.
func (r *Reconciler) orGo(ctx context.Context, o *observed, outcome flow.Outcome) flow.Outcome {
	if outcome.Stopped() && o.deleting() {
		return flow.Run(ctx, o, releasePrevious, r.removeFinalizer)
	}
	return outcome
}

// undoable refuses to undo what can't be undone, while the cluster still serves.
func undoable(o *observed) flow.Outcome {
	status := o.restore.Status
	previous := status.Previous
	switch {
	case o.lock().Gone():
		return flow.Stop(v1alpha1.ReasonUndoImpossible, fmt.Sprintf("PostgresCluster %s was deleted, and its previous data with it.", status.Cluster.Name))
	case o.cluster.Status.DataGeneration != status.Plan.DataGeneration:
		return undoableAfter(o)
	case !slices.ContainsFunc(o.cluster.Status.Instances, func(i v1alpha1.InstanceStatus) bool { return i.Name == previous.Instance }):
		return flow.Stop(v1alpha1.ReasonUndoImpossible, fmt.Sprintf(
			"The previous data is on the volume of %s, and that instance no longer exists. The cluster goes on with the restored data.", previous.Instance))
	}
	return flow.Next
}

// undoableAfter waits for what has replaced the restored data to be undone, as long as that may be.
func undoableAfter(o *observed) flow.Outcome {
	now, plan, previous := o.cluster.Status, o.restore.Status.Plan, o.restore.Status.Previous
	never := func(why string) flow.Outcome {
		return flow.Stop(v1alpha1.ReasonUndoImpossible, fmt.Sprintf(
			"%s The previous data is still on the volume of %s, and is removed with this Restore.", why, previous.Instance))
	}
	switch {
	case slices.Contains(now.ReleasedDataGenerations, plan.DataGeneration):
		return never("The data that this Restore wrote can't come back, as what replaced it was confirmed.")
	case now.MajorVersion != plan.MajorVersion && protocol.LockAhead(o.cluster, o.restore.UID) == nil:
		return never(fmt.Sprintf("PostgresCluster %s runs PostgreSQL %d now, which can't go back to %d.", o.cluster.Name, now.MajorVersion, plan.MajorVersion))
	}
	return flow.Wait(v1alpha1.ReasonUndoing, fmt.Sprintf(
		"The data of PostgresCluster %s was replaced since, and it runs on data generation %s. This Restore can be undone when what replaced its data is undone.", o.cluster.Name, now.DataGeneration))
}

// awaitUndo waits until the cluster is stopped, and looks once more whether it can be undone.
func (r *Reconciler) awaitUndo(ctx context.Context, o *observed) flow.Outcome {
	status := &o.restore.Status
	if status.Handover != nil {
		return flow.Next
	}
	if o.lock().Gone() {
		return r.orGo(ctx, o, undoable(o))
	}
	if refusal := o.lock().Refusal(); refusal != nil {
		if o.cluster.DeletionTimestamp.IsZero() && o.lock().Response().StoppingSince != nil { // it could not be stopped this time
			status.VolumeLockRequest = nil
			return flow.Save(v1alpha1.ReasonUndoing, refusal.Message)
		}
		return r.undoImpossible(ctx, o, refusal.Message)
	}
	if outcome := o.lock().Await(); !outcome.Finished() {
		return undoing(outcome)
	}
	if o.cluster.Status.DataGeneration != status.Plan.DataGeneration {
		status.VolumeLockRequest = nil // requestUndo says why
		return flow.Save(v1alpha1.ReasonUndoing, "What the cluster runs on has changed meanwhile.")
	}
	instance := status.Previous.Instance
	if !slices.ContainsFunc(o.lock().Response().Volumes, func(v v1alpha1.LockedVolume) bool { return v.Instance == instance }) {
		return r.undoImpossible(ctx, o, fmt.Sprintf("The previous data is on the volume of %s, which the db-controller did not grant.", instance))
	}
	return flow.Next
}

// undoImpossible gives the volumes back for good: to request them again would stop the cluster again.
func (r *Reconciler) undoImpossible(ctx context.Context, o *observed, why string) flow.Outcome {
	o.restore.Status.VolumeLockRequest = nil
	return r.orGo(ctx, o, flow.Stop(v1alpha1.ReasonUndoImpossible, why+" The cluster goes on with the restored data."))
}

// handBack offers the previous data.
func handBack(_ context.Context, o *observed) flow.Outcome {
	return undoing(o.lock().HandBack())
}

// awaitBack waits until the cluster accepts connections on it.
func (r *Reconciler) awaitBack(ctx context.Context, o *observed) flow.Outcome {
	status := &o.restore.Status
	if o.lock().Gone() {
		return r.orGo(ctx, o, undoable(o))
	}
	if outcome := o.lock().AwaitRunning(0); !outcome.Finished() {
		return undoing(outcome)
	}
	status.UndoneAt = &metav1.Time{Time: o.now}
	o.lock().Withdraw()
	return flow.Save(v1alpha1.ReasonUndoing, "The cluster runs on its previous data.")
}

// releaseRestored has what this Restore wrote removed, where it wrote anything.
func releaseRestored(_ context.Context, o *observed) flow.Outcome {
	if o.restore.Status.Previous == nil {
		return flow.Next
	}
	return release(o, o.restore.Status.Plan.DataGeneration)
}

// releasePrevious has the previous data removed.
func releasePrevious(_ context.Context, o *observed) flow.Outcome {
	return release(o, o.restore.Status.Previous.DataGeneration)
}

// release asks the db-controller to have a data generation removed from the volumes, and waits until it has noted that.
func release(o *observed, generation string) flow.Outcome {
	status := &o.restore.Status
	switch {
	case o.lock().Gone() || !o.cluster.DeletionTimestamp.IsZero() || o.cluster.Status.DataGeneration == generation,
		protocol.Released(o.cluster, status.Release):
		status.Release = nil
		return flow.Next
	case status.Release == nil:
		if slices.Contains(o.cluster.Status.ReleasedDataGenerations, generation) {
			return flow.Next
		}
		status.Release = &v1alpha1.ReleaseRequest{Cluster: o.cluster.Name, ClusterUID: o.cluster.UID, DataGeneration: generation}
		return flow.Save(v1alpha1.ReasonConfirming, "Data generation "+generation+" is to be removed.")
	}
	return flow.Wait(v1alpha1.ReasonConfirming, "Waiting for the db-controller to have data generation "+generation+" removed.")
}

// concludeUndone says that the cluster is as it was.
func (r *Reconciler) concludeUndone(ctx context.Context, o *observed) flow.Outcome {
	if o.deleting() {
		return r.removeFinalizer(ctx, o)
	}
	return flow.Stop(v1alpha1.ReasonUndone, fmt.Sprintf(
		"PostgresCluster %s runs on its previous data, as it was when it was stopped for the restore.", o.restore.Status.Cluster.Name))
}

// finishConfirmed ends the Restore well.
func (r *Reconciler) finishConfirmed(ctx context.Context, o *observed) flow.Outcome {
	if o.deleting() {
		return r.removeFinalizer(ctx, o)
	}
	return flow.Next
}
