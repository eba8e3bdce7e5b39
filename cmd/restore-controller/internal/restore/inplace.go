package restore

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
)

const (
	// startLimit is how long the cluster may take to become Ready on the restored data before that is taken back.
	startLimit = 10 * time.Minute
	// defaultConfirmWithin is how long a restore in place can be undone where nothing is said.
	defaultConfirmWithin = 24 * time.Hour
	// spareBytes are left on the volume beside the backup, for WAL that is being replayed; the Job asks for the same.
	spareBytes = 64 << 20
)

// planInPlace is the algorithm for a cluster that is there. Until it runs on the restored data everything leads back to
// the data of before; from then on a decision does, which is recorded before anything of it is done.
func (r *Reconciler) planInPlace(w *world) []step {
	giveUp := []step{r.stopJob, r.takeBack, r.awaitTakenBack, r.withdrawHold, r.awaitHoldGone, r.letGoOfRestored}
	switch {
	case w.deleting() && w.ended() && w.decided() == v1alpha1.DecisionUndo && !w.undone(): // it could not be undone
		return []step{r.letGoOfBefore, r.removeFinalizer}
	case w.deleting() && w.ended():
		return []step{r.removeFinalizer}
	case w.ended():
		return []step{r.awaitFirstBackup, r.expire}
	case w.undone():
		return []step{r.awaitHoldGone, r.letGoOfRestored, r.concludeUndone}
	case w.decided() == v1alpha1.DecisionUndo:
		return []step{r.askUndo, r.awaitUndo, r.handBack, r.awaitBack}
	case w.decided() == v1alpha1.DecisionConfirm:
		return []step{r.letGoOfBefore, r.finishConfirmed}
	case w.restored():
		return []step{r.decide}
	case w.deleting() && (!w.discarding() || w.failure() != nil):
		return append(giveUp, r.removeFinalizer)
	case w.failure() != nil:
		return append(append([]step{r.pinFailure}, giveUp...), r.concludeInPlace)
	}
	steps := []step{r.ensureFinalizer, r.preflight, r.preflightInPlace, r.pinPlan}
	if w.planOnly() {
		return steps
	}
	return append(steps,
		r.askSafetyBackup, r.awaitSafetyBackup,
		r.askHold, r.awaitHold, r.pinBefore,
		r.runJob, r.awaitJob, r.handOver, r.awaitRestored,
	)
}

// preflightInPlace refuses a cluster that can't be restored in place. Each policy is a pure function of the world.
func (r *Reconciler) preflightInPlace(_ context.Context, w *world) flow.Outcome {
	if w.restore.Status.Plan != nil {
		return flow.Next
	}
	for _, policy := range []func(*world) flow.Outcome{clusterIsThere, clusterStays, clusterHasData, clusterIsAwake, nobodyElseWorks} {
		if outcome := policy(w); !outcome.Finished() {
			return outcome
		}
	}
	return flow.Next
}

func clusterIsThere(w *world) flow.Outcome {
	if w.cluster != nil {
		return flow.Next
	}
	name := w.restore.Spec.Destination.ClusterName()
	return missing(w, v1alpha1.ReasonClusterNotFound, fmt.Sprintf(
		"there is no PostgresCluster %s in namespace %s; to bring one back that is gone write spec.destination.newCluster.name: %s", name, w.restore.Namespace, name))
}

func clusterStays(w *world) flow.Outcome {
	if w.cluster.DeletionTimestamp.IsZero() {
		return flow.Next
	}
	return flow.Stop(v1alpha1.ReasonClusterReplaced, fmt.Sprintf(
		"PostgresCluster %s is being deleted; restore into a new cluster: spec.destination.newCluster", w.cluster.Name))
}

func clusterHasData(w *world) flow.Outcome {
	if w.cluster.Status.SystemIdentifier != "" && w.cluster.Status.DataGeneration != "" {
		return flow.Next
	}
	return flow.Wait(v1alpha1.ReasonClusterNotReady, fmt.Sprintf("PostgresCluster %s has no data yet; it says %s", w.cluster.Name, stateOf(w.cluster)))
}

func clusterIsAwake(w *world) flow.Outcome {
	if !w.cluster.Spec.Hibernate {
		return flow.Next
	}
	return flow.Wait(v1alpha1.ReasonClusterNotReady, fmt.Sprintf(
		"PostgresCluster %s sleeps; set its spec.hibernate to false, and the restore begins", w.cluster.Name))
}

