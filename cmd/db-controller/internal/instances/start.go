package instances

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/apply"
	"howdah.dev/howdah/cmd/db-controller/internal/availability"
	"howdah.dev/howdah/cmd/db-controller/internal/component/lease"
	"howdah.dev/howdah/cmd/db-controller/internal/desired"
	"howdah.dev/howdah/cmd/db-controller/internal/hibernation"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/ownwrites"
	"howdah.dev/howdah/cmd/db-controller/internal/report"
	"howdah.dev/howdah/pkg/flow"
)

// SettleBeginning records who has every commit before a Lease is created in place of one that was deleted: nothing else would
// keep an instance that was left behind from beginning. An agent that holds the Lease writes it again as it was.
func SettleBeginning(_ context.Context, o *observed.Cluster) flow.Outcome {
	data := o.Names.Instance(o.DataInstance())
	if !lacksLease(o) || o.Cluster.Status.DataInstance == data {
		return flow.Next
	}
	o.Cluster.Status.DataInstance = data
	return flow.Save(v1alpha1.ReasonApplying, fmt.Sprintf("The Lease %s is being created; %s has every commit.", o.Names.Lease(), data))
}

// lacksLease: the agents have nothing to elect over.
func lacksLease(o *observed.Cluster) bool { return o.Electing() && o.LeaseRead && o.Lease == nil }

// beginningTold: all pods were told of the configuration that says who begins.
func beginningTold(o *observed.Cluster) bool {
	for i := range o.Pods {
		if o.Pods[i].Annotations[v1alpha1.AnnotationConfigHash] != desired.AgentConfig(o).Hash() && o.Pods[i].DeletionTimestamp.IsZero() {
			return false
		}
	}
	return true
}

// EnsureLease creates the Lease, empty, before any agent looks for it. One that is there is the agents'. In
// place of one that was deleted it comes only when all were told who begins.
func (s *Steps) EnsureLease(ctx context.Context, o *observed.Cluster) flow.Outcome {
	if !lacksLease(o) || !beginningTold(o) {
		return flow.Next
	}
	empty := lease.Empty(o.Cluster)
	if err := controllerutil.SetControllerReference(o.Cluster, empty, s.Client.Scheme()); err != nil {
		return flow.Retry(fmt.Errorf("own Lease %s: %w", empty.Name, err))
	}
	err := o.Own.Taken(s.Client.Create(ctx, empty, client.FieldOwner(apply.FieldManager)))
	if client.IgnoreAlreadyExists(err) != nil {
		return flow.Retry(fmt.Errorf("create Lease %s: %w", empty.Name, err))
	}
	o.Own.Remember(observed.Key("Lease", empty.Name), empty)
	log.FromContext(ctx).Info("Wrote object", "kind", "Lease", "name", empty.Name, "new", true)
	return flow.Next
}

// FirstStart says whether PostgreSQL is to be started for the first time on what the init Job has created, and this process has seen all that
// was ever done to the cluster. So nobody but the Job can have used a volume: they are granted by a write of ours alone, and
// recordStart finds out if another process has written since. The Job has ended for good, whatever a cache says later: its pod
// has ended well, and another one would find the data whole and leave it. That there is no StatefulSet is found out by the
// attempt to create it. Who has requested the volumes a moment ago and isn't seen yet is not answered yet, either.
func FirstStart(o *observed.Cluster) bool {
	return o.Own.Complete() && o.StatefulSet() == nil && !o.BootstrapsByRestore() && !o.BeginsWithVolumes() && o.Initialized() &&
		len(o.Requests) == 0 && len(o.Cluster.Status.VolumeLocks) == 0
}

// RecordStart says that PostgreSQL is being started, ahead of the first start. The API server takes that only on the cluster
// as it was seen, so this takes the place of a look at whether that is current.
func RecordStart(ctx context.Context, o *observed.Cluster) flow.Outcome {
	if o.Fresh || !FirstStart(o) || hibernation.Hibernating(o) || len(o.Workers) > 0 {
		return flow.Next
	}
	reason, message := availability.NotServing(o)
	report.Write(o, flow.Wait(reason, message)) // what the pass comes to: to say it later would be another write
	seen := o.Cluster.ResourceVersion
	outcome := o.Record(ctx)
	if outcome.Finished() && o.Cluster.ResourceVersion == seen {
		return flow.Retry(fmt.Errorf("start PostgreSQL: %w or was: there is nothing to record", ownwrites.ErrTaken))
	}
	return outcome
}
