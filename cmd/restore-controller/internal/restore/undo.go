package restore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/volumelock"
)

// confirmBy is until when a restore in place can be undone.
func (o *observed) confirmBy() time.Time {
	return volumelock.ConfirmBy(*o.restore.Status.RestoredAt, o.restore.Spec.ConfirmWithin)
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
		return record(o, v1alpha1.DecisionConfirm, "the previous data was discarded; Backup "+status.SafetyBackup+
			" contains it, and no retention removes that Backup until you set its spec.hold to false")
	case o.restore.Spec.Decision != "":
		return record(o, o.restore.Spec.Decision, "spec.decision")
	case o.lock().Gone():
		return record(o, v1alpha1.DecisionConfirm, "the PostgresCluster was deleted")
	case o.deleting() && o.onlyCopy() == "":
		return record(o, v1alpha1.DecisionConfirm, "the Restore was deleted")
	case !o.now.Before(by) && o.onlyCopy() == "":
		return record(o, v1alpha1.DecisionConfirm, "nobody decided within the time of spec.confirmWithin")
	}
	if outcome, _ := protocol.BackupOutcomeFor(o.first, status.BackupRequest); outcome != protocol.BackupPending {
		status.BackupRequest = nil
	}
	if o.deleting() || !o.now.Before(by) {
		return flow.Wait(v1alpha1.ReasonAwaitingDecision, awaitingDecision(o))
	}
	return flow.Poll(by.Sub(o.now), v1alpha1.ReasonAwaitingConfirmation, awaitingConfirmation(o))
}

// onlyCopy says why the previous data may be the only copy of commits, which no rule gives up; empty: all of it can be restored from the repository.
// The restored data is no copy: it ends where the restore ended.
func (o *observed) onlyCopy() string {
	previous := o.restore.Status.Previous
	switch {
	case o.discarding(): // it is given up already
		return ""
	case !previous.Archived:
		return fmt.Sprintf("%s, the last primary, did not report at its shutdown that all WAL of the previous data is archived", previous.Instance)
	case !o.previousRestorable:
		where := ""
		if previous.Repository != "" {
			where = " in BackupRepository " + previous.Repository + ", to which its WAL was archived"
		}
		return "there is no intact Backup of the previous data" + where
	case o.previousDoubt != "":
		return o.previousDoubt
	}
	return ""
}

// archiveDoubt says why it is not known that all of a lineage can be restored from a repository, by what was found there since a time; empty: it is.
// A repository that can't be read proves nothing, whatever its status still says.
func archiveDoubt(name, lineage string, since time.Time, repositories []v1alpha1.BackupRepository) string {
	i := slices.IndexFunc(repositories, func(r v1alpha1.BackupRepository) bool { return r.Name == name })
	if i < 0 {
		return fmt.Sprintf("BackupRepository %s, to which its WAL was archived, no longer exists", name)
	}
	status := &repositories[i].Status
	switch at := status.LastInventoryTime; {
	case !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady):
		return fmt.Sprintf("BackupRepository %s, to which its WAL was archived, is not Ready", name)
	case at == nil || at.Time.Before(since):
		return fmt.Sprintf("BackupRepository %s, to which its WAL was archived, has not been read since the restore", name)
	}
	j := slices.IndexFunc(status.Lineages, func(l v1alpha1.LineageStatus) bool { return l.Name == lineage })
	if j < 0 {
		return fmt.Sprintf("status.lineages of BackupRepository %s does not list lineage %s, which is that of the previous data", name, lineage)
	}
	switch l := &status.Lineages[j]; {
	case l.Unreadable != "" || len(l.Damaged) > 0:
		return fmt.Sprintf("lineage %s in BackupRepository %s, which is that of the previous data, is damaged", lineage, name)
	case l.Backups == 0:
		return fmt.Sprintf("BackupRepository %s has no backup in lineage %s, which is that of the previous data", name, lineage)
	case l.MissingWAL != "":
		return fmt.Sprintf("BackupRepository %s lacks %s of the WAL of the previous data, so Backups from before it don't lead to its end", name, l.MissingWAL)
	}
	return ""
}

func record(o *observed, decision v1alpha1.RestoreDecision, why string) flow.Outcome {
	o.restore.Status.Decided = &v1alpha1.DecidedRestore{Decision: decision, Why: why, At: metav1.Time{Time: o.now}}
	if decision == v1alpha1.DecisionUndo {
		o.restore.Status.BackupRequest = nil // of data that is being given up
		return flow.Save(v1alpha1.ReasonUndoing, "The previous data is being brought back.")
	}
	return flow.Save(v1alpha1.ReasonConfirming, "The Restore is confirmed, so the previous data can be deleted.")
}

func awaitingConfirmation(o *observed) string {
	otherwise := fmt.Sprintf("Without a decision it is confirmed at %s.", o.confirmBy().UTC().Format(time.RFC3339))
	if why := o.onlyCopy(); why != "" {
		otherwise = fmt.Sprintf("Without a decision the previous data is kept, because %s.", why)
	}
	return fmt.Sprintf("%s Look at the data, then set spec.decision to Confirm or Undo. %s", summary(o.restore), otherwise)
}

