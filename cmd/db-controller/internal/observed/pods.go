package observed

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/howdah/cmd/db-controller/internal/agentclient"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
	"howdah.dev/howdah/cmd/db-controller/internal/component/statefulset"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/protocol"
)

// PodRuns says whether the containers of a pod run.
func PodRuns(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning }

// AgentTarget is the agent of a pod that may answer.
func (o *Cluster) AgentTarget(pod *corev1.Pod) (agentclient.Target, bool) {
	if o.Authority == nil || pod.Status.PodIP == "" || pod.Status.Phase != corev1.PodRunning {
		return agentclient.Target{}, false
	}
	return agentclient.Target{IP: pod.Status.PodIP, Host: component.PodHost(o.Cluster, pod.Name), Authority: o.Authority}, true
}

// PodEnded says whether kubelet has said that every container of the pod has ended for good.
func PodEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Orphaned says whether there are pods that run, and no StatefulSet that could stop them or make another.
func (o *Cluster) Orphaned() bool {
	if o.Live[Key("StatefulSet", o.Names.StatefulSet())] != nil {
		return false
	}
	for i := range o.Pods {
		if o.Pods[i].DeletionTimestamp.IsZero() {
			return true
		}
	}
	return false
}

// Pod of the instance with this ordinal; nil: there is none.
func (o *Cluster) Pod(ordinal int) *corev1.Pod {
	for i := range o.Pods {
		if o.Pods[i].Name == o.Names.Instance(ordinal) {
			return &o.Pods[i]
		}
	}
	return nil
}

// Stopped says whether no pod of the cluster is there, and none will be started.
func (o *Cluster) Stopped() bool { return len(o.Pods) == 0 && o.Vacated() }

// Vacated says whether no pod of the cluster writes to a volume, and none will be started. Who waits for the volumes needs no more: until a
// pod whose containers have ended for good is gone takes kubelet a while. The StatefulSet's own controller has seen that it
// is scaled to nothing, so it starts none that we can't see yet.
func (o *Cluster) Vacated() bool {
	writes := func(pod corev1.Pod) bool { return pod.DeletionTimestamp.IsZero() || !PodEnded(&pod) }
	if slices.ContainsFunc(o.Pods, writes) || len(o.Workers) > 0 {
		return false
	}
	set := o.StatefulSet()
	return set == nil || (*set.Spec.Replicas == 0 && set.Status.ObservedGeneration >= set.Generation && int(set.Status.Replicas) <= len(o.Pods))
}

// LockToken is the token of the volume lock for which the instances have to be stopped; empty: they don't have to be.
func (o *Cluster) LockToken() string {
	locks := o.Cluster.Status.VolumeLocks
	holder := protocol.Holder(locks, o.Requests)
	if holder == nil || !protocol.MustBeStopped(locks, o.Requests) {
		return ""
	}
	return holder.Request.Token
}

// IdleSet says whether the StatefulSet has no pod and is to have none; bringing one up is a decision that takes fresh reads.
func (o *Cluster) IdleSet() bool {
	set := o.StatefulSet()
	return set == nil || set.Spec.Replicas == nil || *set.Spec.Replicas == 0
}

// Rests says whether nothing runs, or nothing is to run.
func Rests(o *Cluster) bool { return o.Cluster.Spec.Hibernate || o.IdleSet() }

// RollsOut says whether a change may be rolled out that takes down what runs: it has been recorded that one is, or nothing runs.
func RollsOut(o *Cluster) bool { return o.Cluster.Status.Rollout != nil || Rests(o) }

// Agent is the state of an instance's agent, if it answered for the data generation that the cluster runs on.
func (o *Cluster) Agent(ordinal int) *agentapi.Status {
	status := o.Agents[o.Names.Instance(ordinal)]
	switch {
	case status == nil:
		return nil
	case status.DataGeneration == "" && o.Electing():
		return status // there is nothing on its volume yet
	case status.DataGeneration != o.Cluster.Status.DataGeneration:
		return nil
	}
	return status
}

// Serving says whether the instance accepts connections, on the data generation that the cluster runs on. There is none with a negative
// ordinal.
func (o *Cluster) Serving(ordinal int) bool {
	pod := o.Pod(ordinal)
	if pod == nil || !pod.DeletionTimestamp.IsZero() ||
		pod.Annotations[statefulset.AnnotationDataGeneration] != o.Cluster.Status.DataGeneration {
		return false
	}
	return PodReady(pod)
}

// Unheard is a pod in some state whose agent hasn't answered, so it isn't known what its volume has; empty: there is none.
func (o *Cluster) Unheard(state func(*corev1.Pod) bool) string {
	for i := range o.Pods {
		if pod := &o.Pods[i]; o.Agents[pod.Name] == nil && state(pod) {
			return pod.Name
		}
	}
	return ""
}

// PodReady says whether a pod is ready.
func PodReady(pod *corev1.Pod) bool {
	condition := ReadyCondition(pod)
	return condition != nil && condition.Status == corev1.ConditionTrue
}

// ReadyCondition of a pod; nil until kubelet has written one.
func ReadyCondition(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodReady {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
