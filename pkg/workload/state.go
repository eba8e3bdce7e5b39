package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
)

// State is how a Job stands.
type State struct {
	// Exists: the Job is there and its owner is the one asked for.
	Exists bool
	// UID of the Job, where it exists.
	UID types.UID
	// Deleting: it is going away; wait until it is gone.
	Deleting bool
	// Foreign: a Job of that name belongs to somebody else. Leaving: that is a former owner of the same name, so Kubernetes deletes it.
	Foreign, Leaving bool
	// Complete or Failed: it has ended. Neither: it runs.
	Complete, Failed bool
	// Done: a pod of it has done its work, and none does any. Kubernetes takes seconds more to say so of the pod, and then of
	// the Job.
	Done bool
	// Pods that have not ended.
	LivePods int
	// Overdue is when the last of its pods that have not ended should have been gone, if all of them were told to go; zero
	// else.
	Overdue time.Time
	// WithoutNode is since when its pods that have not ended have no node; zero: one has, or there is none.
	WithoutNode time.Time
	// Outcome is what the last pod that ended has said; nil if nothing could be read.
	Outcome *agentapi.Outcome
	// Sidecars says that it has failed because of injected containers, and what to do; empty: it has not.
	Sidecars string
	// podless: it runs, and has no pod.
	podless bool
	// fixedUser: its pods run as a user that their namespace doesn't choose.
	fixedUser bool
	// unplaced: it runs, and none of its pods has ever had a node. placement is what it was created with.
	unplaced  bool
	placement string
	// Message for a person while it runs or after it failed: why the pod waits, or what the last one said.
	Message string
}

// lostAfter is how long after its time a pod may still be there before its node counts as lost.
const lostAfter = time.Minute

// Lost reports that no pod of the Job will be heard of again: each was told to go, as Kubernetes does with those of a node
// that doesn't respond, and none is gone by now. Such a pod may still run, cut off; it ends when its node is back, or
// nobody ever hears that it did.
func (s State) Lost(now time.Time) bool {
	return s.LivePods > 0 && !s.Overdue.IsZero() && now.Sub(s.Overdue) > lostAfter
}

// unscheduledAfter is how long the pods of a Job may have no node before that counts as an obstacle.
const unscheduledAfter = time.Minute

// Unscheduled reports that the scheduler has found no node for the Job's pods, for longer than a busy one takes.
func (s State) Unscheduled(now time.Time) bool {
	return !s.WithoutNode.IsZero() && now.Sub(s.WithoutNode) > unscheduledAfter
}

// withoutNodeSince is when the first of the pods that have not ended was created, if none of them has a node.
func withoutNodeSince(pods []corev1.Pod) (since time.Time) {
	for i := range pods {
		switch pod := &pods[i]; {
		case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		case pod.Spec.NodeName != "":
			return time.Time{}
		case since.IsZero() || pod.CreationTimestamp.Time.Before(since):
			since = pod.CreationTimestamp.Time
		}
	}
	return since
}

// LostMessage says what a person does about a Job that is Lost.
const LostMessage = "The node of the Job's pod doesn't respond. If it is lost for good, delete the node, or give it the taint node.kubernetes.io/out-of-service; " +
	"the volume is free once the pod is known to have ended."

// Taken reports that the name of the Job is taken, for as long as nobody deletes what has it.
func (s State) Taken() bool { return s.Foreign && !s.Leaving }

// ofFormer says that a Job belongs to an object which had the name of the owner and was deleted.
func ofFormer(job *batchv1.Job, owner client.Object) bool {
	then := metav1.GetControllerOf(job)
	return then != nil && then.APIVersion == v1alpha1.GroupVersion.String() && then.Name == owner.GetName() && then.UID != owner.GetUID()
}

// Ended reports that no pod of the Job runs and none will.
func (s State) Ended() bool { return (s.Complete || s.Failed) && s.LivePods == 0 }

