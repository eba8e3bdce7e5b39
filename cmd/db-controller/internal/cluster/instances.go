package cluster

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/statefulset"
	"howdah.dev/howdah/pkg/flow"
)

// ensureStatefulSet keeps the instances running, or down while the volumes are somebody else's. PostgreSQL is started
// only when nobody else writes to its volume.
func (r *Reconciler) ensureStatefulSet(ctx context.Context, w *world) flow.Outcome {
	replicas := w.cluster.Spec.Instances
	switch {
	case w.mustBeStopped():
		if w.statefulSet() == nil {
			return flow.Next
		}
		replicas = 0
	case w.idleSet() && len(w.workers) > 0:
		return flow.Poll(busyInterval, v1alpha1.ReasonStarting,
			fmt.Sprintf("Pod %s still writes to the volume; PostgreSQL is started when it has ended.", w.workers[0].Name))
	}
	return r.putAll(ctx, w, statefulset.Build(w.cluster, w.inputs(replicas)))
}

// refreshConfig tells the agent which configuration to apply. A change of an annotation also has kubelet bring the
// ConfigMap's new content into the pod at once, rather than within a minute or two.
func (r *Reconciler) refreshConfig(ctx context.Context, w *world) flow.Outcome {
	pod, wanted := w.pod(0), w.agentConfig().Hash()
	if pod == nil || !pod.DeletionTimestamp.IsZero() || pod.Annotations[v1alpha1.AnnotationConfigHash] == wanted {
		return flow.Next
	}
	changed := pod.DeepCopy()
	changed.Annotations[v1alpha1.AnnotationConfigHash] = wanted
	if err := r.Client.Patch(ctx, changed, client.MergeFrom(pod), client.FieldOwner(FieldManager)); client.IgnoreNotFound(err) != nil {
		return flow.Retry(fmt.Errorf("annotate pod %s: %w", pod.Name, err))
	}
	return flow.Next
}

// replacePod deletes a pod whose image, resources, mounts or data generation are not what is wanted; the StatefulSet
// makes it anew. It waits until the StatefulSet's controller knows the new template.
func (r *Reconciler) replacePod(ctx context.Context, w *world) flow.Outcome {
	pod := w.pod(0)
	if pod == nil {
		return flow.Next
	}
	changes := statefulset.Changes(pod, w.cluster, w.inputs(1))
	if changes == "" {
		return flow.Next
	}
	message := fmt.Sprintf("Pod %s is being replaced for %s.", pod.Name, changes)
	set := w.statefulSet()
	if !pod.DeletionTimestamp.IsZero() || !w.templateKnown(set) {
		return flow.Poll(busyInterval, v1alpha1.ReasonRestarting, message)
	}
	log.FromContext(ctx).Info("Replacing pod", "pod", pod.Name, "reason", changes)
	if err := r.remove(ctx, pod); err != nil {
		return flow.Retry(err)
	}
	return flow.Poll(busyInterval, v1alpha1.ReasonRestarting, message)
}

// restartPostgres asks the agent for a restart in place, for parameters that take one.
func (r *Reconciler) restartPostgres(ctx context.Context, w *world) flow.Outcome {
	pod, agent, wanted := w.pod(0), w.agent(0), w.agentConfig().Hash()
	if pod == nil || agent == nil || len(agent.PendingRestart) == 0 || agent.ConfigHash != wanted {
		return flow.Next
	}
	target, ok := w.target(pod)
	if !ok {
		return flow.Next
	}
	message := "PostgreSQL is being restarted for " + strings.Join(agent.PendingRestart, ", ") + "."
	log.FromContext(ctx).Info("Restarting PostgreSQL", "pod", pod.Name, "reason", message)
	if err := r.Agents.Restart(ctx, target, wanted); err != nil {
		return flow.Poll(unknownInterval, v1alpha1.ReasonRestartPending,
			fmt.Sprintf("%s waits for a restart, and the agent didn't take the request; it is asked again.", strings.Join(agent.PendingRestart, ", ")))
	}
	return flow.Poll(busyInterval, v1alpha1.ReasonRestarting, message)
}

// awaitReady waits until the cluster takes connections.
func (r *Reconciler) awaitReady(_ context.Context, w *world) flow.Outcome {
	if w.serving(0) {
		return flow.Next
	}
	reason, message := notServing(w)
	return flow.Poll(busyInterval, reason, message)
}

// notServing says why the instance takes no connections.
func notServing(w *world) (reason, message string) {
	pod := w.pod(0)
	if pod == nil {
		return v1alpha1.ReasonStarting, fmt.Sprintf("Pod %s is being created.", w.names.Instance(0))
	}
	if !pod.DeletionTimestamp.IsZero() {
		return v1alpha1.ReasonRestarting, fmt.Sprintf("Pod %s is going away, and comes again.%s", pod.Name, w.stuck())
	}
	if reason, message := podTrouble(pod); reason != "" {
		return reason, message
	}
	agent := w.agent(0)
	switch {
	case agent == nil && podRuns(pod):
		return v1alpha1.ReasonStarting, fmt.Sprintf("Pod %s runs; its agent doesn't answer yet.", pod.Name)
	case agent == nil:
		return v1alpha1.ReasonStarting, fmt.Sprintf("Pod %s is being started.", pod.Name)
	}
	return agentTrouble(pod.Name, agent)
}

func podRuns(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning }
