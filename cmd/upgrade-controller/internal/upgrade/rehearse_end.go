package upgrade

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/clustercopy"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/volumelock"
	"howdah.dev/howdah/pkg/workload"
)

// rehearsalDeadline is when a rehearsal has taken too long.
func (o *observed) rehearsalDeadline() time.Time {
	return o.status().StartedAt.Add(time.Duration(o.upgrade.Spec.Rehearsal.TimeoutSeconds) * time.Second)
}

// rehearsalEnding is why a rehearsal ends here without a result, or nil. It is pure.
func (o *observed) rehearsalEnding() *v1alpha1.Failure {
	run, seen := o.status().Rehearsal, o.rehearsal
	switch {
	case o.upgrade.Spec.Cancel:
		return volumelock.Fail(v1alpha1.ReasonCancelled, "The Upgrade was cancelled with spec.cancel.")
	case !o.now.Before(o.rehearsalDeadline()):
		return volumelock.Fail(v1alpha1.ReasonRehearsalTimedOut,
			"The rehearsal took longer than spec.rehearsal.timeoutSeconds (%s), and was stopped. Its last message was: %s",
			o.rehearsalDeadline().Sub(o.status().StartedAt.Time), run.Message)
	case seen.copy.Foreign, seen.foreign:
		return volumelock.Fail(v1alpha1.ReasonNameConflict, "A Restore or an Upgrade named %s already exists and belongs to somebody else. It is not touched.", run.Name)
	case seen.look.Taken():
		return volumelock.Fail(v1alpha1.ReasonNameConflict, "%s", seen.look.Message)
	}
	for _, look := range []func() *v1alpha1.Failure{o.copyFailure, o.copyUpgradeFailure} {
		if failure := look(); failure != nil {
			return failure
		}
	}
	if seen.look.Failed && seen.look.Ended() {
		reason, message := seen.look.FailureReason()
		return volumelock.Fail(reason, "The upgraded copy could not be checked: %s", flow.Sentence(message))
	}
	return nil
}

// copyFailure is why there is no copy of what the cluster runs on.
func (o *observed) copyFailure() *v1alpha1.Failure {
	run, copied := o.status().Rehearsal, o.rehearsal.copy
	switch {
	case copied.Restore == nil && run.RestoreUID != "", copied.Restore != nil && !copied.Restore.DeletionTimestamp.IsZero():
		return volumelock.Fail(v1alpha1.ReasonRestoreFailed, "Restore %s was deleted before the rehearsal was done.", run.Name)
	case run.RestoreSeconds > 0 && copied.Cluster == nil:
		return volumelock.Fail(v1alpha1.ReasonRestoreFailed, "PostgresCluster %s was deleted before the rehearsal was done.", run.Name)
	case copied.Failure() != "":
		return volumelock.Fail(v1alpha1.ReasonRestoreFailed, "The copy could not be restored. %s", copied.Failure())
	case copied.Restore == nil || copied.Restore.Status.Plan == nil:
		return nil
	}
	plan, of := copied.Restore.Status.Plan, o.status().Plan
	if plan.MajorVersion == of.FromVersion && plan.Lineage == o.lineage() {
		return nil
	}
	return volumelock.Fail(v1alpha1.ReasonBackupNotFound,
		"The latest backup, %s, is of earlier data than PostgresCluster %s ran on when the rehearsal was planned: of PostgreSQL %d in lineage %s, and not %d in %s. "+
			"Take a Backup, then create another Upgrade.", plan.BackupID, o.upgrade.Spec.Cluster.Name, plan.MajorVersion, plan.Lineage, of.FromVersion, o.lineage())
}