// nobodyElseWorks keeps this one out of another's way; the hold would queue it, but its plan would be out of date then.
func nobodyElseWorks(w *world) flow.Outcome {
	if before := protocol.LockAhead(w.cluster, w.restore.UID); before != nil {
		return flow.Wait(v1alpha1.ReasonQueued, fmt.Sprintf("%s %s works on %s first", before.Kind, before.Name, w.cluster.Name))
	}
	return flow.Next
}

// fitsInPlace refuses a backup that can't take the place of the cluster's data.
func fitsInPlace(w *world, head *backup.Head) flow.Outcome {
	status := w.cluster.Status
	const instead = "restore it into a new cluster: spec.destination.newCluster"
	switch {
	case int32(head.PGMajor) != status.MajorVersion:
		return flow.Stop(v1alpha1.ReasonAnotherDatabase, fmt.Sprintf(
			"backup %s is of PostgreSQL %d, and %s runs %d; %s", head.ID, head.PGMajor, w.cluster.Name, status.MajorVersion, instead))
	case head.SystemIdentifier != status.SystemIdentifier:
		return flow.Stop(v1alpha1.ReasonAnotherDatabase, fmt.Sprintf(
			"backup %s is of another database (system identifier %s) than the one of %s (%s); %s",
			head.ID, head.SystemIdentifier, w.cluster.Name, status.SystemIdentifier, instead))
	}
	return hasRoom(w, head.Totals.LogicalBytes+spareBytes)
}

// askSafetyBackup asks for a backup of what is there, before anything is touched.
func (r *Reconciler) askSafetyBackup(_ context.Context, w *world) flow.Outcome {
	status := &w.restore.Status
	if !w.restore.Spec.Destination.InPlace.SafetyBackup || status.SafetyBackup != "" || status.BackupRequest != nil || status.VolumeLockRequest != nil {
		return flow.Next
	}
	status.BackupRequest = &v1alpha1.BackupRequest{
		Cluster: status.Cluster.Name, ClusterUID: status.Cluster.UID, Token: protocol.Token(w.restore.UID, 0), Purpose: v1alpha1.PurposeSafety,
		Hold: status.Plan != nil && status.Plan.DiscardsPrevious, // else there is undo
	}
	return flow.Save(v1alpha1.ReasonAwaitingBackup, "asking for the safety backup")
}

// awaitSafetyBackup waits for it, while the cluster serves. Its failure is failure's.
func (r *Reconciler) awaitSafetyBackup(_ context.Context, w *world) flow.Outcome {
	status := &w.restore.Status
	if status.BackupRequest == nil || status.VolumeLockRequest != nil {
		return flow.Next
	}
	outcome, message := protocol.BackupOutcomeFor(w.first, status.BackupRequest)
	if outcome != protocol.BackupSucceeded {
		return flow.Wait(v1alpha1.ReasonAwaitingBackup, "the safety backup is being taken, and nothing is touched before: "+message)
	}
	status.SafetyBackup, status.BackupRequest = w.first.Name, nil
	return flow.Save(v1alpha1.ReasonAwaitingVolumeLock, "the safety backup is there: "+w.first.Name)
}

// pinBefore records what to go back to, before anything is written.
func (r *Reconciler) pinBefore(_ context.Context, w *world) flow.Outcome {
	if w.restore.Status.Previous != nil {
		return flow.Next
	}
	now := w.cluster.Status
	w.restore.Status.Previous = &v1alpha1.PreviousData{
		DataGeneration: now.DataGeneration, Instance: w.answer().Volumes[0].Instance,
		SystemIdentifier: now.SystemIdentifier, MajorVersion: now.MajorVersion, Image: now.Image,
	}
	if w.discarding() {
		return flow.Save(v1alpha1.ReasonRunning, "the cluster is stopped; its data generation "+now.DataGeneration+" is given up, and changed where it is")
	}
	return flow.Save(v1alpha1.ReasonRunning, "the cluster is stopped; its data generation "+now.DataGeneration+" is kept")
}

// awaitRestored waits until the cluster takes connections on the restored data. From then on it can be undone.
func (r *Reconciler) awaitRestored(_ context.Context, w *world) flow.Outcome {
	status := &w.restore.Status
	if !protocol.Adopted(w.cluster, w.restore.UID, status.VolumeLockRequest, status.Handover) || !clusterReady(w.cluster) {
		return flow.Poll(time.Minute, v1alpha1.ReasonAwaitingAdoption,
			"the data is restored; waiting until the cluster takes connections on it; it says "+stateOf(w.cluster))
	}
	if w.cluster.Spec.Archive != nil {
		status.BackupRequest = &v1alpha1.BackupRequest{
			Cluster: w.cluster.Name, ClusterUID: w.cluster.UID, Token: status.VolumeLockRequest.Token, Purpose: v1alpha1.PurposeFirst,
		}
	}
	status.RestoredAt = &metav1.Time{Time: w.now}
	status.ConfirmBy = &metav1.Time{Time: w.confirmBy()}
	status.VolumeLockRequest, status.Handover = nil, nil
	return flow.Save(v1alpha1.ReasonAwaitingConfirmation, awaitingConfirmation(w))
}

