package desired

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/statefulset"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/agentapi"
)

// ConfigApplied says whether the agent has applied the configuration, or has said why it can't.
func ConfigApplied(agent *agentapi.Status, wanted string) bool {
	return agent.ConfigHash == wanted || agent.ConfigError != "" && agent.ConfigErrorHash == wanted
}

// Changes says for what the pod of an instance has to be replaced; empty: it doesn't have to be, or isn't there.
func Changes(o *observed.Cluster, ordinal int) string {
	pod := o.Pod(ordinal)
	if pod == nil {
		return ""
	}
	state, why := ResizeOf(o, pod)
	if state != statefulset.ResizeNot {
		return "" // it gets them while it runs
	}
	changes := statefulset.Changes(pod, o.Cluster, Inputs(o, 1))
	if why != "" && changes != "" {
		changes += " (" + why + ")"
	}
	return changes
}

// PendingRestart are the parameters for which PostgreSQL in an instance has to be restarted.
func PendingRestart(o *observed.Cluster, ordinal int) []string {
	agent := o.Agent(ordinal)
	if agent == nil || agent.ConfigHash != AgentConfig(o).Hash() || mayWait(o, o.Pod(ordinal), agent.PendingRestart, agent.StartedAt) {
		return nil
	}
	return agent.PendingRestart
}

// ResizeOf says whether the resources of a running pod can be changed in place, and how far that is.
func ResizeOf(o *observed.Cluster, pod *corev1.Pod) (statefulset.ResizeState, string) {
	return statefulset.Resize(pod, o.Cluster, Inputs(o, 1), o.Now)
}

// sizedParameters follow memory and cores by themselves, take a restart, and do no harm while an instance has less of them than
// another one. max_connections and max_worker_processes are not among them: a replica must not have less of them than its primary.
var sizedParameters = []string{"shared_buffers", "autovacuum_max_workers"}

// mayWait: all that waits for a restart is what follows the memory that the pod was given since PostgreSQL was started.
// Nobody has asked for a restart.
func mayWait(o *observed.Cluster, pod *corev1.Pod, pending []string, started time.Time) bool {
	if pod == nil || len(pending) == 0 {
		return false
	}
	resized, err := time.Parse(time.RFC3339, pod.Annotations[statefulset.AnnotationResized])
	return err == nil && !started.IsZero() && started.Before(resized) && !slices.ContainsFunc(pending, func(name string) bool {
		_, asked := o.Cluster.Spec.PostgreSQL.Parameters[name]
		return asked || !slices.Contains(sizedParameters, name)
	})
}

// WaitsForRestart says whether what is pending in an instance comes with the next restart, whenever that is.
func WaitsForRestart(o *observed.Cluster, instance *v1alpha1.InstanceStatus) bool {
	ordinal, started := o.Names.Ordinal(instance.Name), time.Unix(0, 0)
	if agent := o.Agent(ordinal); agent != nil { // one that doesn't respond for a moment changes nothing
		started = agent.StartedAt
	}
	return mayWait(o, o.Pod(ordinal), instance.PendingRestart, started)
}
