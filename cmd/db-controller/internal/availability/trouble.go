package availability

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/phrase"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/workload"
)

// NotServing says why nobody accepts connections that write.
func NotServing(o *observed.Cluster) (reason, message string) {
	primary := o.Primary()
	if primary >= 0 {
		return InstanceTrouble(o, primary)
	}
	last := o.LastPrimary() // the others wait for it, and it says why it doesn't come
	instances := []int{last}
	for ordinal := range o.Reach() {
		instances = append(instances, ordinal)
	}
	for _, ordinal := range instances {
		if agent := o.Agent(ordinal); agent != nil && agent.Election != nil && agent.Election.Waiting != "" {
			return v1alpha1.ReasonElecting, fmt.Sprintf("There is no primary: %s: %s", agent.Pod, phrase.Sentence(agent.Election.Waiting))
		}
	}
	return InstanceTrouble(o, last)
}

// InstanceTrouble says why an instance accepts no connections.
func InstanceTrouble(o *observed.Cluster, ordinal int) (reason, message string) {
	pod := o.Pod(ordinal)
	if pod == nil {
		leaving := leavingClaim(o, ordinal)
		if reason, message := refused(o, ordinal); reason != "" && leaving == "" { // where the claim is on its way out, Kubernetes refuses the pod for that
			return reason, message
		}
		return v1alpha1.ReasonStarting, fmt.Sprintf("Pod %s is being created.%s", o.Names.Instance(ordinal), leaving)
	}
	if !pod.DeletionTimestamp.IsZero() {
		return v1alpha1.ReasonRestarting, fmt.Sprintf("Pod %s is being deleted, and will be created again.%s", pod.Name, Stuck(o))
	}
	if reason, message := Trouble(o, ordinal, pod); reason != "" {
		return reason, message
	}
	agent, silent := o.Agent(ordinal), Silent(o, pod)
	switch {
	case silent != "":
		return v1alpha1.ReasonAgentUnreachable, fmt.Sprintf("Pod %s runs; its agent doesn't respond. %s", pod.Name, silent)
	case agent == nil && observed.PodRuns(pod):
		return v1alpha1.ReasonStarting, fmt.Sprintf("Pod %s runs; its agent doesn't respond yet.", pod.Name)
	case agent == nil:
		return v1alpha1.ReasonStarting, fmt.Sprintf("Pod %s is being started.", pod.Name)
	}
	return agentTrouble(pod.Name, agent)
}

// stuckTime is how long after its grace period a pod may take to go before a person is told.
const stuckTime = 30 * time.Second

// Stuck says that a pod should be gone and isn't; empty: all is well. Such a pod is never taken for stopped: on a node
// that is only cut off PostgreSQL still runs.
func Stuck(o *observed.Cluster) string {
	for i := range o.Pods {
		if gone := o.Pods[i].DeletionTimestamp; gone != nil && o.Now.Sub(gone.Time) > stuckTime {
			return fmt.Sprintf(" Pod %s doesn't end. If node %s is lost for good, delete the node, or give it the taint node.kubernetes.io/out-of-service.",
				o.Pods[i].Name, o.Pods[i].Spec.NodeName)
		}
	}
	return ""
}

// givenUpAfter is how long after its time a pod that is being deleted may still be there before a stop is given up.
const givenUpAfter = 2 * time.Minute

// NeverEnds says which pod keeps a stop from coming to an end, and that the stop is given up; empty: none.
func NeverEnds(o *observed.Cluster) string {
	for i := range o.Pods {
		if gone := o.Pods[i].DeletionTimestamp; gone != nil && o.Now.Sub(gone.Time) > givenUpAfter {
			return strings.TrimSpace(Stuck(o))
		}
	}
	return ""
}

// Endangered says which pod alone keeps the volume of an instance from being deleted, and what a person can do; empty: none. Kubernetes
// deletes a claim that is in use once its pod has ended, so no such pod is ended here.
func Endangered(o *observed.Cluster) string {
	for ordinal := range o.Reach() {
		if Endangers(o, ordinal) {
			name := o.Names.Instance(ordinal)
			return fmt.Sprintf("PersistentVolumeClaim %s is marked for deletion, and is deleted with its data when pod %s ends. Howdah will not stop that pod. %s",
				observed.LeavingClaim(o, ordinal).Name, name, rescue(o, ordinal))
		}
	}
	return ""
}

// Endangers says whether the end of an instance's pod would take its volume away.
func Endangers(o *observed.Cluster, ordinal int) bool {
	pod := o.Pod(ordinal)
	return observed.LeavingClaim(o, ordinal) != nil && pod != nil && pod.DeletionTimestamp.IsZero()
}

