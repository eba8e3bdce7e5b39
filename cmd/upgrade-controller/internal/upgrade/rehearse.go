package upgrade

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/clustercopy"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/workload"
)

// lookAgain is how often what no watch tells of is looked at: a copy that is being deleted, or whose time is over.
const lookAgain = 10 * time.Second

// cacheLag is how long a cache that lags gets to catch up.
const cacheLag = 100 * time.Millisecond

// rehearsal is what one pass has seen of a rehearsal.
type rehearsal struct {
	copy clustercopy.Seen
	// upgrade of the copy; nil: there is none. foreign: there is one of its name that is somebody else's.
	upgrade *v1alpha1.Upgrade
	foreign bool
	// look is the Job that checks the upgraded copy.
	look workload.State
}

func lookJob(run *v1alpha1.RehearsalStatus) string { return run.Name + "-check" }

// rehearser upgrades a copy.
type rehearser struct{ *Reconciler }

// plan is the algorithm where only a copy is upgraded. What was created is deleted in the opposite order, whatever the
// outcome was, and only then has the rehearsal ended.
func (r rehearser) plan(o *observed) []step {
	run := o.status().Rehearsal
	cleanUp := []step{r.removeLook, r.removeCopyUpgrade, r.removeCopy, awaitCopyGone}
	switch {
	case o.deleting():
		return append(cleanUp, r.removeFinalizer)
	case o.ended():
		return []step{r.expire}
	case run == nil:
		return []step{r.ensureFinalizer, r.preflight, r.pinPlan, beginRehearsal}
	case run.Outcome != "":
		return append(cleanUp, concludeRehearsal)
	case o.rehearsalEnding() != nil:
		return []step{pinOutcome}
	}
	return []step{r.ensureCopy, awaitCopy, r.ensureCopyUpgrade, awaitCopyUpgrade, r.ensureLook, awaitLook, takeLook}
}

// observe reads what exists of it, past the cache.
func (r rehearser) observe(ctx context.Context, o *observed) (err error) {
	run := o.status().Rehearsal
	if run == nil {
		return nil
	}
	if o.rehearsal.copy, err = clustercopy.Observe(ctx, r.Live, o.upgrade, run.Name, run.RestoreUID); err != nil {
		return err
	}
	if o.rehearsal.look, err = workload.Observe(ctx, r.Live, r.Live, o.upgrade, lookJob(run)); err != nil {
		return err
	}
	o.rehearsal.look.Explain(ctx, r.Live, o.upgrade.Namespace)
	upgrade := &v1alpha1.Upgrade{}
	switch err := r.Live.Get(ctx, client.ObjectKey{Namespace: o.upgrade.Namespace, Name: run.Name}, upgrade); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("read Upgrade %s: %w", run.Name, err)
	case metav1.IsControlledBy(upgrade, o.upgrade):
		o.rehearsal.upgrade = upgrade
	default:
		o.rehearsal.foreign = true
	}
	return nil
}

// preflight refuses what can't be rehearsed. The cluster need not be Ready: it is not touched.
func (r rehearser) preflight(_ context.Context, o *observed) flow.Outcome {
	for _, policy := range []func(*observed, manager.Images) flow.Outcome{
		clusterExists, clusterRemains, versionIsHigher, imageIsKnown, clusterHasRun, clusterArchives,
	} {
		if outcome := policy(o, r.Images); !outcome.Finished() {
			return outcome
		}
	}
	return flow.Next
}

func clusterHasRun(o *observed, _ manager.Images) flow.Outcome {
	if o.cluster.Status.MajorVersion != 0 && o.cluster.Status.DataGeneration != "" {
		return flow.Next
	}
	return flow.Wait(v1alpha1.ReasonClusterNotReady, fmt.Sprintf("PostgresCluster %s has not run yet, so there is nothing to rehearse with.", o.cluster.Name))
}

func clusterArchives(o *observed, _ manager.Images) flow.Outcome {
	if o.cluster.Spec.Archive != nil {
		return flow.Next
	}
	return flow.Stop(v1alpha1.ReasonNoArchive, fmt.Sprintf(
		"PostgresCluster %s has no repository, so there is no backup to rehearse with. Set spec.archive of the PostgresCluster and take a Backup, or use "+
			"spec.checkOnly of an Upgrade, which needs none.", o.cluster.Name))
}

