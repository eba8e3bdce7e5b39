package upgrade

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/workload"
)

// askHold asks the db-controller for the volumes.
func (r *Reconciler) askHold(_ context.Context, w *world) flow.Outcome {
	if w.upgrade.Status.VolumeLockRequest != nil || w.handedOver() {
		return flow.Next
	}
	if w.upgrade.Spec.Cancel {
		return r.cancel(w)
	}
	w.upgrade.Status.VolumeLockRequest = &v1alpha1.VolumeLockRequest{
		Cluster: w.cluster.Name, ClusterUID: w.cluster.UID, Token: token(w.upgrade), Mode: v1alpha1.VolumeLockStopped,
	}
	w.upgrade.Status.DownAt = &metav1.Time{Time: r.now()}
	return flow.Save(v1alpha1.ReasonAwaitingVolumeLock, "asking the db-controller for the volumes")
}

// awaitHold waits until PostgreSQL is stopped and the volumes are ours.
func (r *Reconciler) awaitHold(_ context.Context, w *world) flow.Outcome {
	if w.handedOver() {
		return flow.Next
	}
	answer := w.answer()
	switch {
	case w.upgrade.Status.Handover == nil && w.upgrade.Spec.Cancel:
		return r.cancel(w)
	case answer == nil:
		return flow.Wait(v1alpha1.ReasonAwaitingVolumeLock, "waiting for the db-controller to answer")
	case answer.State == v1alpha1.VolumeLockRefused:
		return r.rollBack(w, v1alpha1.ReasonVolumeLockRefused+": "+answer.Message)
	case answer.State == v1alpha1.VolumeLockQueued:
		return flow.Wait(v1alpha1.ReasonAwaitingVolumeLock, answer.Message)
	case w.cluster.Status.DataGeneration != w.upgrade.Status.Plan.FromGeneration && answer.State == v1alpha1.VolumeLockGranted:
		return r.rollBack(w, "the cluster's data was replaced since the plan was made; make another Upgrade")
	}
	return flow.Next
}

// runUpgrade starts the Job that writes the new data generation.
func (r *Reconciler) runUpgrade(ctx context.Context, w *world) flow.Outcome {
	if w.upgrade.Status.Handover != nil || w.work.Exists {
		return flow.Next
	}
	if w.work.Foreign {
		return r.rollBack(w, w.work.Message)
	}
	answer, plan := w.answer(), w.upgrade.Status.Plan
	if len(answer.Volumes) == 0 {
		return r.rollBack(w, "the db-controller granted no volume")
	}
	spec := r.job(w)
	job := workload.Job{
		Name: workJob(w.upgrade), Owner: w.upgrade, Cluster: w.cluster.Name, Component: workload.ComponentUpgrade,
		Image: plan.ToImage, Agent: r.agent, Args: []string{"upgrade", "run"}, Spec: spec, Progress: &spec.Object,
		OldImage: plan.FromImage, DataClaim: answer.Volumes[0].ClaimName,
	}
	if err := job.Ensure(ctx, r.writer); err != nil {
		return flow.Retry(err)
	}
	return flow.Wait(v1alpha1.ReasonUpgrading, "pg_upgrade is starting")
}

// awaitUpgrade looks at the Job; its failure leads back to the old version.
func (r *Reconciler) awaitUpgrade(_ context.Context, w *world) flow.Outcome {
	switch {
	case w.upgrade.Status.Handover != nil:
		return flow.Next
	case w.work.Ended() && w.work.Failed:
		_, message := w.work.FailureReason()
		return r.rollBack(w, message)
	case !w.work.Ended() && !w.work.Said():
		return flow.Wait(v1alpha1.ReasonUpgrading, orElse(w.work.Message, "pg_upgrade runs; the cluster is down"))
	}
	return flow.Next
}

