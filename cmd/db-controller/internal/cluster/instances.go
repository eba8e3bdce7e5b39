package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/ownwrites"
	"howdah.dev/howdah/pkg/flow"
)

// firstStart: PostgreSQL is to be started for the first time on what the init Job has made, and this process has seen all that
// was ever done to the cluster. So nobody but the Job can have used a volume: they are granted by a write of ours alone, and
// recordStart finds out if another process has written since. The Job has ended for good, whatever a cache says later: its pod
// has ended well, and another one would find the data whole and leave it. That there is no StatefulSet is found out by the
// making of it. Who has asked for the volumes a moment ago and isn't seen yet is not answered yet, either.
func (w *world) firstStart() bool {
	return w.own.Complete() && w.statefulSet() == nil && !w.bootstrapsByRestore() && w.initialized() &&
		len(w.asks) == 0 && len(w.cluster.Status.VolumeLocks) == 0
}

// recordStart says that PostgreSQL is being started, ahead of the first start. The API server takes that only on the cluster
// as it was seen, so this takes the place of a look at whether that is current.
func (r *Reconciler) recordStart(ctx context.Context, w *world) flow.Outcome {
	if w.fresh || !w.firstStart() || w.hibernating() || len(w.workers) > 0 {
		return flow.Next
	}
	reason, message := notServing(w)
	report(w, flow.Wait(reason, message)) // what the pass comes to: to say it later would be another write
	seen := w.cluster.ResourceVersion
	outcome := w.record(ctx)
	if outcome.Finished() && w.cluster.ResourceVersion == seen {
		return flow.Retry(fmt.Errorf("start PostgreSQL: %w or was: there is nothing to record", ownwrites.ErrTaken))
	}
	return outcome
}

// ensureStatefulSet keeps the instances running, or down while the volumes are somebody else's. PostgreSQL is started
// only when nobody else writes to its volume.
func (r *Reconciler) ensureStatefulSet(ctx context.Context, w *world) flow.Outcome {
	replicas := w.replicas()
	switch {
	case w.mustBeStopped() || w.hibernating():
		if w.statefulSet() == nil && !w.orphaned() {
			return flow.Next
		}
		replicas = 0
	case w.idleSet() && len(w.workers) > 0:
		return flow.Poll(busyInterval, v1alpha1.ReasonStarting,
			fmt.Sprintf("Pod %s still writes to the volume; PostgreSQL is started when it has ended.", w.workers[0].Name))
	}
	return r.putAll(ctx, w, w.buildSet(replicas))
}

// refreshConfig tells the agents which configuration to apply. A change of an annotation also has kubelet bring the
// new content of ConfigMap and Secrets into the pod at once, rather than within a minute or two.
func (r *Reconciler) refreshConfig(ctx context.Context, w *world) flow.Outcome {
	wanted := w.told()
	for i := range w.pods {
		pod := &w.pods[i]
		changed := pod.DeepCopy()
		for name, value := range wanted {
			metav1.SetMetaDataAnnotation(&changed.ObjectMeta, name, value)
		}
		if !pod.DeletionTimestamp.IsZero() || maps.Equal(pod.Annotations, changed.Annotations) {
			continue
		}
		if err := r.Client.Patch(ctx, changed, client.MergeFrom(pod), client.FieldOwner(FieldManager)); client.IgnoreNotFound(err) != nil {
			return flow.Retry(fmt.Errorf("annotate pod %s: %w", pod.Name, err))
		}
	}
	return flow.Next
}

// awaitReady waits until the cluster takes connections, and clients are led to it.
func (r *Reconciler) awaitReady(_ context.Context, w *world) flow.Outcome {
	reason, message := notServing(w)
	if w.serving(w.primary()) {
		if w.reachable() {
			return flow.Next
		}
		reason, message = unreachable(w)
	}
	return flow.Poll(w.readyInterval(), reason, message)
}

// readyInterval is how soon to look again whether the cluster takes connections. A pod that begins to run wakes us; what
// its agent says does not.
func (w *world) readyInterval() time.Duration {
	if slices.ContainsFunc(w.pods, func(pod corev1.Pod) bool { return podRuns(&pod) }) {
		return busyInterval
	}
	return unknownInterval
}

// notServing says why nobody takes connections that write.
func notServing(w *world) (reason, message string) {
	primary := w.primary()
	if primary >= 0 {
		return instanceTrouble(w, primary)
	}
	for ordinal := range w.reach() {
		if agent := w.agent(ordinal); agent != nil && agent.Election != nil && agent.Election.Waiting != "" {
			return v1alpha1.ReasonElecting, fmt.Sprintf("There is no primary: %s: %s", agent.Pod, sentence(agent.Election.Waiting))
		}
	}
	return instanceTrouble(w, w.lastPrimary())
}

// instanceTrouble says why an instance takes no connections.
func instanceTrouble(w *world, ordinal int) (reason, message string) {
	pod := w.pod(ordinal)
	if pod == nil {
		return v1alpha1.ReasonStarting, fmt.Sprintf("Pod %s is being created.", w.names.Instance(ordinal))
	}
	if !pod.DeletionTimestamp.IsZero() {
		return v1alpha1.ReasonRestarting, fmt.Sprintf("Pod %s is going away, and comes again.%s", pod.Name, w.stuck())
	}
	if reason, message := podTrouble(pod); reason != "" {
		return reason, message
	}
	agent := w.agent(ordinal)
	switch {
	case agent == nil && podRuns(pod):
		return v1alpha1.ReasonStarting, fmt.Sprintf("Pod %s runs; its agent doesn't answer yet.", pod.Name)
	case agent == nil:
		return v1alpha1.ReasonStarting, fmt.Sprintf("Pod %s is being started.", pod.Name)
	}
	return agentTrouble(pod.Name, agent)
}

func podRuns(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning }
