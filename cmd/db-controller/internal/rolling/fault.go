package rolling

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/agentclient"
	"howdah.dev/howdah/cmd/db-controller/internal/availability"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/pace"
	"howdah.dev/howdah/cmd/db-controller/internal/phrase"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
)

// injectWithin is how long after it was decided on, and after that was recorded here, a fault may still be caused: what was safe then may not be any
// more.
const injectWithin = 2 * time.Minute

// CauseFault causes the fault that the FailoverDrill whose turn it is has decided on, once. What is about to be hit is recorded first, by
// its UID, so a repeat hits nothing else.
func (s *Steps) CauseFault(ctx context.Context, o *observed.Cluster) flow.Outcome {
	response := o.Cluster.Status.FailoverDrill
	if o.FailoverDrill == nil || response == nil || response.UID != o.FailoverDrill.UID || o.FailoverDrill.Status.Request.Inject == nil {
		return flow.Next
	}
	switch response.State {
	case v1alpha1.FailoverDrillPrepared:
		return beginFault(o)
	case v1alpha1.FailoverDrillInjecting:
		switch o.FailoverDrill.Spec.Fault.Type {
		case v1alpha1.FaultDeletePrimaryPod, v1alpha1.FaultStopReplica:
			return s.deleteForDrill(ctx, o)
		case v1alpha1.FaultKillPostmaster, v1alpha1.FaultFreezePostmaster:
			return s.faultByAgent(ctx, o)
		}
		return s.drillSwitchover(ctx, o)
	}
	return flow.Next
}

// beginFault records that the fault is about to be caused, or why it is not.
func beginFault(o *observed.Cluster) flow.Outcome {
	response, inject := o.Cluster.Status.FailoverDrill, o.FailoverDrill.Status.Request.Inject
	if decided := inject.DecidedAt; !decided.IsZero() && o.Now.Sub(decided.Time) > injectWithin {
		return refuseExpired(o)
	}
	if why := refuseFault(o, inject); why != "" {
		return endFault(o, v1alpha1.FailoverDrillRefused, why)
	}
	response.State, response.Instance, response.PodUID, response.InjectedAt = v1alpha1.FailoverDrillInjecting, inject.Instance, inject.PodUID, observed.TimeOf(o.Now)
	o.Cluster.Status.DrilledFaults = append(protocol.DrilledFaults(o.Cluster.Status.DrilledFaults, o.Now), *response.InjectedAt)
	response.Message = fmt.Sprintf("FailoverDrill %s hits %s.", response.Name, response.Instance)
	return flow.Save(v1alpha1.ReasonFailoverDrill, response.Message)
}

// refuseFault says why the cluster is in no state for a fault; empty: it is. It is pure.
func refuseFault(o *observed.Cluster, inject *v1alpha1.FailoverInjection) string {
	fault := o.FailoverDrill.Spec.Fault
	for _, look := range []func(*observed.Cluster) string{refuseByPlan, refuseByLoss, refuseByWork, refuseByReplicas} {
		if why := look(o); why != "" {
			return why
		}
	}
	ordinal, role := o.Names.Ordinal(inject.Instance), "the primary"
	if fault.Type == v1alpha1.FaultStopReplica {
		role = "a replica"
	}
	isPrimary := ordinal == o.Primary()
	switch pod := o.Pod(ordinal); {
	case isPrimary == (fault.Type == v1alpha1.FaultStopReplica) || pod == nil || pod.UID != inject.PodUID || !pod.DeletionTimestamp.IsZero():
		return fmt.Sprintf("%s is no longer %s in the same pod as when the fault was decided on.", inject.Instance, role)
	case fault.To == inject.Instance:
		return fmt.Sprintf("%s is the primary already.", fault.To)
	case fault.To != "" && availability.Delayed(o, fault.To):
		return fmt.Sprintf("%s is a delayed replica, and does not take over.", fault.To)
	case fault.To != "" && (o.Names.Ordinal(fault.To) < 0 || o.Names.Ordinal(fault.To) >= o.Wanted()):
		return fmt.Sprintf("There is no instance %s: the instances are %s to %s.", fault.To, o.Names.Instance(0), o.Names.Instance(o.Wanted()-1))
	}
	return ""
}

// refuseByPlan is what a person has decided.
func refuseByPlan(o *observed.Cluster) string {
	switch {
	case o.Deleting():
		return "The cluster is being deleted."
	case o.Wanted() == 1:
		return "There is only one instance, so no other instance could take over."
	}
	if why := Held(o); why != "" {
		return why
	}
	if o.Cluster.Spec.Repair.Paused(o.Now) {
		return "spec.repair pauses repairs."
	}
	return ""
}

