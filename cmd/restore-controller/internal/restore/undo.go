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
func (w *world) confirmBy() time.Time {
	within := defaultConfirmWithin
	if wanted := w.restore.Spec.ConfirmWithin; wanted != nil {
		within = wanted.Duration
	}
	return w.restore.Status.RestoredAt.Add(within)
}

// decided is the decision that is being carried out; empty: none yet.
func (w *world) decided() v1alpha1.RestoreDecision {
	if decided := w.restore.Status.Decided; decided != nil {
		return decided.Decision
	}
	return ""
}

// decide waits for a decision of a person, or for the end of the time for one, and records it before it is acted on.
func (r *Reconciler) decide(_ context.Context, w *world) flow.Outcome {
	status, by := &w.restore.Status, w.confirmBy()
	status.ConfirmBy = &metav1.Time{Time: by}
	switch {
	case w.discarding():
		return record(w, v1alpha1.DecisionConfirm, "the data of before was given up, and is in Backup "+status.SafetyBackup+
			", which is held: set its spec.hold to false when you are sure")
	case w.deleting():
		return record(w, v1alpha1.DecisionConfirm, "the Restore is deleted")
	case w.restore.Spec.Decision != "":
		return record(w, w.restore.Spec.Decision, "spec.decision")
	case !w.now.Before(by):
		return record(w, v1alpha1.DecisionConfirm, "nobody decided within the time of spec.confirmWithin")
	case w.clusterGone():
		return record(w, v1alpha1.DecisionConfirm, "the PostgresCluster is gone")
	}
	if outcome, _ := protocol.BackupOutcomeFor(w.first, status.BackupRequest); outcome != protocol.BackupPending {
		status.BackupRequest = nil
	}
	return flow.Poll(by.Sub(w.now), v1alpha1.ReasonAwaitingConfirmation, awaitingConfirmation(w))
}

func record(w *world, decision v1alpha1.RestoreDecision, why string) flow.Outcome {
	w.restore.Status.Decided = &v1alpha1.DecidedRestore{Decision: decision, Why: why, At: metav1.Time{Time: w.now}}
	if decision == v1alpha1.DecisionUndo {
		w.restore.Status.BackupRequest = nil // of data that is being given up
		return flow.Save(v1alpha1.ReasonUndoing, "the data of before is being brought back")
	}
	return flow.Save(v1alpha1.ReasonConfirming, "the data of before is being given up")
}

func awaitingConfirmation(w *world) string {
	return fmt.Sprintf("%s; look at the data, then set spec.decision to Confirm or Undo; without a decision it is confirmed at %s",
		summary(w.restore), w.confirmBy().UTC().Format(time.RFC3339))
}

// askUndo asks for the volumes once more, if the cluster runs on what this Restore has made.
func (r *Reconciler) askUndo(ctx context.Context, w *world) flow.Outcome {
	status := &w.restore.Status
	if status.VolumeLockRequest != nil {
		return flow.Next
	}
	if outcome := undoable(w); !outcome.Finished() {
		return r.orGo(ctx, w, outcome)
	}
	status.VolumeLockRequest = &v1alpha1.VolumeLockRequest{
		Cluster: status.Cluster.Name, ClusterUID: status.Cluster.UID, Token: undoToken(w), Mode: v1alpha1.VolumeLockStopped,
	}
	return flow.Save(v1alpha1.ReasonUndoing, "asking the db-controller for the volumes")
}

func undoToken(w *world) string { return protocol.Token(w.restore.UID, 1) }

// undone: the cluster runs on the data of before, and nothing is asked any more.
func (w *world) undone() bool { return w.restore.Status.UndoneAt != nil }

// orGo lets a Restore that is being deleted go where it would have to stop.
func (r *Reconciler) orGo(ctx context.Context, w *world, outcome flow.Outcome) flow.Outcome {
	if outcome.Stopped() && w.deleting() {
		return flow.Run(ctx, w, r.letGoOfBefore, r.removeFinalizer)
	}
	return outcome
}

// undoable refuses to undo what can't be undone, while the cluster still serves.
func undoable(w *world) flow.Outcome {
	status := w.restore.Status
	before := status.Previous
	switch {
	case w.clusterGone():
		return flow.Stop(v1alpha1.ReasonUndoImpossible, fmt.Sprintf("PostgresCluster %s is gone, and its data of before with it", status.Cluster.Name))
	case w.cluster.Status.DataGeneration != status.Plan.DataGeneration:
		return undoableAfter(w)
	case !slices.ContainsFunc(w.cluster.Status.Instances, func(i v1alpha1.InstanceStatus) bool { return i.Name == before.Instance }):
		return flow.Stop(v1alpha1.ReasonUndoImpossible, fmt.Sprintf(
			"the data of before is on the volume of %s, and that instance is not there any more; the cluster goes on with the restored data", before.Instance))
	}
	return flow.Next
}

