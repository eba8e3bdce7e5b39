package failoverdrill

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/volumelock"
)

// lookAgain is how often a drill that waits looks again, for what no watch tells of.
const lookAgain = 15 * time.Second

// defaultStartWithin and defaultTimeout are what spec says they are.
const (
	defaultStartWithin = 10 * time.Minute
	defaultTimeout     = 15 * time.Minute
)

func durationOr(d *metav1.Duration, otherwise time.Duration) time.Duration {
	if d == nil {
		return otherwise
	}
	return d.Duration
}

// preflight waits until a fault is safe, for as long as spec.startWithin lets it, before anything is requested.
func preflight(_ context.Context, o *observed) flow.Outcome {
	if o.drill.Status.Request != nil {
		return flow.Next
	}
	outcome := safe(o)
	if outcome.Kind != flow.KindWait {
		return outcome
	}
	within := durationOr(o.drill.Spec.StartWithin, defaultStartWithin)
	left := o.drill.CreationTimestamp.Add(within).Sub(o.now)
	if left <= 0 {
		return flow.Stop(outcome.Reason, fmt.Sprintf("No fault was caused within spec.startWithin (%s), because it was not safe. %s", within, outcome.Message))
	}
	return flow.Poll(min(lookAgain, left), outcome.Reason, outcome.Message)
}

// safe is a chain of pure policies: why the fault must not be caused now, or Next.
func safe(o *observed) flow.Outcome {
	for _, policy := range []func(*observed) flow.Outcome{
		clusterExists, clusterHasReplicas, nothingIsLost, nothingIsPaused, clusterIsWhole, walIsArchived, nobodyWorksOnIt, noOtherDrill, budgetIsLeft,
	} {
		if outcome := policy(o); !outcome.Finished() {
			return outcome
		}
	}
	return flow.Next
}

func unsafe(format string, values ...any) flow.Outcome {
	return flow.Wait(v1alpha1.ReasonUnsafe, fmt.Sprintf(format, values...))
}

func clusterExists(o *observed) flow.Outcome {
	switch {
	case o.cluster == nil:
		return flow.Missing(o.drill, o.now, v1alpha1.ReasonClusterNotFound, fmt.Sprintf(
			"There is no PostgresCluster %s in namespace %s. `kubectl get pgc` lists those that exist.", o.drill.Spec.Cluster.Name, o.drill.Namespace))
	case !o.cluster.DeletionTimestamp.IsZero():
		return flow.Stop(v1alpha1.ReasonClusterReplaced, fmt.Sprintf("PostgresCluster %s is being deleted.", o.cluster.Name))
	}
	return flow.Next
}

func clusterHasReplicas(o *observed) flow.Outcome {
	to, replica := o.drill.Spec.Fault.To, o.drill.Spec.Fault.Instance
	switch {
	case o.cluster.DesiredInstances() < 2:
		return flow.Stop(v1alpha1.ReasonInvalidSpec, fmt.Sprintf(
			"PostgresCluster %s has one instance, so no other instance could take over. Set spec.instances: 3 there, and create another FailoverDrill.", o.cluster.Name))
	case to != "" && to == o.cluster.Status.Primary:
		return flow.Stop(v1alpha1.ReasonInvalidSpec, fmt.Sprintf("%s is the primary already. Create a FailoverDrill with another spec.fault.to, or without it.", to))
	case replica != "" && replica == o.cluster.Status.Primary:
		return flow.Stop(v1alpha1.ReasonInvalidSpec, fmt.Sprintf("%s is the primary, and the fault StopReplica hits a replica. Create a FailoverDrill with another spec.fault.instance, or without it.", replica))
	case replica != "" && len(o.cluster.Status.Instances) > 0 && o.instance(replica) == nil:
		return flow.Stop(v1alpha1.ReasonInvalidSpec, fmt.Sprintf("PostgresCluster %s has no instance %s. Create a FailoverDrill with another spec.fault.instance, or without it.", o.cluster.Name, replica))
	}
	return flow.Next
}

// nothingIsLost: a primary that has no time to hand over takes with it what no replica has confirmed.
func nothingIsLost(o *observed) flow.Outcome {
	fault := o.drill.Spec.Fault
	if !protocol.FaultMayLose(fault) || o.cluster.Spec.Synchronous != nil {
		return flow.Next
	}
	what, instead := fmt.Sprintf("the fault %s", fault.Type), fmt.Sprintf("with spec.fault.type: %s", v1alpha1.FaultDeletePrimaryPod)
	if fault.Force {
		what, instead = "a forced deletion", "without spec.fault.force"
	}
	return flow.Stop(v1alpha1.ReasonInvalidSpec, fmt.Sprintf("PostgresCluster %s replicates asynchronously, so %s could lose acknowledged commits, "+
		"those of applications as well. Set spec.synchronous there, and create another FailoverDrill, or create one %s.", o.cluster.Name, what, instead))
}

func nothingIsPaused(o *observed) flow.Outcome {
	spec := &o.cluster.Spec
	failover := spec.Failover
	switch {
	case spec.Hibernate:
		return unsafe("PostgresCluster %s is hibernated (spec.hibernate).", o.cluster.Name)
	case failover != nil && failover.PausedUntil != nil && o.now.Before(failover.PausedUntil.Time):
		return unsafe("spec.failover.pausedUntil of PostgresCluster %s keeps instances from taking over until %s.", o.cluster.Name, failover.PausedUntil.UTC().Format(time.RFC3339))
	case failover != nil && len(failover.Fenced) > 0:
		return unsafe("%s is fenced by spec.failover.fenced of PostgresCluster %s.", failover.Fenced[0], o.cluster.Name)
	case spec.Repair.Paused(o.now):
		return unsafe("Repairs of PostgresCluster %s are paused. End that with kubectl howdah resume %s.", o.cluster.Name, o.cluster.Name)
	}
	return flow.Next
}

