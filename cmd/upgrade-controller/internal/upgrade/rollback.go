package upgrade

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/workload"
)

// rollBack decides to go back to the old version, and records why before anything of it is done.
func (r *Reconciler) rollBack(w *world, why string) flow.Outcome {
	if runes := []rune(why); len(runes) > 900 {
		why = string(runes[:900]) + "…"
	}
	w.upgrade.Status.RollingBack = why
	return flow.Save(v1alpha1.ReasonRollingBack, why)
}

// cancel goes back as spec.cancel asks.
func (r *Reconciler) cancel(w *world) flow.Outcome { return r.rollBack(w, cancelled) }

const cancelled = "spec.cancel asked for it"

// conclude ends the Upgrade without success where nothing has to be taken back.
func (r *Reconciler) conclude(w *world, reason, message string) flow.Outcome {
	w.upgrade.Status.CompletedAt = &metav1.Time{Time: r.now()}
	return flow.Stop(reason, message)
}

// stopJobs deletes the Jobs and waits until their pods are gone: only then may the volumes change hands.
func (r *Reconciler) stopJobs(ctx context.Context, w *world) flow.Outcome {
	if outcome := r.deleteJobs(ctx, w); !outcome.Finished() {
		return outcome
	}
	if w.check.Exists || w.work.Exists {
		return flow.Poll(2*time.Second, v1alpha1.ReasonRollingBack, "waiting until the Job's pods are gone")
	}
	return flow.Next
}

// deleteJobs deletes the Jobs without waiting; they have ended.
func (r *Reconciler) deleteJobs(ctx context.Context, w *world) flow.Outcome {
	if err := workload.Delete(ctx, r.writer, w.upgrade, checkJob(w.upgrade), w.check); err != nil {
		return flow.Retry(err)
	}
	return flow.Retry(workload.Delete(ctx, r.writer, w.upgrade, workJob(w.upgrade), w.work))
}

// takeBack hands the old generation over where the cluster had taken the new one.
func (r *Reconciler) takeBack(_ context.Context, w *world) flow.Outcome {
	handover, plan := w.upgrade.Status.Handover, w.upgrade.Status.Plan
	if handover == nil || handover.DataGeneration == plan.FromGeneration || w.cluster == nil {
		return flow.Next
	}
	w.upgrade.Status.Handover = &v1alpha1.Handover{
		Token: token(w.upgrade), DataGeneration: plan.FromGeneration, SystemIdentifier: plan.FromSystemIdentifier,
		MajorVersion: plan.FromVersion, Image: plan.FromImage,
	}
	return flow.Save(v1alpha1.ReasonRollingBack, "handing the old data back")
}

// awaitTakenBack waits until the db-controller says that it has taken the old generation, before the hold is given up. That it
// still has it says nothing: it may be about to take the new one.
func (r *Reconciler) awaitTakenBack(_ context.Context, w *world) flow.Outcome {
	status := w.upgrade.Status
	if status.Handover == nil || status.VolumeLockRequest == nil || w.cluster == nil ||
		protocol.Adopted(w.cluster, w.upgrade.UID, status.VolumeLockRequest, status.Handover) {
		return flow.Next
	}
	return flow.Wait(v1alpha1.ReasonRollingBack, "waiting until the db-controller takes the old data")
}

// awaitOldVersion waits until the old version takes connections again.
func (r *Reconciler) awaitOldVersion(_ context.Context, w *world) flow.Outcome {
	if w.cluster == nil || w.clusterReady() && w.cluster.Status.MajorVersion == w.upgrade.Status.Plan.FromVersion {
		return flow.Next
	}
	return flow.Wait(v1alpha1.ReasonRollingBack, fmt.Sprintf("%s; waiting until the old version takes connections again: %s",
		w.upgrade.Status.RollingBack, w.clusterState()))
}

func (r *Reconciler) finishRolledBack(_ context.Context, w *world) flow.Outcome {
	if w.upgrade.Status.RollingBack == cancelled {
		return r.conclude(w, v1alpha1.ReasonCancelled, "cancelled; the cluster runs on as before")
	}
	return r.conclude(w, v1alpha1.ReasonRolledBack, fmt.Sprintf("PostgreSQL %d runs as before, because: %s",
		w.upgrade.Status.Plan.FromVersion, w.upgrade.Status.RollingBack))
}

func (r *Reconciler) removeFinalizer(ctx context.Context, w *world) flow.Outcome {
	return flow.RemoveFinalizer(ctx, r.writer, w.upgrade, finalizer)
}

// expire deletes an Upgrade whose time after its end is over.
func (r *Reconciler) expire(ctx context.Context, w *world) flow.Outcome {
	return flow.Expire(ctx, r.writer, w.upgrade, *w.upgrade.Status.CompletedAt, w.upgrade.Spec.TTLSecondsAfterFinished, r.now())
}