// awaitingDecision says what is missing, and what a person has to write.
func awaitingDecision(o *observed) string {
	previous, why := o.restore.Status.Previous, "The time of spec.confirmWithin is over"
	if o.deleting() {
		why = "The Restore is being deleted"
	}
	return fmt.Sprintf("%s, and the previous data (data generation %s, on the volume of %s) is kept, because it may be the only copy of its last commits: %s. "+
		"Set spec.decision to Confirm to delete it, or to Undo to bring it back.", why, previous.DataGeneration, previous.Instance, o.onlyCopy())
}

// undo is the way back to the previous data.
func (o *observed) undo() volumelock.Undo {
	return volumelock.Undo{
		Lock: o.lock(), Wrote: o.restore.Status.Plan.DataGeneration, Writers: o.writers,
		Kind: v1alpha1.KindRestore, NewData: "the restored data", Reason: v1alpha1.ReasonUndoing,
	}
}

// observeWriters reads who has replaced the restored data, where that is to be undone.
func (r *Reconciler) observeWriters(ctx context.Context, o *observed) (err error) {
	if o.decided() == v1alpha1.DecisionUndo && !o.undone() && !o.ended() && o.undo().Replaced() {
		o.writers, err = volumelock.ReadWriters(ctx, r.Live, o.cluster)
	}
	return err
}

// requestUndo requests the volumes once more, if the cluster runs on what this Restore has written.
func (r *Reconciler) requestUndo(ctx context.Context, o *observed) flow.Outcome {
	return r.orGo(ctx, o, o.undo().Request())
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

// awaitUndo waits until the cluster is stopped, and looks once more whether it can be undone.
func (r *Reconciler) awaitUndo(ctx context.Context, o *observed) flow.Outcome {
	return r.orGo(ctx, o, o.undo().Await())
}

// handBack offers the previous data.
func handBack(_ context.Context, o *observed) flow.Outcome { return o.undo().HandBack() }

// awaitBack waits until the cluster accepts connections on it.
func (r *Reconciler) awaitBack(ctx context.Context, o *observed) flow.Outcome {
	return r.orGo(ctx, o, o.undo().AwaitBack())
}

// releaseRestored has what this Restore wrote removed, where it wrote anything.
func releaseRestored(_ context.Context, o *observed) flow.Outcome {
	if o.restore.Status.Previous == nil {
		return flow.Next
	}
	return o.lock().Release(o.restore.Status.Plan.DataGeneration)
}

// releaseGivenUp has what a Restore that is given up wrote removed. Where the volumes were refused after they had been granted, this status may be from
// a backup of etcd, and clients may have used that data before a person chose other data. Then it stays until a person deletes the Restore.
func releaseGivenUp(ctx context.Context, o *observed) flow.Outcome {
	if failure := o.restore.Status.Failure; failure != nil && failure.Reason == v1alpha1.ReasonVolumeLockRefused && !o.deleting() {
		return flow.Next
	}
	return releaseRestored(ctx, o)
}

// observeRestorable looks for backups of what the cluster runs on, and for backups and archive of the previous data, while that may be given up.
func (r *Reconciler) observeRestorable(ctx context.Context, o *observed) error {
	previous := o.restore.Status.Previous
	if previous == nil || o.decided() == v1alpha1.DecisionUndo || o.ended() || o.cluster == nil {
		return nil
	}
	all, reader := &v1alpha1.BackupList{}, client.Reader(r.Client)
	if o.decided() == v1alpha1.DecisionConfirm {
		reader = r.Live // a cache may still show one that was deleted
	}
	if err := reader.List(ctx, all, client.InNamespace(o.restore.Namespace)); err != nil {
		return fmt.Errorf("list Backups: %w", err)
	}
	now := o.cluster.Status
	o.restorable = protocol.Restorable(protocol.Lineage(now.SystemIdentifier, now.DataGeneration), "", all.Items)
	lineage := protocol.Lineage(previous.SystemIdentifier, previous.DataGeneration)
	o.previousRestorable = protocol.Restorable(lineage, previous.Repository, all.Items)
	if previous.Repository == "" || o.restore.Status.RestoredAt == nil {
		return nil
	}
	repositories := &v1alpha1.BackupRepositoryList{}
	if err := r.Client.List(ctx, repositories, client.InNamespace(o.restore.Namespace)); err != nil {
		return fmt.Errorf("list BackupRepositories: %w", err)
	}
	o.previousDoubt = archiveDoubt(previous.Repository, lineage, o.restore.Status.RestoredAt.Time, repositories.Items)
	return nil
}

// awaitRestorable keeps the previous data until there is another way back. No backup of it leads to what was written to the restored data, which is
// on the volumes alone until a backup of that has succeeded. Should they be damaged, the previous data is what is left.
func awaitRestorable(_ context.Context, o *observed) flow.Outcome {
	if o.restore.Status.Release != nil || o.restorable || o.discarding() || o.lock().Gone() || !o.cluster.DeletionTimestamp.IsZero() || o.cluster.Spec.Archive == nil ||
		o.cluster.Status.DataGeneration == o.restore.Status.Previous.DataGeneration {
		return flow.Next
	}
	return flow.Wait(v1alpha1.ReasonAwaitingBackup, fmt.Sprintf("It is confirmed (%s), and the previous data is kept until a backup of the restored data has succeeded. "+
		"If that takes long, create a Backup of PostgresCluster %s, and look at its condition Archiving.", o.restore.Status.Decided.Why, o.cluster.Name))
}

// releasePrevious has the previous data removed.
func releasePrevious(_ context.Context, o *observed) flow.Outcome {
	return o.lock().Release(o.restore.Status.Previous.DataGeneration)
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
