package upgrade

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/volumelock"
)

// planUpgraded is the algorithm from when the cluster has served clients on the new version. The previous data stays until a person
// decides, or the time for that is over. The decision is recorded before anything of it is done.
func (r *Reconciler) planUpgraded(o *observed) []step {
	switch {
	case o.undone():
		return []step{awaitReturned, releaseNew, concludeRolledBack, r.removeFinalizerOfDeleted}
	case o.decided() == v1alpha1.UpgradeRollBack:
		return []step{noteWritten, requestSafetyBackup, awaitSafetyBackup, requestUndo, awaitUndo, handBack, awaitBack}
	}
	steps := []step{r.pinUp, r.clusterStillExists, noteWritten}
	if !o.ended() {
		steps = append(steps, r.requestBackup)
	}
	steps = append(steps, withdrawLock, decide)
	if !o.ended() && !o.deleting() {
		steps = append(steps, r.awaitReady, r.awaitMaintenance, r.awaitBackup, complete)
	}
	if o.decided() == v1alpha1.UpgradeConfirm {
		return append(steps, r.deleteJobs, awaitRestorable, releasePrevious, settle, r.removeFinalizerOfDeleted)
	}
	return append(steps, r.deleteJobs, awaitDecision)
}

// noteWritten takes over how much was written to the new data, which the cluster forgets with that.
func noteWritten(_ context.Context, o *observed) flow.Outcome {
	if o.cluster == nil {
		return flow.Next
	}
	if written := o.cluster.Status.Written; written != nil && written.DataGeneration == o.status().Plan.ToGeneration {
		o.status().Written = written.DeepCopy()
	}
	return flow.Next
}

// written says for a person how much a roll back costs; empty: nothing is known.
func written(u *v1alpha1.Upgrade) string {
	w := u.Status.Written
	if w == nil {
		return ""
	}
	return fmt.Sprintf(": %s of WAL, up to LSN %s at %s", roughly(w.WALBytes), w.LSN, w.Time.UTC().Format(time.RFC3339))
}

// roughly is a number of bytes for a person.
func roughly(bytes int64) string {
	if bytes < 1<<10 {
		return "less than 1Ki"
	}
	return "about " + resource.NewQuantity(bytes>>10<<10, resource.BinarySI).String()
}

func (o *observed) undone() bool { return o.upgrade.Status.UndoneAt != nil }

// settled: the decision was carried out, or can't be.
func (o *observed) settled() bool { return o.upgrade.Status.SettledAt != nil }

// decided is the decision that is being carried out; empty: none yet.
func (o *observed) decided() v1alpha1.UpgradeDecision {
	if decided := o.upgrade.Status.Decided; decided != nil {
		return decided.Decision
	}
	return ""
}

// confirmBy is until when the previous data is kept.
func (o *observed) confirmBy() time.Time {
	return volumelock.ConfirmBy(*o.upgrade.Status.UpAt, o.upgrade.Spec.ConfirmWithin)
}

// decide records the decision of a person, or that the time for one is over. A decision can't be changed, and nothing leads back after Confirm, so that one
// is not made automatically while a person may need the previous data.
func decide(_ context.Context, o *observed) flow.Outcome {
	status, by := &o.upgrade.Status, o.confirmBy()
	if status.Decided != nil {
		return flow.Next
	}
	status.ConfirmBy = &metav1.Time{Time: by}
	switch {
	case o.upgrade.Spec.Decision != "":
		return record(o, o.upgrade.Spec.Decision, "spec.decision")
	case o.deleting():
		return record(o, v1alpha1.UpgradeConfirm, "the Upgrade was deleted")
	case o.timeIsOver() && o.needsPrevious() == "":
		return record(o, v1alpha1.UpgradeConfirm, "nobody decided within the time of spec.confirmWithin")
	}
	return flow.Next
}

func record(o *observed, decision v1alpha1.UpgradeDecision, why string) flow.Outcome {
	o.upgrade.Status.Decided = &v1alpha1.DecidedUpgrade{Decision: decision, Why: why, At: metav1.Time{Time: o.now}}
	if decision == v1alpha1.UpgradeRollBack {
		o.upgrade.Status.BackupRequest = nil // of data that is being given up
		return flow.Save(v1alpha1.ReasonRollingBack, fmt.Sprintf("PostgreSQL %d is being brought back, without what was written since %s%s.",
			o.upgrade.Status.Plan.FromVersion, o.status().UpAt.UTC().Format(time.RFC3339), written(o.upgrade)))
	}
	return flow.Save(v1alpha1.ReasonConfirming, "The Upgrade is confirmed, so the previous data can be deleted.")
}

// timeIsOver for a decision that nobody has made yet.
func (o *observed) timeIsOver() bool {
	status := o.status()
	return status.UpAt != nil && status.Decided == nil && !o.now.Before(o.confirmBy())
}

// needsPrevious says why the previous data stays though its time is over; empty: it need not. What a person would bring it back for may just have
// happened: the new version doesn't run, or can't be backed up.
func (o *observed) needsPrevious() string {
	switch {
	case o.lock().Gone() || !o.cluster.DeletionTimestamp.IsZero():
		return ""
	case !o.ended():
		return "the upgrade has not ended"
	case !volumelock.Ready(o.cluster):
		return fmt.Sprintf("PostgresCluster %s is not Ready", o.cluster.Name)
	case o.cluster.Spec.Archive != nil && !o.restorable:
		return fmt.Sprintf("no backup of PostgreSQL %d has succeeded", o.upgrade.Spec.Version)
	}
	return ""
}

