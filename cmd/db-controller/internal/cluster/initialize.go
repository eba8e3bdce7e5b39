package cluster

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/workload"
)

// initialize brings the first data onto the volume: by the init Job, or by waiting for a Restore.
func (r *Reconciler) initialize(ctx context.Context, w *world) flow.Outcome {
	if w.initialized() {
		return flow.Next
	}
	if w.bootstrapsByRestore() {
		return r.initializing(w)
	}
	state := w.initJob
	switch {
	case state.Deleting:
		return flow.Wait(v1alpha1.ReasonInitializing, "The init Job is going away, to be made again.")
	case r.initJobOutdated(w):
		// A Job can't be changed. What it has half written counts for nothing, and is written anew.
		if err := workload.Delete(ctx, r.Client, w.cluster, w.names.InitJob(), state); err != nil {
			return flow.Retry(err)
		}
		return flow.Wait(v1alpha1.ReasonInitializing, "The init Job is being made again, with another image or other resources.")
	case !state.Exists:
		if err := r.initJob(w).Ensure(ctx, r.Client); err != nil {
			return flow.Retry(err)
		}
		w.own.Remember(key("Job", w.names.InitJob()), w.cluster) // that it was created is all that counts
		return r.initializing(w)
	case state.Failed && state.Ended():
		_, message := state.FailureReason()
		return flow.Stop(v1alpha1.ReasonInitFailed, fmt.Sprintf("Job %s has failed: %s When that is mended, delete the Job; it is made again.",
			w.names.InitJob(), sentence(message)))
	case len(w.workers) > 0:
		if reason, message := podTrouble(&w.workers[0]); reason != "" {
			return flow.Wait(reason, message)
		}
	}
	return r.initializing(w)
}

// initializing is the outcome of a pass that has begun to bring the first data onto the volume.
func (r *Reconciler) initializing(w *world) flow.Outcome {
	if w.bootstrapsByRestore() {
		return flow.Wait(v1alpha1.ReasonAwaitingRestore, awaitedRestore(w))
	}
	return flow.Wait(v1alpha1.ReasonInitializing, "The init Job makes the database.")
}

// initJobOutdated: the image or the resources were changed since the Job was made, mostly because it could not run.
func (r *Reconciler) initJobOutdated(w *world) bool {
	job, ok := w.live[key("Job", w.names.InitJob())].(*batchv1.Job)
	if !ok || !w.initJob.Exists || w.initJob.Complete {
		return false
	}
	wanted := r.initJob(w)
	container := job.Spec.Template.Spec.Containers[0]
	return container.Image != wanted.Image || !equality.Semantic.DeepEqual(container.Resources, wanted.Resources)
}

func (r *Reconciler) initJob(w *world) workload.Job {
	resources := w.cluster.Spec.Resources
	return workload.Job{
		Name: w.names.InitJob(), Owner: w.cluster, Cluster: w.cluster.Name, Component: workload.ComponentInit,
		Image: w.cluster.Status.Image, Agent: r.Agent, Args: []string{"init"},
		Spec: agentapi.InitJob{
			DataGeneration: w.cluster.Status.DataGeneration, MajorVersion: int(w.cluster.Status.MajorVersion),
		},
		Inline:    true,
		DataClaim: w.names.Volume(0),
		Resources: corev1.ResourceRequirements{Requests: resources.Requests, Limits: resources.Limits},
	}
}

func awaitedRestore(w *world) string {
	name := w.cluster.Spec.Bootstrap.Restore.Name
	if w.restore == nil {
		return fmt.Sprintf("The volume waits for the data of Restore %s, which doesn't exist: delete this PostgresCluster and make a Restore, which makes its cluster itself.", name)
	}
	return fmt.Sprintf("The volume waits for the data of Restore %s.", name)
}

// releaseInitJob clears away what was left of the start, once there is no way back to it.
func (r *Reconciler) releaseInitJob(ctx context.Context, w *world) flow.Outcome {
	if !w.hasRun() {
		return flow.Next
	}
	return r.removeInitJob(ctx, w)
}

// stopInitialization ends the init Job of a cluster that is deleted before it began to run.
func (r *Reconciler) stopInitialization(ctx context.Context, w *world) flow.Outcome {
	return r.removeInitJob(ctx, w)
}

func (r *Reconciler) removeInitJob(ctx context.Context, w *world) flow.Outcome {
	job, ok := w.live[key("Job", w.names.InitJob())].(*batchv1.Job)
	if !ok || foreign(job, w.cluster) || !job.DeletionTimestamp.IsZero() {
		return flow.Next
	}
	if err := r.remove(ctx, job); err != nil {
		return flow.Retry(err)
	}
	return flow.Next
}