// Said reports that the work is done and that its result is known. Its containers have ended; Kubernetes has yet to say so of
// the Job.
func (s State) Said() bool {
	return s.Done && !s.Deleting && s.Outcome != nil && s.Outcome.Result != nil
}

// Result decodes the result of a complete Job. False: it said none that could be read, and the Job has to be made
// again; its work is done, so that is quick.
func (s State) Result(into any) bool {
	return s.Outcome != nil && s.Outcome.Result != nil && json.Unmarshal(s.Outcome.Result, into) == nil
}

// Trouble is a sentence on what a pod of a Job that runs waits for, or on what the last one that failed has said.
func (s State) Trouble() string {
	switch {
	case (s.LivePods > 0 || s.podless) && s.Message != "":
		return s.Message
	case s.Outcome != nil && s.Outcome.Error != nil:
		return "The Job tries again. Its previous pod ended with: " + flow.Sentence(s.Outcome.Error.Message)
	}
	return ""
}

// mostMemory is up to where a Job gets more memory by itself: some three million files. Beyond it a person decides.
const mostMemory = 2 << 30

// NeedsMemory is the limit that the pods of a failed Job would need, in bytes, where it may have that without being asked for: spec
// sets no limit, and it had less. 0: that is not why it failed.
func (s State) NeedsMemory(had int64, spec *v1alpha1.Resources) int64 {
	if spec != nil && !spec.Limits.Memory().IsZero() || s.Outcome == nil || s.Outcome.Error == nil {
		return 0
	}
	if needs := s.Outcome.Error.NeedsMemory; needs > had && needs <= mostMemory {
		return needs
	}
	return 0
}

// GrowMemory gives a Job more than its usual memory, as the attempt before has said that it needs; 0: it has said nothing.
func GrowMemory(resources corev1.ResourceRequirements, bytes int64) {
	if bytes > resources.Limits.Memory().Value() {
		memory := *resource.NewQuantity(bytes, resource.BinarySI)
		resources.Limits[corev1.ResourceMemory], resources.Requests[corev1.ResourceMemory] = memory, memory
	}
}

// FailureReason is the reason and message of a failed Job.
func (s State) FailureReason() (string, string) {
	reason, message := v1alpha1.ReasonJobFailed, "The pods of the Job ended without a reason. "+s.Message
	if s.Outcome != nil && s.Outcome.Error != nil {
		reason, message = s.Outcome.Error.Reason, flow.Sentence(s.Outcome.Error.Message)
	}
	return reason, strings.TrimSpace(strings.TrimSpace(message) + " " + s.Sidecars)
}

// Observe reads the state of the Job with this name that the owner has made. A cache may show that a Job has ended before
// it shows how its pods did: then they are read past it, so that what they said is not missed.
func Observe(ctx context.Context, cached, live client.Reader, owner client.Object, name string) (State, error) {
	state, err := observe(ctx, cached, owner, name)
	if err == nil && (state.Complete || state.Failed) && (state.Outcome == nil || state.LivePods > 0) {
		return observe(ctx, live, owner, name)
	}
	return state, err
}

func observe(ctx context.Context, reader client.Reader, owner client.Object, name string) (State, error) {
	job := &batchv1.Job{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: owner.GetNamespace(), Name: name}, job)
	if apierrors.IsNotFound(err) {
		return State{}, nil
	}
	if err != nil {
		return State{}, fmt.Errorf("read Job %s: %w", name, err)
	}
	if !metav1.IsControlledBy(job, owner) {
		return State{Foreign: true, Leaving: ofFormer(job, owner), Message: fmt.Sprintf("A Job named %s already exists and belongs to somebody else. Delete or rename one of them.", name)}, nil
	}
	pods := &corev1.PodList{}
	if err := reader.List(ctx, pods, client.InNamespace(job.Namespace), client.MatchingLabels{batchv1.ControllerUidLabel: string(job.UID)}); err != nil {
		return State{}, fmt.Errorf("list pods of Job %s: %w", name, err)
	}
	return stateOf(job, pods.Items), nil
}