// leavingClaim says that an instance waits until its previous claim is gone.
func leavingClaim(o *observed.Cluster, ordinal int) string {
	claim := observed.LeavingClaim(o, ordinal)
	if claim == nil {
		return ""
	}
	return fmt.Sprintf(" First, PersistentVolumeClaim %[1]s has to be deleted completely. If that takes long, kubectl describe pvc %[1]s shows which pods still use it.", claim.Name)
}

// rescue is how the data of an instance gets to another volume.
func rescue(o *observed.Cluster, ordinal int) string {
	name := o.Names.Instance(ordinal)
	switch {
	case o.Wanted() == 1:
		return "Set spec.instances to 2 and wait until the second instance follows; then switch over to it."
	case ordinal == o.Primary():
		return "Switch over to a replica that follows; then delete the pod, which comes back with a new volume and a copy of the data."
	}
	return fmt.Sprintf("Delete pod %s while its primary runs; it comes back with a new volume and a copy of the data.", name)
}

// Unstoppable says which pod would not end if all were stopped now, as far as can be known; empty: none.
func Unstoppable(o *observed.Cluster) string {
	if endangered := Endangered(o); endangered != "" {
		return endangered
	}
	for i := range o.Pods {
		pod := &o.Pods[i]
		switch {
		case !pod.DeletionTimestamp.IsZero():
			return fmt.Sprintf("Pod %s is being deleted; nothing is stopped before it has ended.%s", pod.Name, Stuck(o))
		case workload.NodeLost(pod):
			return fmt.Sprintf("Node %s of pod %s doesn't respond, so the pod could not be stopped; nothing is stopped before it responds.", pod.Spec.NodeName, pod.Name)
		}
	}
	return ""
}

// imageWaits are the reasons of kubelet for a container that has no image.
var imageWaits = []string{"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable"}

// PodTrouble is what Kubernetes says of a pod that doesn't come up; an empty reason: nothing.
func PodTrouble(pod *corev1.Pod) (reason, message string) {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return v1alpha1.ReasonUnschedulable, fmt.Sprintf("Pod %s can't be scheduled: %s", pod.Name, phrase.Sentence(condition.Message))
		}
	}
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		waiting := status.State.Waiting
		switch {
		case waiting == nil || waiting.Reason == "PodInitializing" || waiting.Reason == "ContainerCreating":
		case slices.Contains(imageWaits, waiting.Reason):
			return v1alpha1.ReasonImageUnavailable, fmt.Sprintf("Pod %s can't pull the image %s: %s: %s", pod.Name, imageWaited(pod, status), waiting.Reason, phrase.Sentence(waiting.Message))
		default:
			return v1alpha1.ReasonUnavailable, phrase.Sentence(fmt.Sprintf("Container %s of pod %s waits: %s%s%s", status.Name, pod.Name, waiting.Reason,
				phrase.Prefixed(": ", waiting.Message), lastWords(status)))
		}
	}
	return "", ""
}

// imageWaited is the image that a container waits for: its own, or that of the agent, which it mounts.
func imageWaited(pod *corev1.Pod, status corev1.ContainerStatus) string {
	if agent := workload.AgentImage(pod); agent != "" && strings.Contains(status.State.Waiting.Message, agent) {
		return agent
	}
	return status.Image
}

// lastWords of a container that has ended before.
func lastWords(status corev1.ContainerStatus) string {
	last := status.LastTerminationState.Terminated
	if last == nil {
		return ""
	}
	return fmt.Sprintf("; it ended with exit status %d%s", last.ExitCode, phrase.Prefixed(": ", last.Message))
}

// agentTrouble is what an agent says of a PostgreSQL that accepts no connections.
func agentTrouble(pod string, agent *agentapi.Status) (reason, message string) {
	switch agent.State {
	case agentapi.StateFailed:
		return v1alpha1.ReasonUnavailable, phrase.Sentence(fmt.Sprintf("PostgreSQL in pod %s can't start%s", pod, phrase.Prefixed(": ", agent.Message)))
	case agentapi.StateStopping:
		return v1alpha1.ReasonRestarting, phrase.Sentence(fmt.Sprintf("PostgreSQL in pod %s is being stopped%s", pod, phrase.Prefixed(": ", agent.Message)))
	case agentapi.StateStopped:
		return v1alpha1.ReasonUnavailable, phrase.Sentence(fmt.Sprintf("PostgreSQL in pod %s is down%s", pod, phrase.Prefixed(": ", agent.Message)))
	case agentapi.StateRunning:
		return v1alpha1.ReasonStarting, phrase.Sentence(fmt.Sprintf("PostgreSQL in pod %s runs; Kubernetes has yet to see that it is ready%s", pod, phrase.Prefixed(": ", agent.Message)))
	}
	return v1alpha1.ReasonStarting, phrase.Sentence(fmt.Sprintf("PostgreSQL in pod %s is starting%s", pod, phrase.Prefixed(": ", agent.Message)))
}