// handOver offers the new generation to the db-controller.
func (r *Reconciler) handOver(ctx context.Context, w *world) flow.Outcome {
	if w.upgrade.Status.Handover != nil {
		return flow.Next
	}
	var result agentapi.UpgradeResult
	if !w.work.Result(&result) {
		return r.again(ctx, w, workJob(w.upgrade), w.work)
	}
	w.upgrade.Status.Handover = &v1alpha1.Handover{
		Token: token(w.upgrade), DataGeneration: result.DataGeneration, SystemIdentifier: result.SystemIdentifier,
		MajorVersion: int32(result.MajorVersion), Image: w.upgrade.Status.Plan.ToImage,
	}
	w.upgrade.Status.HandedOverAt = &metav1.Time{Time: r.now()}
	return flow.Save(v1alpha1.ReasonAwaitingAdoption, "the new data is handed over")
}

// awaitAdopted waits until the new version takes connections, and takes it back when that lasts too long.
func (r *Reconciler) awaitAdopted(_ context.Context, w *world) flow.Outcome {
	status := &w.upgrade.Status
	if w.handedOver() {
		return flow.Next
	}
	adopted := protocol.Adopted(w.cluster, w.upgrade.UID, status.VolumeLockRequest, status.Handover)
	if adopted && w.clusterReady() && w.cluster.Status.MajorVersion == w.upgrade.Spec.Version {
		status.UpAt = &metav1.Time{Time: r.now()}
		return flow.Save(v1alpha1.ReasonFinishing, "the new version takes connections")
	}
	late := status.HandedOverAt.Add(startLimit)
	if r.now().After(late) {
		return r.rollBack(w, fmt.Sprintf("the new version did not take connections within %s; the cluster says %s", startLimit, w.clusterState()))
	}
	return flow.Poll(late.Sub(r.now()), v1alpha1.ReasonAwaitingAdoption, "waiting until the cluster is Ready on the new version; it says "+w.clusterState())
}

// askBackup asks for the first backup of the new lineage. The way back by an older backup ends with the major version.
func (r *Reconciler) askBackup(_ context.Context, w *world) flow.Outcome {
	if w.upgrade.Status.BackupRequest != nil || w.cluster.Spec.Archive == nil {
		return flow.Next
	}
	w.upgrade.Status.BackupRequest = &v1alpha1.BackupRequest{
		Cluster: w.cluster.Name, ClusterUID: w.cluster.UID, Token: token(w.upgrade), Purpose: v1alpha1.PurposeFirst,
	}
	return flow.Save(v1alpha1.ReasonAwaitingBackup, "asking for the first backup of the new version")
}

// withdrawHold gives the cluster free.
func (r *Reconciler) withdrawHold(_ context.Context, w *world) flow.Outcome {
	if w.upgrade.Status.VolumeLockRequest == nil {
		return flow.Next
	}
	w.upgrade.Status.VolumeLockRequest = nil
	return flow.Save(v1alpha1.ReasonFinishing, "the volumes are given back")
}

// awaitMaintenance waits until extensions and statistics are up to date.
func (r *Reconciler) awaitMaintenance(_ context.Context, w *world) flow.Outcome {
	if left := w.cluster.Status.Maintenance; len(left) > 0 {
		return flow.Wait(v1alpha1.ReasonFinishing, fmt.Sprintf("the new version runs; still being brought up to date: %v", left))
	}
	return flow.Next
}

// awaitBackup waits for the first backup. Its failure doesn't undo the upgrade: it is asked for again.
func (r *Reconciler) awaitBackup(_ context.Context, w *world) flow.Outcome {
	wanted := w.upgrade.Status.BackupRequest
	if wanted == nil {
		return flow.Next
	}
	answer, message := protocol.BackupOutcomeFor(w.backup, wanted)
	switch answer {
	case protocol.BackupSucceeded:
		return flow.Next
	case protocol.BackupFailed:
		return flow.Wait(v1alpha1.ReasonAwaitingBackup, "the new version runs, but its first backup failed: "+message+
			"; when that is mended, delete Backup "+w.backup.Name+" and it is taken again")
	}
	return flow.Wait(v1alpha1.ReasonAwaitingBackup, "the new version runs; its first backup is being taken: "+message)
}

func (r *Reconciler) finish(_ context.Context, w *world) flow.Outcome {
	w.upgrade.Status.BackupRequest = nil
	w.upgrade.Status.CompletedAt = &metav1.Time{Time: r.now()}
	return flow.Next
}