// beginRehearsal fixes the names before anything is created.
func beginRehearsal(_ context.Context, o *observed) flow.Outcome {
	o.status().Rehearsal = &v1alpha1.RehearsalStatus{
		Name: clustercopy.Name(o.upgrade.Spec.Cluster.Name, "rehearsal", o.upgrade.UID, o.status().StartedAt.Time),
	}
	return flow.Save(v1alpha1.ReasonRehearsing, "The rehearsal begins.")
}

// stillRehearsing reports that the API server itself says so: a cache that lags may show a rehearsal that is over, and nobody would
// delete what is created for that.
func (r rehearser) stillRehearsing(ctx context.Context, o *observed) (bool, error) {
	now := &v1alpha1.Upgrade{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(o.upgrade), now); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	run := now.Status.Rehearsal
	return now.UID == o.upgrade.UID && now.DeletionTimestamp.IsZero() && now.Status.CompletedAt == nil &&
		run != nil && run.Name == o.status().Rehearsal.Name && run.Outcome == "", nil
}

// create creates an object of the rehearsal; whose the one of that name is, if there is one, is seen in the next pass.
func (r rehearser) create(ctx context.Context, o *observed, object client.Object, kind, reason string) flow.Outcome {
	switch still, err := r.stillRehearsing(ctx, o); {
	case err != nil:
		return flow.Retry(err)
	case !still:
		return flow.Poll(cacheLag, "", "")
	}
	err := r.Client.Create(ctx, object)
	switch {
	case apierrors.IsInvalid(err):
		return endRehearsal(o, reason, fmt.Sprintf("The API server refuses the %s: %v. Create another Upgrade whose spec.rehearsal is valid.", kind, err))
	case err != nil && !apierrors.IsAlreadyExists(err):
		return flow.Retry(fmt.Errorf("create %s %s: %w", kind, object.GetName(), err))
	}
	return flow.Save(v1alpha1.ReasonRehearsing, fmt.Sprintf("%s %s is being created.", kind, object.GetName()))
}

// ensureCopy creates the Restore of the copy, and records which one it is.
func (r rehearser) ensureCopy(ctx context.Context, o *observed) flow.Outcome {
	run, restore := o.status().Rehearsal, o.rehearsal.copy.Restore
	switch {
	case restore == nil && o.cluster == nil:
		return endRehearsal(o, v1alpha1.ReasonClusterReplaced, fmt.Sprintf("PostgresCluster %s was deleted before the rehearsal had begun.", o.upgrade.Spec.Cluster.Name))
	case restore == nil && o.cluster.Spec.Archive == nil:
		return endRehearsal(o, v1alpha1.ReasonNoArchive, fmt.Sprintf("PostgresCluster %s has no repository any more (spec.archive).", o.cluster.Name))
	case restore == nil:
		wanted := o.upgrade.Spec.Rehearsal
		return r.create(ctx, o, clustercopy.Copy{
			Owner: o.upgrade, Kind: v1alpha1.KindUpgrade, Name: run.Name, Source: clustercopy.OfCluster(o.cluster.Name, o.cluster.Spec.Archive.Repository.Name),
			Storage: wanted.Storage, Resources: wanted.Resources,
		}.Restore(), v1alpha1.KindRestore, v1alpha1.ReasonRestoreFailed)
	case run.RestoreUID == "":
		run.RestoreUID = restore.UID
		return flow.Save(v1alpha1.ReasonRehearsing, fmt.Sprintf("Restore %s was created.", run.Name))
	}
	return flow.Next
}

