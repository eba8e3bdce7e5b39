package storage

import (
	"fmt"

	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/agentapi"
)

// RepairHeldBack is the reason in the label of a volume that was left behind because its data needed a repair that was held back.
const RepairHeldBack = "RepairHeldBack"

// annotationHeldBack on a volume says in a sentence which repair of its data is held back by spec.repair. Like annotationCopies, it outlives the pod.
const annotationHeldBack = "howdah.dev/held-back-repair"

// HeldBackOn says which repair of the data on the volume of an instance is held back; empty: none. Such data may have commits that no other instance has:
// nobody has compared it yet, or it was found to differ. What the agent has said last counts until it says otherwise.
func HeldBackOn(o *observed.Cluster, instance string) string {
	if said, known := saidHeldBack(o.Agents[instance]); known {
		return said
	}
	if claim := o.Claim(o.Names.Ordinal(instance)); claim != nil {
		return claim.Annotations[annotationHeldBack]
	}
	return ""
}

// saidHeldBack is the agent's word. That nothing is held back counts once the instance leads or follows: a pause may have ended, and what was held back
// is yet to be done.
func saidHeldBack(agent *agentapi.Status) (repair string, known bool) {
	if agent == nil {
		return "", false
	}
	return agent.HeldBack, agent.HeldBack != "" || settled(agent)
}

// withHeldBack adds to the reason for which a volume is left behind that a person has kept its data from being repaired.
func withHeldBack(o *observed.Cluster, instance string, why *volume.Why) *volume.Why {
	repair := HeldBackOn(o, instance)
	if repair == "" {
		return why
	}
	return with(why, volume.Why{Reason: RepairHeldBack, Message: fmt.Sprintf(
		"It may have commits that no other instance has, because spec.repair held back what its data needed: %s", repair)})
}
