package upgrade

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/workload"
)

func requestLock(_ context.Context, o *observed) flow.Outcome {
	outcome := o.lock().Request(0, o.maxDowntime())
	if request := o.status().VolumeLockRequest; request != nil && !outcome.Finished() {
		request.ReplicasLast = o.links()
	}
	return outcome
}

// maxDowntime that was asked for; for an automatic upgrade it is that of the policy of its cluster, as it is when the cluster is about to be stopped.
func (o *observed) maxDowntime() *metav1.Duration {
	updates := o.cluster.Spec.Updates
	if o.upgrade.Spec.MaxDowntime == nil && o.upgrade.Spec.Automatic && updates != nil {
		return updates.MaxDowntime
	}
	return o.upgrade.Spec.MaxDowntime
}

func awaitLock(_ context.Context, o *observed) flow.Outcome { return o.lock().Await() }

func pinPrevious(_ context.Context, o *observed) flow.Outcome {
	return o.lock().PinPrevious()
}

// runUpgrade starts the Job that writes the new data generation.
func (r *Reconciler) runUpgrade(ctx context.Context, o *observed) flow.Outcome {
	switch {
	case o.upgrade.Status.Handover != nil:
		return flow.Next
	case o.work.Exists && r.upgradeJob(o).Misplaced(o.work):
		return r.again(ctx, o, workJob(o.upgrade), o.work, placedAnew)
	case o.work.Exists:
		return flow.Next
	}
	if outcome := (linker{r}).deleteInspections(ctx, o); !outcome.Finished() {
		return outcome
	}
	if err := r.upgradeJob(o).Ensure(ctx, r.Client); err != nil {
		return o.notEnsured(err)
	}
	return flow.Wait(v1alpha1.ReasonUpgrading, "The Job that runs pg_upgrade is starting.")
}

func (r *Reconciler) upgradeJob(o *observed) workload.Job {
	spec, plan := r.job(o), o.upgrade.Status.Plan
	spec.Link = o.link()
	return workload.Job{
		Name: workJob(o.upgrade), Owner: o.upgrade, Cluster: o.cluster.Name, Component: workload.ComponentUpgrade,
		Image: plan.ToImage, Agent: r.Agent, Args: []string{"upgrade", "run"}, Spec: spec, Progress: &spec.Object,
		OldImage: plan.FromImage, ClusterSpec: &o.cluster.Spec, DataClaim: o.lock().Volume().ClaimName, Limit: o.lock().TimeLeft(),
		Resources: resourcesOf(o.cluster, upgrading),
	}
}

// awaitUpgrade waits until the Job has written the new data. Its failure is failure's.
func (r *Reconciler) awaitUpgrade(_ context.Context, o *observed) flow.Outcome {
	if o.upgrade.Status.Handover != nil || o.work.Ended() || o.work.Said() {
		return flow.Next
	}
	return o.work.Await(v1alpha1.ReasonUpgrading, underWay("pg_upgrade runs, and the cluster accepts no connections.", o.work))
}

// handOver offers the new generation to the db-controller.
func (r *Reconciler) handOver(ctx context.Context, o *observed) flow.Outcome {
	if o.upgrade.Status.Handover != nil {
		return flow.Next
	}
	var result agentapi.UpgradeResult
	if !o.work.Result(&result) {
		return r.again(ctx, o, workJob(o.upgrade), o.work, resultLost)
	}
	if !o.links() { // what is linked takes no space here, and was seen on the replica
		o.upgrade.Status.PreviousBytes = result.PreviousBytes
	}
	return o.lock().HandOver(v1alpha1.Handover{
		DataGeneration: result.DataGeneration, SystemIdentifier: result.SystemIdentifier,
		MajorVersion: int32(result.MajorVersion), Image: o.upgrade.Status.Plan.ToImage, // there are few versions
	})
}

func awaitRunning(_ context.Context, o *observed) flow.Outcome {
	return o.lock().AwaitRunning(startLimit)
}

// pinUp records since when the new version accepts connections. A failure that was recorded before is void: nothing was taken back,
// and clients may have written to the new version.
func (r *Reconciler) pinUp(_ context.Context, o *observed) flow.Outcome {
	status := &o.upgrade.Status
	if status.UpAt != nil {
		return flow.Next
	}
	status.UpAt, status.Failure = o.lock().ServedSince(), nil
	if status.UpAt == nil { // since when is not known any more, and a person gets the whole time to decide
		status.UpAt = &metav1.Time{Time: o.now}
		return flow.Save(v1alpha1.ReasonFinishing, fmt.Sprintf("PostgresCluster %s has run on the new data before, which this status doesn't know of.", o.upgrade.Spec.Cluster.Name))
	}
	return flow.Save(v1alpha1.ReasonFinishing, fmt.Sprintf("PostgreSQL %d accepts connections.", o.upgrade.Spec.Version))
}

// clusterStillExists ends an Upgrade whose cluster was deleted after it was upgraded.
func (r *Reconciler) clusterStillExists(_ context.Context, o *observed) flow.Outcome {
	if o.cluster != nil {
		return flow.Next
	}
	return flow.Stop(v1alpha1.ReasonClusterReplaced, fmt.Sprintf("PostgresCluster %s was deleted after it had been upgraded.", o.upgrade.Spec.Cluster.Name))
}