// refuseByLoss is what the fault could cost: a primary that has no time to hand over takes with it what no replica has confirmed.
func refuseByLoss(o *observed.Cluster) string {
	if fault := o.FailoverDrill.Spec.Fault; protocol.FaultMayLose(fault) && o.Cluster.Spec.Synchronous == nil {
		return fmt.Sprintf("The cluster replicates asynchronously, so the fault %s could lose acknowledged commits.", fault.Type)
	}
	return ""
}

// refuseByWork is what else is done to the cluster.
func refuseByWork(o *observed.Cluster) string {
	if why := Busy(o); why != "" {
		return why
	}
	if move := o.Cluster.Status.StorageMove; move != nil && move.State == v1alpha1.StorageMoveMoving {
		return "The instances are being moved to other volumes."
	}
	return ""
}

// refuseByReplicas is whether everybody is there and follows.
func refuseByReplicas(o *observed.Cluster) string {
	primary := o.Primary()
	if primary < 0 || !o.Electing() {
		return "There is no primary that accepts connections."
	}
	heirs := 0
	for ordinal := range o.Wanted() {
		switch name := o.Names.Instance(ordinal); {
		case ordinal == primary || availability.Delayed(o, name):
		case !availability.Streams(o, ordinal):
			return fmt.Sprintf("%s does not follow the primary.", name)
		default:
			heirs++
		}
	}
	if heirs == 0 {
		return "All replicas are delayed (spec.delayedReplicas), so no other instance could take over."
	}
	return ""
}

// deleteForDrill deletes the pod that was recorded, unless it is gone or going.
func (s *Steps) deleteForDrill(ctx context.Context, o *observed.Cluster) flow.Outcome {
	response, force := o.Cluster.Status.FailoverDrill, o.FailoverDrill.Spec.Fault.Force
	pod := o.Pod(o.Names.Ordinal(response.Instance))
	if pod == nil || pod.UID != response.PodUID || !pod.DeletionTimestamp.IsZero() && !force {
		return endFault(o, v1alpha1.FailoverDrillInjected, fmt.Sprintf("The pod of %s was deleted.", response.Instance))
	}
	if expired(o) && pod.DeletionTimestamp.IsZero() {
		return refuseExpired(o)
	}
	options := []client.DeleteOption{client.Preconditions{UID: &response.PodUID}}
	if force {
		options = append(options, client.GracePeriodSeconds(0))
	}
	log.FromContext(ctx).Info("Deleting a pod for a failover drill", "pod", pod.Name, "drill", response.Name, "force", force)
	err := s.Client.Delete(ctx, pod, append(options, client.PropagationPolicy(metav1.DeletePropagationBackground))...)
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return flow.Retry(fmt.Errorf("delete pod %s: %w", pod.Name, err))
	}
	return flow.Poll(pace.BusyInterval, v1alpha1.ReasonFailoverDrill, response.Message)
}

// faultByAgent has the agent of the instance that was recorded cause the fault, and hears what came of it. The fault counts as caused once
// the server that it hit has ended, so that the status that says so does not describe a cluster that is still whole.
func (s *Steps) faultByAgent(ctx context.Context, o *observed.Cluster) flow.Outcome {
	response := o.Cluster.Status.FailoverDrill
	ordinal := o.Names.Ordinal(response.Instance)
	pod, agent := o.Pod(ordinal), o.Agent(ordinal)
	switch {
	case pod == nil || pod.UID != response.PodUID: // whether it was hit before is not known, and on doubt it was
		return endFault(o, v1alpha1.FailoverDrillInjected, fmt.Sprintf("The pod of %s was replaced meanwhile.", response.Instance))
	case agent == nil: // it may have caused the fault
		return flow.Poll(pace.BusyInterval, v1alpha1.ReasonFailoverDrill, fmt.Sprintf("The agent of %s does not respond.", response.Instance))
	case agent.Fault == nil || agent.Fault.Token != string(response.UID):
		if expired(o) {
			return refuseExpired(o)
		}
		return s.requestFault(ctx, o, pod)
	}
	switch message := phrase.Sentence(agent.Fault.Message); agent.Fault.State {
	case agentapi.FaultDone:
		return endFault(o, v1alpha1.FailoverDrillInjected, message)
	case agentapi.FaultRefused:
		return endFault(o, v1alpha1.FailoverDrillRefused, message)
	}
	return flow.Poll(pace.BusyInterval, v1alpha1.ReasonFailoverDrill, response.Message)
}

