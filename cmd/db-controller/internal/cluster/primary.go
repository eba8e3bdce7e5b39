package cluster

import (
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/lease"
	"howdah.dev/howdah/pkg/agentapi"
)

// primary is the ordinal of the instance that accepts writes, as far as that can be known; negative: there is none. The
// agents decide it and the controller only looks, so it goes by their word, then by the label that they have put on a pod.
func (w *world) primary() int {
	if !w.electing() {
		return 0
	}
	best, term := -1, int64(-1)
	for i := range w.pods {
		agent := w.agent(w.names.Ordinal(w.pods[i].Name))
		if agent == nil || agent.Role != string(v1alpha1.RolePrimary) || agent.State != agentapi.StateRunning {
			continue
		}
		// Of two that say so one has yet to notice that it is none any more.
		if t := termOf(agent); t > term {
			best, term = w.names.Ordinal(w.pods[i].Name), t
		}
	}
	if best >= 0 {
		return best
	}
	return w.labelledPrimary()
}

func termOf(agent *agentapi.Status) int64 {
	if agent.Election == nil || agent.Election.Leader != agent.Pod {
		return 0
	}
	return agent.Election.Term
}

// labelledPrimary is a ready pod with the label of a primary, whose agent doesn't answer us. Of several it is the one that
// was primary before.
func (w *world) labelledPrimary() int {
	found := -1
	for i := range w.pods {
		pod := &w.pods[i]
		ordinal := w.names.Ordinal(pod.Name)
		if pod.Labels[v1alpha1.LabelRole] != string(v1alpha1.RolePrimary) || !w.serving(ordinal) || w.agent(ordinal) != nil {
			continue
		}
		if found < 0 || pod.Name == w.cluster.Status.Primary {
			found = ordinal
		}
	}
	return found
}

// primaryPod is the pod of the primary; nil: there is none.
func (w *world) primaryPod() *corev1.Pod { return w.pod(w.primary()) }

// primaryAgent is the state of the primary's agent; nil: there is none, or it doesn't answer.
func (w *world) primaryAgent() *agentapi.Status { return w.agent(w.primary()) }

// dataInstance is the ordinal of the instance whose volume has every commit that was acknowledged.
func (w *world) dataInstance() int {
	if primary := w.primary(); primary >= 0 && w.serving(primary) {
		return primary
	}
	return w.lastPrimary()
}

// lastPrimary is the instance that was primary last, by the Lease where it was read, or else by what was seen; at first it
// is the one that the data is made on.
func (w *world) lastPrimary() int {
	status := w.cluster.Status
	for _, name := range []string{lease.LastHolder(w.lease, status.DataGeneration), status.Primary, status.DataInstance} {
		if ordinal := w.names.Ordinal(name); ordinal >= 0 {
			return ordinal
		}
	}
	return 0
}
