package restore

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/volumelock"
)

const (
	// startLimit is how long the cluster may take to become Ready on the restored data before that is taken back.
	startLimit = 10 * time.Minute
	// spareBytes are left on the volume beside the backup, for WAL that is being replayed; the Job checks for the same.
	spareBytes = 64 << 20
)

// planInPlace is the algorithm for a cluster that exists. Until it runs on the restored data everything leads back to the previous
// data; from then on only a decision does, which is recorded before anything of it is done.
func (r *Reconciler) planInPlace(o *observed) []step {
	giveUp := []step{r.stopJob, takeBack, awaitTakenBack, withdrawLock, awaitReturned, releaseGivenUp}
	switch {
	case o.deleting() && o.ended() && o.decided() == v1alpha1.DecisionUndo && !o.undone(): // it could not be undone
		return []step{releasePrevious, r.removeFinalizer}
	case o.deleting() && o.ended():
		return []step{r.removeFinalizer}
	case o.ended() && o.decided() == v1alpha1.DecisionUndo && o.lock().Leaves():
		return []step{awaitFirstBackup} // data that a person wants back is not deleted because time has passed
	case o.ended():
		return []step{awaitFirstBackup, r.expire}
	case o.undone():
		return []step{awaitReturned, releaseRestored, r.concludeUndone}
	case o.decided() == v1alpha1.DecisionUndo:
		return []step{r.requestUndo, r.awaitUndo, handBack, r.awaitBack}
	case o.decided() == v1alpha1.DecisionConfirm:
		return []step{awaitRestorable, releasePrevious, r.finishConfirmed}
	case o.restored():
		return []step{decide}
	case o.runsRestored():
		return []step{pinRestored}
	case o.deleting() && (!o.discarding() || o.failure() != nil):
		return append(giveUp, r.removeFinalizer)
	case o.failure() != nil:
		return append(append([]step{pinFailure}, giveUp...), concludeInPlace)
	}
	steps := []step{r.ensureFinalizer, preflight, preflightInPlace, r.pinPlan}
	if o.planOnly() {
		return steps
	}
	return append(steps,
		requestSafetyBackup, awaitSafetyBackup,
		requestLock, awaitLock, pinPrevious,
		r.runJob, awaitJob, r.handOver, awaitRestored,
	)
}

// preflightInPlace refuses a cluster that can't be restored in place. Each policy is a pure function of what was observed.
func preflightInPlace(_ context.Context, o *observed) flow.Outcome {
	if o.restore.Status.Plan != nil {
		return flow.Next
	}
	for _, policy := range []func(*observed) flow.Outcome{clusterExists, clusterRemains, clusterHasData, clusterIsAwake, nobodyElseWorks} {
		if outcome := policy(o); !outcome.Finished() {
			return outcome
		}
	}
	return flow.Next
}

func clusterExists(o *observed) flow.Outcome {
	if o.cluster != nil {
		return flow.Next
	}
	name := o.restore.Spec.Destination.ClusterName()
	return missing(o, v1alpha1.ReasonClusterNotFound, fmt.Sprintf(
		"There is no PostgresCluster %s in namespace %s. To restore a deleted one write spec.destination.newCluster.name: %s.", name, o.restore.Namespace, name))
}

func clusterRemains(o *observed) flow.Outcome {
	if o.cluster.DeletionTimestamp.IsZero() {
		return flow.Next
	}
	return flow.Stop(v1alpha1.ReasonClusterReplaced, fmt.Sprintf(
		"PostgresCluster %s is being deleted. Restore into a new cluster with spec.destination.newCluster.", o.cluster.Name))
}

func clusterHasData(o *observed) flow.Outcome {
	if o.cluster.Status.SystemIdentifier != "" && o.cluster.Status.DataGeneration != "" {
		return flow.Next
	}
	return flow.Wait(v1alpha1.ReasonClusterNotReady, fmt.Sprintf("PostgresCluster %s has no data yet. It says: %s", o.cluster.Name, volumelock.State(o.cluster)))
}

func clusterIsAwake(o *observed) flow.Outcome {
	if !o.cluster.Spec.Hibernate {
		return flow.Next
	}
	return flow.Wait(v1alpha1.ReasonClusterNotReady, fmt.Sprintf(
		"PostgresCluster %s hibernates. Set its spec.hibernate to false, and the restore begins.", o.cluster.Name))
}

func nobodyElseWorks(o *observed) flow.Outcome { return o.lock().AwaitTurn() }

// fitsInPlace refuses a backup that can't take the place of the cluster's data.
func fitsInPlace(o *observed, header *backup.Header) flow.Outcome {
	status := o.cluster.Status
	const instead = "Restore it into a new cluster with spec.destination.newCluster."
	switch {
	case int32(header.PGMajor) != status.MajorVersion:
		return flow.Stop(v1alpha1.ReasonAnotherDatabase, fmt.Sprintf(
			"Backup %s is from PostgreSQL %d, and PostgresCluster %s runs %d. %s", header.ID, header.PGMajor, o.cluster.Name, status.MajorVersion, instead))
	case header.SystemIdentifier != status.SystemIdentifier:
		return flow.Stop(v1alpha1.ReasonAnotherDatabase, fmt.Sprintf(
			"Backup %s is from another database (system identifier %s) than that of PostgresCluster %s (%s). %s",
			header.ID, header.SystemIdentifier, o.cluster.Name, status.SystemIdentifier, instead))
	}
	return hasRoom(o, header.Totals.LogicalBytes+spareBytes)
}