func stateOf(job *batchv1.Job, pods []corev1.Pod) State {
	state := State{
		Exists: true, UID: job.UID, Deleting: !job.DeletionTimestamp.IsZero(),
		Complete: jobHas(job, batchv1.JobComplete), Failed: jobHas(job, batchv1.JobFailed),
		placement: job.Annotations[annotationPlacement],
	}
	if security := job.Spec.Template.Spec.SecurityContext; security != nil {
		state.fixedUser = security.RunAsUser != nil
	}
	state.unplaced = !state.Complete && !state.Failed && job.Status.Failed == 0 && job.Status.Succeeded == 0 &&
		!slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return pod.Spec.NodeName != "" || pod.Status.Phase != corev1.PodPending })
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	told := true
	done, busy := 0, 0
	for i := range pods {
		pod := &pods[i]
		switch {
		case EndedWell(pod):
			done++
		case pod.Status.Phase != corev1.PodFailed && len(sidecars(pod)) == 0:
			busy++
		}
		if state.ends(pod) {
			told = told && pod.DeletionTimestamp != nil
			if told && pod.DeletionTimestamp.After(state.Overdue) {
				state.Overdue = pod.DeletionTimestamp.Time
			}
			if !EndedWell(pod) {
				continue
			}
		}
		if outcome := outcomeOf(pod); outcome != nil {
			state.Outcome = outcome
			if outcome.Error != nil && state.LivePods == 0 {
				state.Message = flow.Sentence(outcome.Error.Message)
			}
		}
	}
	if !told {
		state.Overdue = time.Time{}
	}
	state.Done = done > 0 && busy == 0
	state.WithoutNode = withoutNodeSince(pods)
	state.podless = len(pods) == 0 && !state.Complete && !state.Failed && !state.Deleting
	state.settleBesideSidecars(pods)
	return state
}

// ends notes a pod that has yet to end, and says whether it is one. One that only a foreign sidecar keeps is none: it never ends.
func (s *State) ends(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || len(sidecars(pod)) > 0 {
		return false
	}
	s.LivePods++
	if s.Message = PodWaitingFor(pod); s.Message == "" && NodeLost(pod) {
		s.Message = fmt.Sprintf("Node %s of pod %s doesn't respond. If it is lost for good, delete the node, or give it the taint node.kubernetes.io/out-of-service; "+
			"nothing continues before the pod is known to have ended.", pod.Spec.NodeName, pod.Name)
	}
	if s.Message == "" && neverSeen(pod) {
		s.Message = fmt.Sprintf("Pod %s was told to end, and node %s has never reported it. If the node is lost for good, delete it, or give it the taint "+
			"node.kubernetes.io/out-of-service; nothing continues before the pod is known to have ended.", pod.Name, pod.Spec.NodeName)
	}
	return true
}

// neverSeen says that a pod was told to end before a kubelet had seen it, as happens to one that was placed on a node that had just died.
func neverSeen(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && pod.Spec.NodeName != "" && pod.Status.StartTime == nil
}

// settleBesideSidecars ends a Job that Kubernetes never would: its last pod has done its work or failed, and a container that somebody
// has injected, such as the proxy of a service mesh, keeps the pod from ending.
func (s *State) settleBesideSidecars(pods []corev1.Pod) {
	if len(pods) == 0 || s.LivePods > 0 || s.Complete || s.Failed {
		return
	}
	last := &pods[len(pods)-1]
	names := sidecars(last)
	switch {
	case len(names) == 0:
	case EndedWell(last):
		s.Complete = true
	default:
		s.Failed = true
		s.Sidecars = fmt.Sprintf("The Job was not tried again, because container %s, which was injected into its pod, does not end: "+
			"exclude the pods of Jobs from injection with an annotation in spec.pods.annotations of the PostgresCluster, such as sidecar.istio.io/inject: \"false\", "+
			"or have sidecars injected as init containers with restartPolicy: Always.", strings.Join(names, ", "))
	}
}

