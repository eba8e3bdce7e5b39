package observed

import (
	"k8s.io/utils/ptr"
)

// MaxInstances that a cluster can have.
const MaxInstances = 9

// Wanted is the number of instances that there are to be.
func (o *Cluster) Wanted() int { return max(1, int(o.Cluster.DesiredInstances())) }

// ToldInstances is what the agents are told. They take no lease while it is 1, so it is 1 only when there is no pod but the
// first and none can come; and it is more before others are created.
func (o *Cluster) ToldInstances() int {
	if o.Wanted() == 1 && o.ToldAlone() {
		return 1
	}
	told := max(o.Wanted(), o.Reach())
	if o.IdleSet() {
		told = max(told, o.LastPrimary()+1)
	}
	return told
}

// ToldAlone says whether the agent was told that it is the only one. What can't be read says nothing.
func (o *Cluster) ToldAlone() bool {
	last := o.LastConfig()
	return last.Cluster == o.Cluster.Name && last.Instances <= 1
}

// Electing says whether the agents are told of more than one instance.
func (o *Cluster) Electing() bool { return o.ToldInstances() > 1 }

// EndsElections says whether the next thing that the agents are told may be that a single one of them is left.
func (o *Cluster) EndsElections() bool { return o.Wanted() == 1 && o.Begun() && !o.ToldAlone() }

// Reach is one more than the highest ordinal that has a pod or may get one.
func (o *Cluster) Reach() int {
	reach := 0
	for i := range o.Pods {
		reach = max(reach, o.Names.Ordinal(o.Pods[i].Name)+1)
	}
	if set := o.StatefulSet(); set != nil {
		reach = max(reach, int(ptr.Deref(set.Spec.Replicas, 1)), int(set.Status.Replicas))
	}
	return reach
}