// needsPreviousPause is how often that is looked at: no watch tells of every backup.
const needsPreviousPause = 30 * time.Second

// awaitDecision waits for it, as long as there is time for one.
func awaitDecision(_ context.Context, o *observed) flow.Outcome {
	pause := max(time.Second, o.confirmBy().Sub(o.now))
	if o.timeIsOver() {
		pause = needsPreviousPause
	}
	return flow.Poll(pause, v1alpha1.ReasonAwaitingConfirmation, awaitingConfirmation(o))
}

// awaitingConfirmation says what is kept, for how long, and what it costs to go back.
func awaitingConfirmation(o *observed) string {
	u, status := o.upgrade, o.upgrade.Status
	space := ""
	if status.PreviousBytes > 0 {
		space = fmt.Sprintf(", which takes %s on each volume", resource.NewQuantity(status.PreviousBytes>>20<<20, resource.BinarySI))
	}
	if u.Spec.Transfer == v1alpha1.TransferLink {
		space = fmt.Sprintf(" on the volume of %s%s", status.Previous.Instance, strings.Replace(space, "on each volume", "there and on each other replica", 1))
	}
	until := volumelock.ConfirmBy(*status.UpAt, u.Spec.ConfirmWithin).UTC().Format(time.RFC3339)
	if why := o.needsPrevious(); why != "" && o.timeIsOver() {
		until += fmt.Sprintf(", and beyond that as long as %s", why)
	}
	text := fmt.Sprintf("The data of PostgreSQL %d is kept%s, until %s. Set spec.decision to Confirm to delete it. RollBack brings it back, without "+
		"anything that was written since %s%s", status.Plan.FromVersion, space, until, status.UpAt.UTC().Format(time.RFC3339), written(u))
	if u.Spec.SafetyBackup {
		return text + "; a backup of that is taken first."
	}
	return text + "; set spec.safetyBackup to true to have a backup of that taken first."
}

// awaitRestorable keeps the previous data until there is another way back. The backups of the old version lead to nothing that was
// written to the new one, so until a backup of that has succeeded, the volumes have the only copy of it. Should they be lost or turn
// out to be damaged, the previous data is what is left.
func awaitRestorable(_ context.Context, o *observed) flow.Outcome {
	if o.status().Release != nil || o.restorable || o.lock().Gone() || !o.cluster.DeletionTimestamp.IsZero() || o.cluster.Spec.Archive == nil {
		return flow.Next
	}
	return flow.Wait(v1alpha1.ReasonAwaitingBackup, fmt.Sprintf(
		"The data of PostgreSQL %d is kept until a backup of PostgreSQL %d has succeeded. Create a Backup of PostgresCluster %s, and look at its condition Archiving.",
		o.status().Plan.FromVersion, o.upgrade.Spec.Version, o.cluster.Name))
}

// releasePrevious has the previous data removed from every volume.
func releasePrevious(_ context.Context, o *observed) flow.Outcome {
	if o.status().Previous == nil {
		return flow.Next
	}
	return o.lock().Release(o.status().Previous.DataGeneration)
}

// settle ends the time in which the upgrade can be rolled back.
func settle(_ context.Context, o *observed) flow.Outcome {
	if o.deleting() {
		return flow.Next
	}
	o.status().SettledAt = &metav1.Time{Time: o.now}
	return flow.Save(v1alpha1.ReasonConfirmed, confirmed(o.upgrade))
}

func confirmed(u *v1alpha1.Upgrade) string {
	return fmt.Sprintf("The cluster stays on PostgreSQL %d, and the data of PostgreSQL %d is deleted: %s.", u.Spec.Version, u.Status.Plan.FromVersion, u.Status.Decided.Why)
}

// complete ends the upgrade itself well; the previous data stays for as long as it can be rolled back.
func complete(_ context.Context, o *observed) flow.Outcome {
	o.status().BackupRequest, o.status().CompletedAt = nil, &metav1.Time{Time: o.now}
	return flow.Save(v1alpha1.ReasonCompleted, summary(o.upgrade))
}

func (r *Reconciler) removeFinalizerOfDeleted(ctx context.Context, o *observed) flow.Outcome {
	if o.deleting() {
		return r.removeFinalizer(ctx, o)
	}
	return flow.Next
}

func (o *observed) status() *v1alpha1.UpgradeStatus { return &o.upgrade.Status }

// observeRestorable looks for a backup of the new version, once the previous data is to be given up. A cache may still show one that was deleted.
func (r *Reconciler) observeRestorable(ctx context.Context, o *observed) error {
	if o.cluster == nil || o.settled() || o.decided() != v1alpha1.UpgradeConfirm && !o.timeIsOver() {
		return nil
	}
	all := &v1alpha1.BackupList{}
	if err := r.Live.List(ctx, all, client.InNamespace(o.upgrade.Namespace)); err != nil {
		return fmt.Errorf("list Backups: %w", err)
	}
	now := o.cluster.Status
	if now.MajorVersion >= o.upgrade.Spec.Version && now.DataGeneration != o.status().Plan.FromGeneration {
		o.restorable = protocol.Restorable(protocol.Lineage(now.SystemIdentifier, now.DataGeneration), "", all.Items)
	}
	return nil
}