// takeBack hands the data of before over where the restored data was.
func (r *Reconciler) takeBack(_ context.Context, w *world) flow.Outcome {
	status := &w.restore.Status
	if status.Handover == nil || status.Previous == nil || w.clusterGone() || w.discarding() || status.Handover.DataGeneration == status.Previous.DataGeneration {
		return flow.Next
	}
	status.Handover = handoverOf(status.Previous, status.Handover.Token)
	return flow.Save(v1alpha1.ReasonUndoing, "handing the data of before back")
}

// awaitTakenBack waits until the db-controller says that it has taken it, before the hold is given up. That it still has it says
// nothing: it may be about to take the restored data.
func (r *Reconciler) awaitTakenBack(_ context.Context, w *world) flow.Outcome {
	status := w.restore.Status
	if status.Handover == nil || status.VolumeLockRequest == nil || w.clusterGone() || w.discarding() ||
		protocol.Adopted(w.cluster, w.restore.UID, status.VolumeLockRequest, status.Handover) {
		return flow.Next
	}
	return flow.Wait(v1alpha1.ReasonUndoing, "waiting until the db-controller takes the data of before")
}

func handoverOf(before *v1alpha1.PreviousData, token string) *v1alpha1.Handover {
	return &v1alpha1.Handover{
		Token: token, DataGeneration: before.DataGeneration, SystemIdentifier: before.SystemIdentifier,
		MajorVersion: before.MajorVersion, Image: before.Image, Instance: before.Instance,
	}
}

// concludeInPlace says why it was given up, and what the cluster runs on.
func (r *Reconciler) concludeInPlace(_ context.Context, w *world) flow.Outcome {
	status := &w.restore.Status
	status.BackupRequest = nil
	message := status.Failure.Message
	switch {
	case w.clusterGone():
	case w.discarding():
		message += "; " + discarded(w)
	case status.DownAt == nil:
		message += fmt.Sprintf("; PostgresCluster %s was not touched", w.cluster.Name)
	default:
		message += fmt.Sprintf("; PostgresCluster %s goes on with its data of before", w.cluster.Name)
	}
	return flow.Stop(status.Failure.Reason, message)
}

// clusterGone says that the cluster of the plan doesn't exist any more.
func (w *world) clusterGone() bool {
	made := w.restore.Status.Cluster
	return w.cluster == nil || made != nil && w.cluster.UID != made.UID
}

func (w *world) inPlace() bool  { return w.restore.Spec.Destination.InPlace != nil }
func (w *world) planOnly() bool { return w.restore.Spec.Mode == v1alpha1.RestorePlanOnly }
func (w *world) restored() bool { return w.restore.Status.RestoredAt != nil }

// failureInPlace is why a restore in place must be given up, or nil. What is the same for a new cluster is failure's.
func (w *world) failureInPlace() *v1alpha1.RestoreFailure {
	status, answer := w.restore.Status, w.answer()
	fail := func(reason, format string, args ...any) *v1alpha1.RestoreFailure {
		return &v1alpha1.RestoreFailure{Reason: reason, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case answer != nil && answer.State == v1alpha1.VolumeLockGranted && status.Previous == nil && w.otherData():
		return fail(v1alpha1.ReasonClusterReplaced, "the data of PostgresCluster %s was replaced since the plan was made; make another Restore", w.cluster.Name)
	case status.HandedOverAt != nil && !w.discarding() && w.now.After(status.HandedOverAt.Add(startLimit)) && !clusterReady(w.cluster):
		return fail(v1alpha1.ReasonNotStarted, "the cluster did not take connections on the restored data within %s; it says %s", startLimit, stateOf(w.cluster))
	case status.VolumeLockRequest == nil && status.BackupRequest != nil:
		if outcome, message := protocol.BackupOutcomeFor(w.first, status.BackupRequest); outcome == protocol.BackupFailed {
			return fail(v1alpha1.ReasonSafetyBackupFailed, "the safety backup %s failed: %s", w.first.Name, strings.TrimSuffix(message, "."))
		}
	}
	return nil
}

// otherData says that the cluster doesn't run the database of the plan any more.
func (w *world) otherData() bool {
	plan, now := w.restore.Status.Plan, w.cluster.Status
	return plan != nil && (now.SystemIdentifier != plan.SystemIdentifier || now.MajorVersion != plan.MajorVersion)
}