// copyUpgradeFailure is why the copy could not be upgraded. What stands in the way of the upgrade itself keeps its reason.
func (o *observed) copyUpgradeFailure() *v1alpha1.Failure {
	run, upgrade := o.status().Rehearsal, o.rehearsal.upgrade
	switch {
	case upgrade == nil && run.UpgradeUID == "":
		return nil
	case upgrade == nil, !upgrade.DeletionTimestamp.IsZero():
		return volumelock.Fail(v1alpha1.ReasonRehearsalFailed, "Upgrade %s was deleted before the rehearsal was done.", run.Name)
	}
	condition := meta.FindStatusCondition(upgrade.Status.Conditions, v1alpha1.ConditionSucceeded)
	switch {
	case condition == nil || condition.Status != metav1.ConditionFalse:
		return nil
	case condition.Reason == v1alpha1.ReasonCheckFailed:
		return volumelock.Fail(v1alpha1.ReasonCheckFailed, "The copy could not be upgraded. %s", condition.Message)
	}
	return volumelock.Fail(v1alpha1.ReasonRehearsalFailed, "The copy could not be upgraded (%s). %s", condition.Reason, condition.Message)
}

// pinOutcome records that a rehearsal ends without a result, before anything of it is deleted.
func pinOutcome(_ context.Context, o *observed) flow.Outcome {
	failure := o.rehearsalEnding()
	takeUpgrade(o)
	return endRehearsal(o, failure.Reason, failure.Message)
}

func endRehearsal(o *observed, reason, message string) flow.Outcome {
	run := o.status().Rehearsal
	run.Outcome, run.Reason, run.Message = v1alpha1.RehearsalFailed, reason, message
	return flow.Save(v1alpha1.ReasonRehearsing, message+" What the rehearsal has created is being deleted.")
}

// ensureLook creates the Job that checks the upgraded copy, and creates it again if its node is lost.
func (r rehearser) ensureLook(ctx context.Context, o *observed) flow.Outcome {
	switch {
	case o.rehearsal.look.Lost(o.now):
		return r.removeLook(ctx, o)
	case o.rehearsal.look.Exists:
		return flow.Next
	}
	check := clustercopy.Check{
		Name: lookJob(o.status().Rehearsal), Owner: o.upgrade, Component: workload.ComponentUpgradeCheck, Agent: r.Agent, Image: o.status().Plan.ToImage,
		MajorVersion: o.upgrade.Spec.Version, Cluster: o.rehearsal.copy.Cluster, Assertions: o.upgrade.Spec.Rehearsal.Assertions,
	}
	if !check.Possible() {
		return flow.Poll(lookAgain, v1alpha1.ReasonRehearsing, fmt.Sprintf("Waiting for the Secrets of PostgresCluster %s.", check.Cluster.Name))
	}
	switch still, err := r.stillRehearsing(ctx, o); {
	case err != nil:
		return flow.Retry(err)
	case !still:
		return flow.Poll(cacheLag, "", "")
	}
	if err := check.Job().Ensure(ctx, r.Client); err != nil {
		return workload.NotEnsured(err)
	}
	return flow.Poll(lookAgain, v1alpha1.ReasonRehearsing, looking(o, ""))
}

func awaitLook(_ context.Context, o *observed) flow.Outcome {
	if o.rehearsal.look.Ended() {
		return flow.Next
	}
	return flow.Poll(lookAgain, o.rehearsal.look.Reason(v1alpha1.ReasonRehearsing), looking(o, o.rehearsal.look.Trouble()))
}

func looking(o *observed, trouble string) string {
	message := fmt.Sprintf("Job %s checks the upgraded copy.", lookJob(o.status().Rehearsal))
	if trouble == "" {
		return message
	}
	return message + " " + trouble
}

// takeLook takes what the Job's pod has said.
func takeLook(_ context.Context, o *observed) flow.Outcome {
	run, result := o.status().Rehearsal, agentapi.DrillResult{}
	if !o.rehearsal.look.Result(&result) {
		return endRehearsal(o, v1alpha1.ReasonJobFailed, fmt.Sprintf("Job %s has ended, but its result can't be read.", lookJob(run)))
	}
	run.CheckSeconds = result.Seconds
	reason, found := clustercopy.Verdict(result, len(o.upgrade.Spec.Rehearsal.Assertions))
	message := rehearsed(o.upgrade) + found
	if reason != "" {
		return endRehearsal(o, reason, message)
	}
	run.Outcome, run.Message = v1alpha1.RehearsalSucceeded, message
	return flow.Save(v1alpha1.ReasonRehearsing, "The copy was upgraded and checked, and is being deleted.")
}

