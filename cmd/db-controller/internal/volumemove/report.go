package volumemove

import (
	"fmt"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/availability"
	"howdah.dev/howdah/cmd/db-controller/internal/condition"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
)

// Report makes the status say how far the move is. What was decided is in it already.
func Report(o *observed.Cluster) {
	move := o.Cluster.Status.StorageMove
	if move == nil {
		return
	}
	move.Instances = nil
	for ordinal := range o.Wanted() {
		move.Instances = append(move.Instances, v1alpha1.StorageMoveInstance{Name: o.Names.Instance(ordinal), State: stateOf(o, ordinal)})
	}
	if move.State == v1alpha1.StorageMoveCompleted {
		move.Message = ""
		return
	}
	move.Used, move.Needed = needs(o)
	move.Message = message(o)
}

func stateOf(o *observed.Cluster, ordinal int) v1alpha1.InstanceMoveState {
	move := o.Cluster.Status.StorageMove
	switch current := move.Current; {
	case current != nil && current.Instance == o.Names.Instance(ordinal):
		return current.State
	case move.State == v1alpha1.StorageMoveCompleted:
		return v1alpha1.InstanceMoveMoved
	case o.Claim(ordinal) == nil || replaced(o, ordinal):
		return v1alpha1.InstanceMovePending
	}
	return v1alpha1.InstanceMoveMoved
}

// message is what happens, or what is waited for.
func message(o *observed.Cluster) string {
	move := o.Cluster.Status.StorageMove
	switch current := move.Current; {
	case move.State == v1alpha1.StorageMovePlanned:
		return planned(o)
	case current != nil && current.State == v1alpha1.InstanceMoveLeaving:
		return leaving(current.Instance)
	case current != nil:
		return cloning(o, current.Instance)
	case !approved(o):
		return fmt.Sprintf("No further instance is moved, because spec.storage.move.plan isn't %s any more. Set it again to continue.", move.Plan)
	}
	next := nextInstance(o)
	if next < 0 {
		return "The last instance was moved."
	}
	if why := waits(o, next); why != "" {
		return fmt.Sprintf("%s is next, and waits: %s", o.Names.Instance(next), why)
	}
	return fmt.Sprintf("%s is next.", o.Names.Instance(next))
}

// cloning says what keeps the instance from being cloned, where it doesn't run.
func cloning(o *observed.Cluster, instance string) string {
	text, ordinal := fmt.Sprintf("%s is cloned to its new volume.", instance), o.Names.Ordinal(instance)
	if pod := o.Pod(ordinal); pod == nil || observed.PodRuns(pod) || !pod.DeletionTimestamp.IsZero() {
		return text
	}
	_, why := availability.InstanceTrouble(o, ordinal)
	return text + " " + why
}

// planned is the plan in words, and what is in its way or leads on.
func planned(o *observed.Cluster) string {
	move := o.Cluster.Status.StorageMove
	text := fmt.Sprintf("To move from volumes of %s to volumes of %s, each instance is cloned to a new volume and its old volume is deleted: "+
		"replicas first, one at a time, then the primary, after a switchover.", describe(move.From), describe(move.To))
	if used, needed := needs(o); used != nil && shrinks(o) && needed.Cmp(move.To.Size) <= 0 {
		text += fmt.Sprintf(" The data fits: the primary uses %s, so a new volume needs %s at least.", used.String(), needed.String())
	}
	why := obstacle(o)
	if next := nextInstance(o); why == "" && next >= 0 && next != o.Primary() {
		why = tooFew(o, next)
	}
	if why != "" {
		return text + " " + why
	}
	return fmt.Sprintf("%s Nothing happens until you approve it: set spec.storage.move.plan: %s.", text, move.Plan)
}

// Condition says that volumes are not as spec asks; an empty reason: they are, or nobody asks for them to be replaced.
func Condition(o *observed.Cluster) condition.Finding {
	move := o.Cluster.Status.StorageMove
	if move == nil || move.State == v1alpha1.StorageMoveCompleted {
		return condition.Finding{}
	}
	reason := v1alpha1.ReasonStorageMoving
	if move.State == v1alpha1.StorageMovePlanned {
		reason = v1alpha1.ReasonStorageMovePlanned
		if obstacle(o) != "" {
			reason = v1alpha1.ReasonStorageMoveRefused
		}
	}
	return condition.False(reason, message(o))
}
