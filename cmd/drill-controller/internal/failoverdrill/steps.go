package failoverdrill

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/workload"
)

const (
	// prepareLimit is how long it may take until rows are written.
	prepareLimit = 5 * time.Minute
	// settleTime is for how long rows are written to a cluster that is whole: a client notices the end of an outage late.
	settleTime = 5 * time.Second
	// countLimit is how long the Job may take to count its rows.
	countLimit = 5 * time.Minute
)

// request asks the db-controller to prepare the cluster. From here on the drill is under way.
func request(_ context.Context, o *observed) flow.Outcome {
	status := &o.drill.Status
	if status.Request != nil {
		return flow.Next
	}
	status.Request, status.StartedAt = &v1alpha1.FailoverDrillRequest{ClusterUID: o.cluster.UID}, &metav1.Time{Time: o.now}
	return flow.Save(v1alpha1.ReasonPreparing, "It is safe to cause the fault. The db-controller is asked to prepare the cluster.")
}

func awaitPrepared(_ context.Context, o *observed) flow.Outcome {
	if o.response() != nil {
		return flow.Next
	}
	return flow.Poll(lookAgain, v1alpha1.ReasonPreparing, fmt.Sprintf("Waiting until the db-controller has prepared PostgresCluster %s.", o.cluster.Name))
}

// runWriter starts the Job that writes rows.
func (r *Reconciler) runWriter(ctx context.Context, o *observed) flow.Outcome {
	if o.writer.Exists || o.decided() {
		return flow.Next
	}
	if err := r.writer(o).Ensure(ctx, r.Client); err != nil {
		return workload.NotEnsured(err)
	}
	return flow.Poll(lookAgain, v1alpha1.ReasonPreparing, "The Job that writes rows is starting.")
}

func (r *Reconciler) writer(o *observed) workload.Job {
	object := agentapi.Object{
		Kind: v1alpha1.KindFailoverDrill, Resource: "failoverdrills", Namespace: o.drill.Namespace, Name: o.drill.Name, UID: string(o.drill.UID),
	}
	return workload.Job{
		Name: protocol.FailoverDrillName(o.drill.Name), Owner: o.drill, Cluster: o.cluster.Name, Component: workload.ComponentFailoverDrill,
		Image: r.Agent.Image, Agent: r.Agent, Args: []string{"failover-drill"}, Inline: true, Progress: &object, ClusterSpec: &o.cluster.Spec,
		Spec:            agentapi.FailoverDrillJob{Object: object, Host: o.cluster.Status.Connection.Host},
		ClientTLSSecret: protocol.FailoverDrillSecret(o.cluster.Name), Resources: resources(&o.cluster.Spec),
		Limit: prepareLimit + durationOr(o.drill.Spec.Timeout, defaultTimeout) + 2*countLimit,
	}
}

// bounds of a limit of CPU, where the cluster has one: a Job that waits for its turn would measure that as an outage.
var bounds = workload.Bounds{
	Least: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")}, Most: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
}

func resources(cluster *v1alpha1.PostgresClusterSpec) corev1.ResourceRequirements {
	return bounds.Limit(corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")},
	}, cluster)
}

// awaitWriting waits until both clients of the Job write.
func awaitWriting(_ context.Context, o *observed) flow.Outcome {
	if p := o.drill.Status.Progress; o.decided() || p != nil && p.Phase == agentapi.FailoverDrillWriting {
		return flow.Next
	}
	message := "Waiting until the Job has written rows."
	if trouble := o.writer.Trouble(); trouble != "" {
		message += " " + trouble
	}
	return flow.Poll(lookAgain, o.writer.Reason(v1alpha1.ReasonPreparing), message)
}

// decide records which pod is to be hit, if a fault is still safe. The db-controller looks again before it acts.
func decide(_ context.Context, o *observed) flow.Outcome {
	status := &o.drill.Status
	if o.decided() {
		return flow.Next
	}
	outcome := safe(o)
	victim := o.victim()
	switch {
	case outcome.Finished() && victim != nil && victim.PodUID != "":
		status.Request.Inject = &v1alpha1.FailoverInjection{Instance: victim.Name, PodUID: victim.PodUID, DecidedAt: metav1.Time{Time: o.now}}
		return flow.Save(v1alpha1.ReasonInjecting, fmt.Sprintf("The fault %s is to hit %s.", o.drill.Spec.Fault.Type, victim.Name))
	case outcome.Finished():
		outcome = unsafe("The pod that the fault %s is to hit in PostgresCluster %s is not known.", o.drill.Spec.Fault.Type, o.cluster.Name)
	}
	status.Failure = &v1alpha1.Failure{Reason: v1alpha1.ReasonUnsafe, Message: "No fault was caused, because the cluster changed while the drill was prepared. " + outcome.Message}
	return flow.Save(v1alpha1.ReasonUnsafe, status.Failure.Message)
}

