package observed

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/lease"
	"howdah.dev/howdah/pkg/agentapi"
)

// Primary is the ordinal of the instance that accepts writes, as far as that can be known; negative: there is none. The
// agents decide it and the controller only looks, so it goes by their word, then by the label that they have put on a pod.
func (o *Cluster) Primary() int {
	if !o.Electing() {
		return 0
	}
	best, term := -1, int64(-1)
	for i := range o.Pods {
		agent := o.Agent(o.Names.Ordinal(o.Pods[i].Name))
		if agent == nil || agent.Role != string(v1alpha1.RolePrimary) || agent.State != agentapi.StateRunning {
			continue
		}
		// Of two that say so one has yet to notice that it is none any more.
		if t := termOf(agent); t > term {
			best, term = o.Names.Ordinal(o.Pods[i].Name), t
		}
	}
	if best >= 0 {
		return best
	}
	return o.labelledPrimary()
}

func termOf(agent *agentapi.Status) int64 {
	if agent.Election == nil || agent.Election.Leader != agent.Pod {
		return 0
	}
	return agent.Election.Term
}

// labelledPrimary is a ready pod with the label of a primary, whose agent doesn't respond us. Of several it is the
// previous primary.
func (o *Cluster) labelledPrimary() int {
	found := -1
	for i := range o.Pods {
		pod := &o.Pods[i]
		ordinal := o.Names.Ordinal(pod.Name)
		if pod.Labels[v1alpha1.LabelRole] != string(v1alpha1.RolePrimary) || !o.Serving(ordinal) || o.Agent(ordinal) != nil {
			continue
		}
		if found < 0 || pod.Name == o.Cluster.Status.Primary {
			found = ordinal
		}
	}
	return found
}

// PrimaryPod is the pod of the primary; nil: there is none.
func (o *Cluster) PrimaryPod() *corev1.Pod { return o.Pod(o.Primary()) }

// PrimaryAgent is the state of the primary's agent; nil: there is none, or it doesn't respond.
func (o *Cluster) PrimaryAgent() *agentapi.Status { return o.Agent(o.Primary()) }

// DataInstance is the ordinal of the instance whose volume has every commit that was acknowledged.
func (o *Cluster) DataInstance() int {
	if primary := o.Primary(); primary >= 0 && o.Serving(primary) {
		return primary
	}
	return o.LastPrimary()
}

// LastUnknown says why it isn't known which instance was primary last, and what to do; empty: it is. What status remembers may be older than the last
// failover, so nothing that takes the volume of the last primary goes by that then.
func LastUnknown(o *Cluster) string {
	why, last := lease.Damaged(o.Lease), lease.LastHolder(o.Lease, o.Cluster.Status.DataGeneration)
	if why == "" && last != "" && o.Names.Ordinal(last) < 0 {
		why = fmt.Sprintf("The Lease %s names %s, which is not an instance of this cluster", o.Lease.Name, Bounded(last, 64))
	}
	if why == "" {
		return ""
	}
	return why + ", so it isn't known which instance was primary last, and has every commit. Correct the annotation: see \"When a person has to decide\" in docs/high-availability.md."
}

// LastPrimary is the instance that was primary last, by the Lease where it was read, or else by what was seen; at first it
// is the one on which the data is created.
func (o *Cluster) LastPrimary() int {
	status := o.Cluster.Status
	for _, name := range []string{lease.LastHolder(o.Lease, status.DataGeneration), status.Primary, status.DataInstance} {
		if ordinal := o.Names.Ordinal(name); ordinal >= 0 {
			return ordinal
		}
	}
	return 0
}
