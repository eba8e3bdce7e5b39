package cluster

import (
	"context"
	"fmt"

	"howdah.dev/howdah/cmd/db-controller/internal/instances"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/report"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
)

func (r *Reconciler) ensureFinalizer(ctx context.Context, o *observed.Cluster) flow.Outcome {
	outcome := flow.EnsureFinalizer(ctx, r.Client, o.Cluster, observed.Finalizer)
	if outcome.Rewritten && !o.Begun() {
		o.Own.Begin()
	}
	return outcome
}

// pinBeginning records what the cluster is, before anything of it is created: a new default of the suite changes none of it.
func (r *Reconciler) pinBeginning(ctx context.Context, o *observed.Cluster) flow.Outcome {
	if o.Begun() {
		return flow.Next
	}
	status := &o.Cluster.Status
	status.DataGeneration = protocol.DataGeneration(o.Cluster.UID, 0)
	status.MajorVersion = o.Cluster.Spec.Version
	status.Version = fmt.Sprint(o.Cluster.Spec.Version)
	status.Image = o.Cluster.Spec.Image
	if status.Image == "" {
		status.Image = r.Images[o.Cluster.Spec.Version]
	}
	status.AgentImage = r.Agent.Image
	status.DataInstance = o.Names.Instance(0)
	instances.PinClone(o)
	report.Write(o, instances.Initializing(o)) // what the pass comes to if all goes well: to say it later would be another write
	return o.Record(ctx)
}