func awaitInjected(_ context.Context, o *observed) flow.Outcome {
	status, response := &o.drill.Status, o.response()
	if status.InjectedAt != nil {
		return flow.Next
	}
	if response == nil || response.State != v1alpha1.FailoverDrillInjected || response.InjectedAt == nil {
		message := "Waiting until the db-controller has caused the fault."
		if response != nil && response.Message != "" {
			message += " " + response.Message
		}
		return flow.Poll(lookAgain, v1alpha1.ReasonInjecting, message)
	}
	status.InjectedAt = response.InjectedAt
	return flow.Save(v1alpha1.ReasonAwaitingWhole, "The fault was caused. "+response.Message)
}

// awaitWhole waits until all instances run and follow again, and the effect of the fault shows in the status.
func awaitWhole(_ context.Context, o *observed) flow.Outcome {
	if o.drill.Status.WholeAt != nil {
		return flow.Next
	}
	if missing := recovering(o); missing != "" {
		return flow.Poll(lookAgain, v1alpha1.ReasonAwaitingWhole, "The fault was caused. "+missing)
	}
	o.drill.Status.WholeAt = &metav1.Time{Time: o.now}
	return flow.Save(v1alpha1.ReasonMeasuring, "All instances run and follow again.")
}

// recovering says what is missing until the cluster is whole again; empty: nothing. A status from before the fault shows a whole cluster, too.
func recovering(o *observed) string {
	inject := o.drill.Status.Request.Inject
	hit := o.instance(inject.Instance)
	switch fault := o.drill.Spec.Fault.Type; {
	case hit == nil || (fault == v1alpha1.FaultDeletePrimaryPod || fault == v1alpha1.FaultStopReplica) && hit.PodUID == inject.PodUID:
		return fmt.Sprintf("The pod of %s has not been replaced yet.", inject.Instance)
	case fault == v1alpha1.FaultSwitchover && o.cluster.Status.Primary == inject.Instance:
		return fmt.Sprintf("Nobody has taken over from %s yet.", inject.Instance)
	}
	if missing := notWhole(o.cluster); missing != "" {
		return missing
	}
	if outcome := clusterIsWhole(o); !outcome.Finished() {
		return outcome.Message
	}
	return ""
}

// stopWriting tells the Job to count its rows, once its clients have had time to notice the end of the outage.
func (r *Reconciler) stopWriting(_ context.Context, o *observed) flow.Outcome {
	status := &o.drill.Status
	if status.StopWriting {
		return flow.Next
	}
	if left := status.WholeAt.Add(r.settle).Sub(o.now); left > 0 {
		return flow.Poll(left, v1alpha1.ReasonMeasuring, "All instances run and follow again. Rows are written for some seconds more.")
	}
	status.StopWriting = true
	return flow.Save(v1alpha1.ReasonMeasuring, "The Job counts its rows.")
}

// takeResult takes over what the Job has measured.
func takeResult(_ context.Context, o *observed) flow.Outcome {
	if !o.writer.Said() && !o.writer.Ended() {
		return flow.Poll(lookAgain, v1alpha1.ReasonMeasuring, "The Job counts its rows.")
	}
	var measured agentapi.FailoverDrillResult
	status := &o.drill.Status
	if !o.writer.Result(&measured) {
		status.Failure = &v1alpha1.Failure{Reason: v1alpha1.ReasonWriterFailed, Message: "The result of the Job that wrote rows can't be read."}
		return flow.Save(status.Failure.Reason, status.Failure.Message)
	}
	status.Result = &v1alpha1.FailoverDrillResult{
		LongestGap: milliseconds(measured.LongestGapMilliseconds), LongestGapKept: milliseconds(measured.LongestGapKeptMilliseconds),
		RowsAcknowledged: measured.Acknowledged, RowsLost: measured.Lost, Primary: o.cluster.Status.Primary,
		TimeToWhole: metav1.Duration{Duration: max(0, status.WholeAt.Sub(status.InjectedAt.Time).Round(time.Second))},
	}
	return flow.Save(v1alpha1.ReasonMeasuring, "The Job has counted its rows.")
}

func milliseconds(n int64) metav1.Duration {
	return metav1.Duration{Duration: time.Duration(n) * time.Millisecond}
}
