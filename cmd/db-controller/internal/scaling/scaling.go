package scaling

import (
	"fmt"
	"slices"

	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/availability"
	"howdah.dev/howdah/cmd/db-controller/internal/condition"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/protocol"
)

// Replicas is how many pods the StatefulSet shall have now, on the way to what is wanted.
func Replicas(o *observed.Cluster) int {
	if o.Orphaned() {
		return max(o.Reach(), o.LastPrimary()+1) // as before it was made anew
	}
	if o.IdleSet() {
		// The instance with the data is among them, wherever it is; the others can't begin without it.
		return max(o.Wanted(), o.LastPrimary()+1)
	}
	now := int(ptr.Deref(o.StatefulSet().Spec.Replicas, 1))
	switch {
	case now == 1 && o.Wanted() > 1 && !firstElects(o):
		return now
	case now > o.Wanted() && !PrimaryStays(o):
		return now
	}
	return o.Wanted()
}

// firstElects: the only instance has taken the lease, so nobody else can.
func firstElects(o *observed.Cluster) bool {
	agent := o.Agent(0)
	return agent != nil && agent.Election != nil && agent.Election.Leader == o.Names.Instance(0)
}

// PrimaryStays says whether the primary is none of the instances that are to go.
func PrimaryStays(o *observed.Cluster) bool {
	primary := o.Primary()
	return primary >= 0 && primary < o.Wanted() && o.Serving(primary)
}

// MayTakeOver says whether the Lease may name the instance as one that has what was acknowledged. Only its holder knows; where
// the holder doesn't respond, the Lease may say anything.
func MayTakeOver(o *observed.Cluster, instance string) bool {
	if !o.Electing() {
		return false
	}
	primary := o.PrimaryAgent()
	if primary == nil || primary.Election == nil || primary.Election.Leader != primary.Pod {
		return true
	}
	return slices.Contains(primary.Election.Members, instance)
}

// WhyNoHeir is what stands in the way of the instances that stay.
func WhyNoHeir(o *observed.Cluster) string {
	for ordinal := range o.Wanted() {
		if why := availability.Unsettled(o, ordinal); why != "" {
			return why
		}
	}
	return ""
}

// Condition says how far the number of instances is from what is wanted; an empty reason: it is the one.
func Condition(o *observed.Cluster) condition.Finding {
	set := o.StatefulSet()
	if set == nil || o.IdleSet() {
		return condition.Finding{}
	}
	switch now := int(ptr.Deref(set.Spec.Replicas, 1)); {
	case now < o.Wanted() && Replicas(o) > now:
		return condition.False(v1alpha1.ReasonScaling, fmt.Sprintf("%s is being created.", o.Names.Instance(now)))
	case now < o.Wanted():
		return condition.False(v1alpha1.ReasonScaling, fmt.Sprintf("More instances are created once the agent of %s has taken the Lease %s.", o.Names.Instance(0), o.Names.Lease()))
	case now > o.Wanted() && o.Primary() < 0:
		return condition.False(v1alpha1.ReasonScaling, "Instances are removed once there is a primary.")
	case now > o.Wanted() && PrimaryStays(o):
		return condition.False(v1alpha1.ReasonScaling, fmt.Sprintf("%s is being removed.", o.Names.Instance(now-1)))
	case now > o.Wanted() && o.Primary() < o.Wanted():
		return condition.False(v1alpha1.ReasonScaling, fmt.Sprintf("Instances are removed once the primary %s is ready.", o.Names.Instance(o.Primary())))
	case now > o.Wanted():
		return condition.False(v1alpha1.ReasonScaling, fmt.Sprintf("%s hands over to an instance that stays.", o.Names.Instance(o.Primary())))
	case o.Reach() > o.Wanted():
		return condition.False(v1alpha1.ReasonScaling, fmt.Sprintf("Pod %s is being deleted.%s", o.Names.Instance(o.Reach()-1), availability.Stuck(o)))
	}
	if kept := kept(o); kept != "" {
		return condition.False(v1alpha1.ReasonScaling, kept)
	}
	return condition.Finding{}
}

// kept says why the volume of an instance that was removed is kept; empty: there is none.
func kept(o *observed.Cluster) string {
	for _, claim := range o.ExistingClaims() {
		instance := protocol.InstanceOf(claim.Name)
		if o.Names.Ordinal(instance) < o.Wanted() || claim.Labels[v1alpha1.LabelCluster] == "" {
			continue
		}
		if MayTakeOver(o, instance) {
			return fmt.Sprintf("The volume of %s is kept until the Lease %s no longer names it as an instance that may take over.", instance, o.Names.Lease())
		}
		if whose := o.PreviousOn[instance]; whose != "" {
			return fmt.Sprintf("The volume of %s is kept because it has the previous data of %[2]s. Set spec.decision of %[2]s, or, if the data can't be brought back any more, delete %[2]s.", instance, whose)
		}
	}
	return ""
}