// requestSafetyBackup requests a backup of the present data, before anything is touched.
func requestSafetyBackup(_ context.Context, o *observed) flow.Outcome {
	status := &o.restore.Status
	if !o.restore.Spec.Destination.InPlace.SafetyBackup || status.SafetyBackup != "" || status.BackupRequest != nil || status.VolumeLockRequest != nil {
		return flow.Next
	}
	status.BackupRequest = &v1alpha1.BackupRequest{
		Cluster: status.Cluster.Name, ClusterUID: status.Cluster.UID, Token: protocol.Token(o.restore.UID, 0), Purpose: v1alpha1.PurposeSafety,
		Hold: status.Plan != nil && status.Plan.DiscardsPrevious, // else there is undo
	}
	return flow.Save(v1alpha1.ReasonAwaitingBackup, "The safety backup is requested.")
}

// awaitSafetyBackup waits for it, while the cluster serves. Its failure is failure's.
func awaitSafetyBackup(_ context.Context, o *observed) flow.Outcome {
	status := &o.restore.Status
	if status.BackupRequest == nil || status.VolumeLockRequest != nil {
		return flow.Next
	}
	outcome, message := protocol.BackupOutcomeFor(o.first, status.BackupRequest)
	if outcome != protocol.BackupSucceeded {
		return flow.Wait(v1alpha1.ReasonAwaitingBackup, "The safety backup is being taken, and nothing is touched before that. "+flow.Sentence(message))
	}
	status.SafetyBackup, status.BackupRequest = o.first.Name, nil
	return flow.Save(v1alpha1.ReasonAwaitingVolumeLock, "The safety backup "+o.first.Name+" has succeeded.")
}

// pinPrevious records what to go back to, before anything is written.
func pinPrevious(_ context.Context, o *observed) flow.Outcome {
	outcome := o.lock().PinPrevious()
	if !outcome.Finished() && o.discarding() {
		outcome.Message = fmt.Sprintf("PostgresCluster %s is stopped. Its data generation %s is discarded and changed in place.",
			o.cluster.Name, o.restore.Status.Previous.DataGeneration)
	}
	return outcome
}

// awaitRestored waits until the cluster accepts connections on the restored data.
func awaitRestored(_ context.Context, o *observed) flow.Outcome {
	limit := startLimit
	if o.discarding() {
		limit = 0
	}
	return o.lock().AwaitRunning(limit)
}

// pinRestored records that the cluster accepts connections on the restored data. From then on it can be undone. A failure that
// was recorded a moment before is void: nothing was taken back yet, and clients write to the restored data.
func pinRestored(_ context.Context, o *observed) flow.Outcome {
	status := &o.restore.Status
	if o.cluster.Spec.Archive != nil {
		status.BackupRequest = &v1alpha1.BackupRequest{
			Cluster: o.cluster.Name, ClusterUID: o.cluster.UID, Token: protocol.Token(o.restore.UID, 0), Purpose: v1alpha1.PurposeFirst,
		}
	}
	status.RestoredAt, status.Failure = &metav1.Time{Time: o.now}, nil
	status.ConfirmBy = &metav1.Time{Time: o.confirmBy()}
	o.lock().Withdraw()
	return flow.Save(v1alpha1.ReasonAwaitingConfirmation, awaitingConfirmation(o))
}

// takeBack hands the previous data over where the restored data was, unless it was given up.
func takeBack(_ context.Context, o *observed) flow.Outcome {
	if o.discarding() {
		return flow.Next
	}
	return o.lock().TakeBack()
}

func awaitTakenBack(_ context.Context, o *observed) flow.Outcome {
	if o.discarding() {
		return flow.Next
	}
	return o.lock().AwaitTakenBack()
}

// concludeInPlace says why it was given up, and what the cluster runs on.
func concludeInPlace(_ context.Context, o *observed) flow.Outcome {
	status := &o.restore.Status
	status.BackupRequest = nil
	message := status.Failure.Message
	switch {
	case o.lock().Gone():
	case o.discarding() && !keptPrevious(status.Failure):
		message += " " + discarded(o)
	case status.DownAt == nil:
		message += fmt.Sprintf(" PostgresCluster %s was not touched.", o.cluster.Name)
	default:
		message += fmt.Sprintf(" PostgresCluster %s continues with its previous data.", o.cluster.Name)
	}
	return flow.Stop(status.Failure.Reason, message)
}

func (o *observed) inPlace() bool  { return o.restore.Spec.Destination.InPlace != nil }
func (o *observed) planOnly() bool { return o.restore.Spec.Mode == v1alpha1.RestorePlanOnly }
func (o *observed) restored() bool { return o.restore.Status.RestoredAt != nil }

// runsRestored reports that the cluster has served clients on the restored data: they may have written to it, so only a decision
// of a person leads back.
func (o *observed) runsRestored() bool {
	if !o.inPlace() {
		return o.lock().Running()
	}
	status := &o.restore.Status
	return o.lock().RunsNew() || status.Plan != nil && status.Previous != nil && o.lock().RanBefore(status.Plan.DataGeneration)
}