// clusterIsWhole: all instances run, and each replica follows and could take over.
func clusterIsWhole(o *observed) flow.Outcome {
	if !volumelock.Ready(o.cluster) {
		return flow.Wait(v1alpha1.ReasonClusterNotReady, fmt.Sprintf("Waiting until PostgresCluster %s is Ready. It says: %s", o.cluster.Name, volumelock.State(o.cluster)))
	}
	if missing := notWhole(o.cluster); missing != "" {
		return unsafe("%s", missing)
	}
	return flow.Next
}

// notWhole says which instance does not run or follow; empty: all do.
func notWhole(cluster *v1alpha1.PostgresCluster) string {
	status := &cluster.Status
	if wanted := cluster.DesiredInstances(); len(status.Instances) != int(wanted) || status.ReadyInstances != wanted {
		return fmt.Sprintf("%d of %d instances accept connections.", status.ReadyInstances, wanted)
	}
	heirs := 0
	for i := range status.Instances {
		instance := &status.Instances[i]
		delayed := cluster.Spec.Delay(instance.Name) > 0 // it follows late, and never takes over
		if instance.Name != status.Primary && !delayed {
			heirs++
		}
		switch {
		case !instance.Ready:
			return fmt.Sprintf("%s does not accept connections.", instance.Name)
		case instance.Name == status.Primary && instance.Role != v1alpha1.RolePrimary:
			return fmt.Sprintf("%s is not primary yet.", instance.Name)
		case instance.Name != status.Primary && !delayed && (!instance.Streaming || !instance.Eligible):
			return fmt.Sprintf("%s does not follow the primary as a member yet.", instance.Name)
		}
	}
	if heirs == 0 {
		return "All replicas are delayed (spec.delayedReplicas), so no other instance could take over."
	}
	return ""
}

// walIsArchived: with a repository, all that was written is there soon, whatever happens to the volumes.
func walIsArchived(o *observed) flow.Outcome {
	if o.cluster.Spec.Archive == nil {
		return flow.Next
	}
	if condition := meta.FindStatusCondition(o.cluster.Status.Conditions, v1alpha1.ConditionArchiving); condition == nil || condition.Status != metav1.ConditionTrue {
		return unsafe("WAL of PostgresCluster %s is not being archived (condition Archiving).", o.cluster.Name)
	}
	return flow.Next
}

func nobodyWorksOnIt(o *observed) flow.Outcome {
	status, name := &o.cluster.Status, o.cluster.Name
	switch {
	case len(status.VolumeLocks) > 0:
		return unsafe("%s %s works on the volumes of PostgresCluster %s.", status.VolumeLocks[0].Kind, status.VolumeLocks[0].Name, name)
	case status.Switchover != nil && status.Switchover.State == v1alpha1.SwitchoverRunning:
		return unsafe("A switchover of PostgresCluster %s has not ended.", name)
	case status.Cloning() != "":
		return unsafe("%s is being cloned again.", status.Cloning())
	case status.ImageChange != nil:
		return unsafe("A change of image of PostgresCluster %s has not reached every instance.", name)
	case len(status.Maintenance) > 0:
		return unsafe("Maintenance after a restore or an upgrade of PostgresCluster %s has not ended.", name)
	}
	for i := range o.backups {
		if b := &o.backups[i]; b.Spec.Cluster.Name == name && b.Status.CompletedAt == nil && b.DeletionTimestamp.IsZero() {
			return unsafe("Backup %s has not ended.", b.Name)
		}
	}
	for i := range o.restores {
		if r := &o.restores[i]; r.Spec.Destination.ClusterName() == name && r.Status.CompletedAt == nil {
			return unsafe("Restore %s has not ended.", r.Name)
		}
	}
	for i := range o.upgrades {
		if u := &o.upgrades[i]; u.Spec.Cluster.Name == name && u.Status.CompletedAt == nil {
			return unsafe("Upgrade %s has not ended.", u.Name)
		}
	}
	return flow.Next
}

// noOtherDrill: of several drills of a cluster, one runs at a time, the oldest first.
func noOtherDrill(o *observed) flow.Outcome {
	mine := o.drill
	i := slices.IndexFunc(o.drills, func(d v1alpha1.FailoverDrill) bool {
		other := d.UID != mine.UID && d.Spec.Cluster.Name == mine.Spec.Cluster.Name && d.Status.CompletedAt == nil && d.DeletionTimestamp.IsZero()
		older := d.CreationTimestamp.Before(&mine.CreationTimestamp) || d.CreationTimestamp.Equal(&mine.CreationTimestamp) && d.UID < mine.UID
		return other && (d.Status.Request != nil || older && mine.Status.Request == nil)
	})
	if i >= 0 {
		return unsafe("FailoverDrill %s has not ended.", o.drills[i].Name)
	}
	return flow.Next
}

func budgetIsLeft(o *observed) flow.Outcome {
	next := protocol.NextFault(o.cluster.Status.DrilledFaults, o.drill.Spec.MaxPerWeek, o.now)
	if next.IsZero() {
		return flow.Next
	}
	return flow.Wait(v1alpha1.ReasonBudgetSpent, fmt.Sprintf(
		"Drills have caused %d faults in PostgresCluster %s within seven days, which is all that spec.maxPerWeek allows. The next one is possible from %s.",
		len(protocol.DrilledFaults(o.cluster.Status.DrilledFaults, o.now)), o.cluster.Name, next.UTC().Format(time.RFC3339)))
}