// awaitCopy waits for the restored copy, and records how long that took. A failure is rehearsalEnding's.
func awaitCopy(_ context.Context, o *observed) flow.Outcome {
	run := o.status().Rehearsal
	seconds, message := o.rehearsal.copy.Seconds()
	switch {
	case seconds == 0:
		return flow.Poll(lookAgain, v1alpha1.ReasonRehearsing, message)
	case run.RestoreSeconds > 0:
		return flow.Next
	}
	run.RestoreSeconds = seconds
	run.BackupID, run.LastCommit = o.rehearsal.copy.Data()
	return flow.Save(v1alpha1.ReasonRehearsing, fmt.Sprintf("PostgresCluster %s, the copy, is restored.", run.Name))
}

// ensureCopyUpgrade creates the Upgrade of the copy, and records which one it is.
func (r rehearser) ensureCopyUpgrade(ctx context.Context, o *observed) flow.Outcome {
	run, upgrade := o.status().Rehearsal, o.rehearsal.upgrade
	switch {
	case upgrade == nil:
		return r.create(ctx, o, copyUpgrade(o.upgrade), v1alpha1.KindUpgrade, v1alpha1.ReasonRehearsalFailed)
	case run.UpgradeUID == "":
		run.UpgradeUID = upgrade.UID
		return flow.Save(v1alpha1.ReasonRehearsing, fmt.Sprintf("Upgrade %s was created.", run.Name))
	}
	return flow.Next
}

// copyUpgrade is the Upgrade of the copy, to the image that was planned.
func copyUpgrade(u *v1alpha1.Upgrade) *v1alpha1.Upgrade {
	name := u.Status.Rehearsal.Name
	return &v1alpha1.Upgrade{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: u.Namespace, Name: name,
			Labels:          map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(u, v1alpha1.GroupVersion.WithKind(v1alpha1.KindUpgrade))},
		},
		Spec: v1alpha1.UpgradeSpec{
			Cluster: v1alpha1.LocalReference{Name: name}, Version: u.Spec.Version, Image: u.Status.Plan.ToImage, DropLogicalSlots: u.Spec.DropLogicalSlots,
		},
	}
}

// awaitCopyUpgrade waits until the copy runs on the new version and its maintenance is done, and records how long each part took.
func awaitCopyUpgrade(_ context.Context, o *observed) flow.Outcome {
	run, upgrade := o.status().Rehearsal, o.rehearsal.upgrade
	condition := meta.FindStatusCondition(upgrade.Status.Conditions, v1alpha1.ConditionSucceeded)
	switch {
	case condition == nil:
		return flow.Poll(lookAgain, v1alpha1.ReasonRehearsing, fmt.Sprintf("Upgrade %s of the copy has not begun yet.", run.Name))
	case condition.Status != metav1.ConditionTrue || upgrade.Status.CompletedAt == nil:
		return flow.Poll(lookAgain, v1alpha1.ReasonRehearsing, fmt.Sprintf("Upgrade %s of the copy: %s", run.Name, condition.Message))
	case o.status().CheckedAt != nil:
		return flow.Next
	}
	takeUpgrade(o)
	return flow.Save(v1alpha1.ReasonRehearsing, fmt.Sprintf("The copy was upgraded. It accepted no connections for about %s.", seconds(run.DowntimeSeconds)))
}

// takeUpgrade takes over what the Upgrade of the copy has found, and how long it took.
func takeUpgrade(o *observed) {
	if o.rehearsal.upgrade == nil {
		return
	}
	run, of := o.status().Rehearsal, &o.rehearsal.upgrade.Status
	o.status().Findings, o.status().CheckedAt = of.Findings, of.CheckedAt
	run.PreviousBytes = of.PreviousBytes
	run.PreflightSeconds = between(of.StartedAt, of.CheckedAt)
	run.DowntimeSeconds = between(of.DownAt, of.UpAt)
	run.MaintenanceSeconds = between(of.UpAt, of.CompletedAt)
}

// between is how many seconds passed, at least one; 0: that is not known.
func between(from, to *metav1.Time) int64 {
	if from == nil || to == nil {
		return 0
	}
	return max(1, int64(to.Sub(from.Time).Round(time.Second).Seconds()))
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

// lineage that the cluster archived to when the rehearsal was planned.
func (o *observed) lineage() string {
	plan := o.status().Plan
	return protocol.Lineage(plan.FromSystemIdentifier, plan.FromGeneration)
}