// rehearsed says what was done, and how long each part took; the sentence continues.
func rehearsed(u *v1alpha1.Upgrade) string {
	run := u.Status.Rehearsal
	text := fmt.Sprintf("A copy of the cluster was upgraded from PostgreSQL %d to %d, from backup %s", u.Status.Plan.FromVersion, u.Spec.Version, run.BackupID)
	if run.LastCommit != nil {
		text += ", with everything until " + run.LastCommit.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("%s. It accepted no connections for about %s; before that, it was restored in %s and the upgrade was checked in %s; after that, statistics "+
		"and indexes took %s", text, seconds(run.DowntimeSeconds), seconds(run.RestoreSeconds), seconds(run.PreflightSeconds), seconds(run.MaintenanceSeconds))
}

// removeLook deletes the Job, and waits until none of its pods connects to the copy.
func (r rehearser) removeLook(ctx context.Context, o *observed) flow.Outcome {
	look := o.rehearsal.look
	if !look.Exists {
		return flow.Next
	}
	name := lookJob(o.status().Rehearsal)
	if err := clustercopy.RemoveCheck(ctx, r.Client, r.Live, o.upgrade, name, look, o.now); err != nil {
		return flow.Retry(err)
	}
	return flow.Poll(lookAgain, v1alpha1.ReasonRehearsing, fmt.Sprintf("Deleting Job %s.", name))
}

// removeCopyUpgrade deletes the Upgrade of the copy, and waits until it has given the volume back.
func (r rehearser) removeCopyUpgrade(ctx context.Context, o *observed) flow.Outcome {
	upgrade := o.rehearsal.upgrade
	if upgrade == nil {
		return flow.Next
	}
	if err := clustercopy.Delete(ctx, r.Client, upgrade); err != nil {
		return flow.Retry(err)
	}
	return flow.Poll(lookAgain, v1alpha1.ReasonRehearsing, fmt.Sprintf("Deleting Upgrade %s of the copy.", upgrade.Name))
}

// removeCopy deletes the Restore, and with it the copy.
func (r rehearser) removeCopy(ctx context.Context, o *observed) flow.Outcome {
	restore := o.rehearsal.copy.Restore
	if restore == nil {
		return flow.Next
	}
	if run := o.status().Rehearsal; run.RestoreUID == "" {
		run.RestoreUID = restore.UID // by which its cluster is known once it is deleted
		return flow.Save(v1alpha1.ReasonRehearsing, "Deleting what the rehearsal has created.")
	}
	if err := clustercopy.Delete(ctx, r.Client, restore); err != nil {
		return flow.Retry(err)
	}
	return flow.Poll(lookAgain, v1alpha1.ReasonRehearsing, fmt.Sprintf("Deleting Restore %s and its PostgresCluster.", restore.Name))
}

func awaitCopyGone(_ context.Context, o *observed) flow.Outcome {
	if o.rehearsal.copy.Cluster == nil {
		return flow.Next
	}
	return flow.Poll(lookAgain, v1alpha1.ReasonRehearsing, fmt.Sprintf("Waiting until PostgresCluster %s, the copy, is deleted.", o.rehearsal.copy.Cluster.Name))
}

// concludeRehearsal says what was found, once nothing is left of the copy.
func concludeRehearsal(_ context.Context, o *observed) flow.Outcome {
	if run := o.status().Rehearsal; run.Outcome == v1alpha1.RehearsalFailed {
		return flow.Stop(run.Reason, run.Message)
	}
	return flow.Next
}
