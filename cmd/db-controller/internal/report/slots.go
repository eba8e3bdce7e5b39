package report

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/condition"
	"howdah.dev/howdah/cmd/db-controller/internal/desired"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/phrase"
	"howdah.dev/howdah/pkg/agentapi"
)

// reportSlots adds the status and the condition of declared slots, where there are some. What was last said of a slot stays while no
// agent of a primary answers.
func reportSlots(o *observed.Cluster, conditions map[string]condition.Finding) {
	status := &o.Cluster.Status
	if !o.Begun() || len(o.Cluster.Spec.ReplicationSlots) == 0 {
		status.ReplicationSlots = nil
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionReplicationSlotsReady)
		return
	}
	if slots := slotsOf(o); slots != nil {
		status.ReplicationSlots = nil
		for _, slot := range slots.Slots {
			status.ReplicationSlots = append(status.ReplicationSlots, slotStatus(slot))
		}
	}
	before := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReplicationSlotsReady)
	found := Slots(o)
	if found.Reason == v1alpha1.ReasonApplying && before != nil && before.ObservedGeneration == o.Cluster.Generation {
		return // an agent that doesn't respond for a moment, or a new primary, changes nothing
	}
	conditions[v1alpha1.ConditionReplicationSlotsReady] = found
}

// slotsOf is what the primary's agent says of the slots that are declared now; nil: nothing yet.
func slotsOf(o *observed.Cluster) *agentapi.SlotsStatus {
	agent := o.PrimaryAgent()
	if agent == nil || agent.Slots == nil || agent.Slots.Hash != agentapi.SlotsHash(desired.AgentConfig(o).ReplicationSlots) {
		return nil
	}
	return agent.Slots
}

// Slots says whether the declared slots are as they are declared.
func Slots(o *observed.Cluster) condition.Finding {
	slots := slotsOf(o)
	if slots == nil {
		return condition.False(v1alpha1.ReasonApplying, "The primary has yet to look at the declared replication slots.")
	}
	var lost, problems []string
	for _, slot := range slots.Slots {
		switch problem := slot.Problem(); {
		case problem == "":
		case slot.State == agentapi.SlotLost:
			lost = append(lost, problem)
		default:
			problems = append(problems, problem)
		}
	}
	switch {
	case len(lost) > 0:
		return condition.False(v1alpha1.ReasonSlotLost, phrase.First(append(lost, problems...)))
	case len(problems) > 0:
		return condition.False(v1alpha1.ReasonNotAsDeclared, phrase.First(problems))
	}
	return condition.True(v1alpha1.ReasonCurrent, "Replication slots are as spec declares them.")
}

func slotStatus(slot agentapi.SlotStatus) v1alpha1.ReplicationSlotStatus {
	status := v1alpha1.ReplicationSlotStatus{
		Name: slot.Name, State: v1alpha1.ReplicationSlotState(slot.State), Active: slot.Active,
		RetainedWALBytes: roughBytes(slot.RetainedBytes), Message: phrase.Sentence(slot.Message),
	}
	if !slot.DropAt.IsZero() {
		status.DropTime = &metav1.Time{Time: slot.DropAt}
	}
	return status
}
