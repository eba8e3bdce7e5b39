package cluster

import (
	"context"
	"fmt"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
)

func (r *Reconciler) ensureFinalizer(ctx context.Context, w *world) flow.Outcome {
	outcome := flow.EnsureFinalizer(ctx, r.Client, w.cluster, Finalizer)
	if outcome.Rewritten && !w.begun() {
		w.own.Begin()
	}
	return outcome
}

// pinBeginning records what the cluster is, before anything of it is made: a new default of the suite changes none of it.
func (r *Reconciler) pinBeginning(ctx context.Context, w *world) flow.Outcome {
	if w.begun() {
		return flow.Next
	}
	status := &w.cluster.Status
	status.DataGeneration = protocol.DataGeneration(w.cluster.UID, 0)
	status.MajorVersion = w.cluster.Spec.Version
	status.Version = fmt.Sprint(w.cluster.Spec.Version)
	status.Image = w.cluster.Spec.Image
	if status.Image == "" {
		status.Image = r.Images[w.cluster.Spec.Version]
	}
	status.AgentImage = r.Agent.Image
	status.DataInstance = w.names.Instance(0)
	report(w, r.initializing(w)) // what the pass comes to if all goes well: to say it later would be another write
	return w.record(ctx)
}

// pinImage takes over a changed spec.image, as long as it is one of the major version that runs.
func (r *Reconciler) pinImage(_ context.Context, w *world) flow.Outcome {
	spec, status := w.cluster.Spec, &w.cluster.Status
	if spec.Image == "" || spec.Image == status.Image || spec.Version != status.MajorVersion {
		return flow.Next
	}
	status.Image = spec.Image
	return flow.Save(v1alpha1.ReasonApplying, "The image "+spec.Image+" is being taken over.")
}