func (s *Steps) requestFault(ctx context.Context, o *observed.Cluster, pod *corev1.Pod) flow.Outcome {
	response, fault := o.Cluster.Status.FailoverDrill, o.FailoverDrill.Spec.Fault.Type
	target, ok := o.AgentTarget(pod)
	if !ok {
		return flow.Poll(pace.BusyInterval, v1alpha1.ReasonFailoverDrill, fmt.Sprintf("The agent of %s can't be reached yet.", response.Instance))
	}
	log.FromContext(ctx).Info("Requesting a fault for a failover drill", "pod", pod.Name, "drill", response.Name, "fault", fault)
	err := s.Agents.Fault(ctx, target, agentapi.FaultRequest{Token: string(response.UID), Fault: string(fault)})
	switch {
	case errors.Is(err, agentclient.ErrUnknownRoute):
		return endFault(o, v1alpha1.FailoverDrillRefused, fmt.Sprintf(
			"The agent of %s is too old to do this. Create another FailoverDrill once its pod has been replaced.", response.Instance))
	case err != nil:
		log.FromContext(ctx).V(1).Info("The agent didn't accept the request", "pod", pod.Name, "reason", err.Error())
		return flow.Poll(pace.BusyInterval, v1alpha1.ReasonFailoverDrill, fmt.Sprintf("The agent of %s didn't accept the request, which is repeated.", response.Instance))
	}
	return flow.Poll(pace.BusyInterval, v1alpha1.ReasonFailoverDrill, response.Message)
}

// drillSwitchover asks the agent of the primary to hand over, and hears how it goes.
func (s *Steps) drillSwitchover(ctx context.Context, o *observed.Cluster) flow.Outcome {
	response, to := o.Cluster.Status.FailoverDrill, o.FailoverDrill.Spec.Fault.To
	primary := o.Primary()
	if primary < 0 {
		_, message := availability.NotServing(o)
		return flow.Poll(pace.BusyInterval, v1alpha1.ReasonFailoverDrill, message)
	}
	now := o.Names.Instance(primary)
	if now != response.Instance {
		return endFault(o, v1alpha1.FailoverDrillInjected, fmt.Sprintf("%s took over from %s.", now, response.Instance))
	}
	if pod := o.PrimaryPod(); pod == nil || pod.UID != response.PodUID {
		return endFault(o, v1alpha1.FailoverDrillRefused, fmt.Sprintf("The pod of %s was replaced before it had handed over.", response.Instance))
	}
	said := lastSwitchover(o.PrimaryAgent())
	if said == nil || said.Token != string(response.UID) {
		if expired(o) {
			return refuseExpired(o)
		}
		return s.requestSwitchover(ctx, o, string(response.UID), to, response.Message)
	}
	if said.State == agentapi.SwitchoverRefused {
		return endFault(o, v1alpha1.FailoverDrillRefused, phrase.Sentence(said.Message))
	}
	return flow.Poll(pace.BusyInterval, v1alpha1.ReasonFailoverDrill, switchingMessage(now, to))
}

func expired(o *observed.Cluster) bool {
	at := o.Cluster.Status.FailoverDrill.InjectedAt
	return at != nil && o.Now.Sub(at.Time) > injectWithin
}

func refuseExpired(o *observed.Cluster) flow.Outcome {
	return endFault(o, v1alpha1.FailoverDrillRefused, fmt.Sprintf(
		"The fault was not caused within %s after it had been decided on, and the cluster may have changed since.", injectWithin))
}

// endFault records how it ended. A fault that was refused after all was not caused, and counts in no budget.
func endFault(o *observed.Cluster, state v1alpha1.ClusterFailoverDrillState, message string) flow.Outcome {
	status := &o.Cluster.Status
	response := status.FailoverDrill
	response.State, response.Message = state, message
	if at := response.InjectedAt; state == v1alpha1.FailoverDrillRefused && at != nil {
		if i := slices.IndexFunc(status.DrilledFaults, func(counted metav1.Time) bool { return counted.Unix() == at.Unix() }); i >= 0 {
			status.DrilledFaults = slices.Delete(slices.Clone(status.DrilledFaults), i, i+1)
		}
		response.InjectedAt = nil
	}
	return flow.Save(v1alpha1.ReasonFailoverDrill, message)
}