// undoableAfter waits for what has replaced the restored data to be undone, as long as that may be.
func undoableAfter(w *world) flow.Outcome {
	now, plan, before := w.cluster.Status, w.restore.Status.Plan, w.restore.Status.Previous
	never := func(why string) flow.Outcome {
		return flow.Stop(v1alpha1.ReasonUndoImpossible, fmt.Sprintf(
			"%s; the data of before is on the volume of %s still, and is removed with this Restore", why, before.Instance))
	}
	switch {
	case slices.Contains(now.ReleasedDataGenerations, plan.DataGeneration):
		return never("the data that this restore made can't come back, as what replaced it was confirmed")
	case now.MajorVersion != plan.MajorVersion && protocol.LockAhead(w.cluster, w.restore.UID) == nil:
		return never(fmt.Sprintf("%s is PostgreSQL %d now, which can't go back to %d", w.cluster.Name, now.MajorVersion, plan.MajorVersion))
	}
	return flow.Wait(v1alpha1.ReasonUndoing, fmt.Sprintf(
		"the data of %s was replaced since (it runs on data generation %s): this restore can be undone when what replaced it is undone", w.cluster.Name, now.DataGeneration))
}

// awaitUndo waits until the cluster is stopped.
func (r *Reconciler) awaitUndo(ctx context.Context, w *world) flow.Outcome {
	status := &w.restore.Status
	if status.Handover != nil {
		return flow.Next
	}
	if w.clusterGone() {
		return r.orGo(ctx, w, undoable(w))
	}
	answer := w.answer()
	switch {
	case answer == nil:
		return flow.Wait(v1alpha1.ReasonUndoing, "waiting for the db-controller to stop the cluster")
	case answer.State == v1alpha1.VolumeLockRefused:
		status.VolumeLockRequest = nil
		return r.orGo(ctx, w, flow.Stop(v1alpha1.ReasonUndoImpossible, "the db-controller refuses the volumes: "+answer.Message))
	case answer.State == v1alpha1.VolumeLockQueued:
		return flow.Wait(v1alpha1.ReasonUndoing, orElse(answer.Message, "waiting for the db-controller to stop the cluster"))
	case w.cluster.Status.DataGeneration != status.Plan.DataGeneration || !grants(answer, status.Previous.Instance):
		status.VolumeLockRequest = nil // askUndo says why
		return flow.Save(v1alpha1.ReasonUndoing, "what the cluster runs on has changed meanwhile")
	}
	return flow.Next
}

func grants(answer *v1alpha1.VolumeLock, instance string) bool {
	return slices.ContainsFunc(answer.Volumes, func(v v1alpha1.LockedVolume) bool { return v.Instance == instance })
}

// handBack offers the data of before.
func (r *Reconciler) handBack(_ context.Context, w *world) flow.Outcome {
	status := &w.restore.Status
	if status.Handover != nil {
		return flow.Next
	}
	status.Handover = handoverOf(status.Previous, status.VolumeLockRequest.Token)
	return flow.Save(v1alpha1.ReasonUndoing, "the data of before is handed over")
}

// awaitBack waits until the cluster takes connections on it.
func (r *Reconciler) awaitBack(ctx context.Context, w *world) flow.Outcome {
	status := &w.restore.Status
	if w.clusterGone() {
		return r.orGo(ctx, w, undoable(w))
	}
	if protocol.Adopted(w.cluster, w.restore.UID, status.VolumeLockRequest, status.Handover) && clusterReady(w.cluster) {
		status.UndoneAt = &metav1.Time{Time: w.now}
		status.VolumeLockRequest, status.Handover = nil, nil
		return flow.Save(v1alpha1.ReasonUndoing, "the cluster runs on the data of before")
	}
	return flow.Wait(v1alpha1.ReasonUndoing, "waiting until the cluster takes connections on the data of before; it says "+stateOf(w.cluster))
}

// letGoOfRestored has what this Restore wrote removed, where it wrote anything.
func (r *Reconciler) letGoOfRestored(_ context.Context, w *world) flow.Outcome {
	if w.restore.Status.Previous == nil {
		return flow.Next
	}
	return letGo(w, w.restore.Status.Plan.DataGeneration)
}

// letGoOfBefore has the data of before removed.
func (r *Reconciler) letGoOfBefore(_ context.Context, w *world) flow.Outcome {
	return letGo(w, w.restore.Status.Previous.DataGeneration)
}

// letGo asks the db-controller to have a data generation removed from the volumes, and waits until it has noted that.
func letGo(w *world, generation string) flow.Outcome {
	status := &w.restore.Status
	switch {
	case w.clusterGone() || !w.cluster.DeletionTimestamp.IsZero() || w.cluster.Status.DataGeneration == generation,
		protocol.Released(w.cluster, status.Release):
		status.Release = nil
		return flow.Next
	case status.Release == nil:
		if slices.Contains(w.cluster.Status.ReleasedDataGenerations, generation) {
			return flow.Next
		}
		status.Release = &v1alpha1.ReleaseRequest{Cluster: w.cluster.Name, ClusterUID: w.cluster.UID, DataGeneration: generation}
		return flow.Save(v1alpha1.ReasonConfirming, "having data generation "+generation+" removed")
	}
	return flow.Wait(v1alpha1.ReasonConfirming, "waiting for the db-controller to have data generation "+generation+" removed")
}

// concludeUndone says that all is as before.
func (r *Reconciler) concludeUndone(ctx context.Context, w *world) flow.Outcome {
	if w.deleting() {
		return r.removeFinalizer(ctx, w)
	}
	return flow.Stop(v1alpha1.ReasonUndone, fmt.Sprintf(
		"PostgresCluster %s runs on its data of before, as it was when it was stopped for the restore", w.restore.Status.Cluster.Name))
}

// finishConfirmed ends the Restore well.
func (r *Reconciler) finishConfirmed(ctx context.Context, w *world) flow.Outcome {
	if w.deleting() {
		return r.removeFinalizer(ctx, w)
	}
	return flow.Next
}