// WorkerContainer does the work of a Job's pod.
const WorkerContainer = "worker"

// worksIn says whether a container does the work of a pod, or may write to a claim that it mounts.
func worksIn(pod *corev1.Pod, container *corev1.Container) bool {
	if container.Name == WorkerContainer || container.Name == "" {
		return true
	}
	return slices.ContainsFunc(container.VolumeMounts, func(mount corev1.VolumeMount) bool {
		return slices.ContainsFunc(pod.Spec.Volumes, func(volume corev1.Volume) bool {
			return volume.Name == mount.Name && volume.PersistentVolumeClaim != nil
		})
	})
}

// works says whether a container of that name does.
func works(pod *corev1.Pod, name string) bool {
	i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == name })
	return i < 0 || worksIn(pod, &pod.Spec.Containers[i])
}

// sidecars are the containers that keep a pod from ending whose work has ended, well or not; nil: its work continues, or it ends by itself.
func sidecars(pod *corev1.Pod) []string {
	if pod.Spec.RestartPolicy != corev1.RestartPolicyNever || len(pod.Status.ContainerStatuses) != len(pod.Spec.Containers) {
		return nil
	}
	var names []string
	for _, status := range pod.Status.ContainerStatuses {
		switch mine := works(pod, status.Name); {
		case mine && status.State.Terminated == nil:
			return nil
		case !mine && status.State.Terminated == nil:
			names = append(names, status.Name)
		}
	}
	return names
}

// EndedWell says that all containers that do the work of a pod that starts none again have ended without an error. What was injected
// beside them may run on.
func EndedWell(pod *corev1.Pod) bool {
	statuses := pod.Status.ContainerStatuses
	return pod.Spec.RestartPolicy == corev1.RestartPolicyNever && len(statuses) > 0 && len(statuses) == len(pod.Spec.Containers) &&
		!slices.ContainsFunc(statuses, func(s corev1.ContainerStatus) bool {
			return works(pod, s.Name) && (s.State.Terminated == nil || s.State.Terminated.ExitCode != 0)
		})
}

func jobHas(job *batchv1.Job, kind batchv1.JobConditionType) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == kind && c.Status == corev1.ConditionTrue
	})
}

func outcomeOf(pod *corev1.Pod) *agentapi.Outcome {
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Terminated == nil || !works(pod, status.Name) {
			continue
		}
		outcome := &agentapi.Outcome{}
		if json.Unmarshal([]byte(status.State.Terminated.Message), outcome) == nil {
			return outcome
		}
	}
	return nil
}

// NodeLost says that Kubernetes has not heard from the node of a pod for a while. It then makes the pod not ready by itself, while
// kubelet's last word, which is about the containers, stays.
func NodeLost(pod *corev1.Pod) bool {
	has := func(kind corev1.PodConditionType, status corev1.ConditionStatus) bool {
		return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind && c.Status == status })
	}
	return has(corev1.ContainersReady, corev1.ConditionTrue) && (has(corev1.PodReady, corev1.ConditionFalse) || has(corev1.PodReady, corev1.ConditionUnknown)) && len(pod.Spec.ReadinessGates) == 0
}

// PodWaitingFor says for a person what a pod that doesn't run yet is waiting for; empty if it runs.
func PodWaitingFor(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return flow.Sentence(fmt.Sprintf("Pod %s can't be scheduled: %s", pod.Name, condition.Message))
		}
	}
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if waiting := status.State.Waiting; waiting != nil && waiting.Reason != "PodInitializing" && waiting.Reason != "ContainerCreating" {
			return flow.Sentence(fmt.Sprintf("Pod %s is waiting: %s: %s", pod.Name, waiting.Reason, waiting.Message))
		}
	}
	return ""
}
