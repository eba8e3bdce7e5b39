package upgrade

import (
	"context"
	"fmt"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/volumelock"
)

// undo is the way back to the old version.
func (o *observed) undo() volumelock.Undo {
	return volumelock.Undo{
		Lock: o.lock(), Wrote: o.status().Plan.ToGeneration, Writers: o.writers,
		Kind: v1alpha1.KindUpgrade, NewData: fmt.Sprintf("PostgreSQL %d", o.upgrade.Spec.Version), Reason: v1alpha1.ReasonRollingBack,
	}
}

// observeWriters reads who has replaced the new data, where that is to be rolled back.
func (r *Reconciler) observeWriters(ctx context.Context, o *observed) (err error) {
	if o.decided() == v1alpha1.UpgradeRollBack && !o.undone() && !o.settled() && o.undo().Replaced() {
		o.writers, err = volumelock.ReadWriters(ctx, r.Live, o.cluster)
	}
	return err
}

// requestSafetyBackup requests a backup of the new data, where a person wants one, while the cluster serves.
func requestSafetyBackup(_ context.Context, o *observed) flow.Outcome {
	status := o.status()
	if !o.upgrade.Spec.SafetyBackup || status.SafetyBackup != "" || status.BackupRequest != nil || status.VolumeLockRequest != nil || o.lock().Gone() {
		return flow.Next
	}
	if o.cluster.Spec.Archive == nil {
		return flow.Wait(v1alpha1.ReasonSafetyBackupFailed, fmt.Sprintf(
			"PostgresCluster %s has no repository for a safety backup, so nothing is stopped. Set spec.archive of the PostgresCluster, or spec.safetyBackup of the Upgrade to false.", o.cluster.Name))
	}
	status.BackupRequest = &v1alpha1.BackupRequest{
		Cluster: o.cluster.Name, ClusterUID: o.cluster.UID, Token: protocol.Token(o.upgrade.UID, safetyAttempt), Purpose: v1alpha1.PurposeSafety,
		Hold: true, // nothing else has what was written to the new version
	}
	return flow.Save(v1alpha1.ReasonAwaitingBackup, "The safety backup of the new version is requested.")
}

// safetyAttempt tells the request for the safety backup from the one for the first backup.
const safetyAttempt = 1

// awaitSafetyBackup waits for it. If it fails, nothing is stopped, and a person decides whether to do without.
func awaitSafetyBackup(_ context.Context, o *observed) flow.Outcome {
	status := o.status()
	if status.BackupRequest == nil {
		return flow.Next
	}
	if !o.upgrade.Spec.SafetyBackup || o.lock().Gone() {
		status.BackupRequest = nil
		return flow.Save(v1alpha1.ReasonRollingBack, "No safety backup is taken.")
	}
	outcome, message := protocol.BackupOutcomeFor(o.backup, status.BackupRequest)
	switch outcome {
	case protocol.BackupSucceeded:
		status.SafetyBackup, status.BackupRequest = o.backup.Name, nil
		return flow.Save(v1alpha1.ReasonRollingBack, "The safety backup "+o.backup.Name+" has succeeded.")
	case protocol.BackupFailed:
		return flow.Wait(v1alpha1.ReasonSafetyBackupFailed, fmt.Sprintf(
			"The safety backup %s failed, so nothing is stopped. %s When that is fixed, delete the Backup, and another one is taken; or set spec.safetyBackup to false.",
			o.backup.Name, flow.Sentence(message)))
	}
	return flow.Wait(v1alpha1.ReasonAwaitingBackup, "The safety backup of the new version is being taken, and nothing is stopped before that. "+flow.Sentence(message))
}

func requestUndo(_ context.Context, o *observed) flow.Outcome { return o.undo().Request() }
func awaitUndo(_ context.Context, o *observed) flow.Outcome   { return o.undo().Await() }
func handBack(_ context.Context, o *observed) flow.Outcome    { return o.undo().HandBack() }
func awaitBack(_ context.Context, o *observed) flow.Outcome   { return o.undo().AwaitBack() }

// releaseNew has what the upgrade wrote removed.
func releaseNew(_ context.Context, o *observed) flow.Outcome {
	return o.lock().Release(o.status().Plan.ToGeneration)
}

// concludeRolledBack says that the cluster is as it was.
func concludeRolledBack(_ context.Context, o *observed) flow.Outcome {
	if o.deleting() {
		return flow.Next
	}
	status := o.status()
	text := fmt.Sprintf("PostgreSQL %d runs on the previous data, as %s requested. What was written to PostgreSQL %d is deleted%s.",
		status.Plan.FromVersion, status.Decided.Why, o.upgrade.Spec.Version, written(o.upgrade))
	if status.SafetyBackup != "" {
		text += fmt.Sprintf(" Backup %s has it: restore that into a new cluster to look at it. No retention removes it until you set its spec.hold to false.", status.SafetyBackup)
	}
	return flow.Stop(v1alpha1.ReasonRolledBack, text)
}
