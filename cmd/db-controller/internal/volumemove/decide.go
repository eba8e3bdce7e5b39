package volumemove

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/availability"
	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/cmd/db-controller/internal/desired"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/restartwindow"
	"howdah.dev/howdah/cmd/db-controller/internal/rolling"
	"howdah.dev/howdah/cmd/db-controller/internal/scaling"
	"howdah.dev/howdah/cmd/db-controller/internal/storage"
	"howdah.dev/howdah/pkg/agentapi"
)

// unlike are the instances whose volumes have to be replaced to come to what spec requests.
func unlike(o *observed.Cluster) (ordinals []int) {
	for ordinal := range max(o.Wanted(), o.Reach()) {
		if replaced(o, ordinal) {
			ordinals = append(ordinals, ordinal)
		}
	}
	return ordinals
}

// replaced: an instance has a claim, and it can't come to what spec requests.
func replaced(o *observed.Cluster, ordinal int) bool {
	claim := o.Claim(ordinal)
	if claim == nil || volume.IsRetained(claim) || !volume.Belongs(claim, o.Cluster) {
		return false
	}
	return volume.Unlike(o.Cluster, claim)
}

// nextInstance is the replica with the highest number that has to move, and the primary only if no replica has; negative: none has.
func nextInstance(o *observed.Cluster) int {
	last, primary := -1, o.Primary()
	rest := unlike(o)
	for i := len(rest) - 1; i >= 0; i-- {
		if rest[i] != primary {
			return rest[i]
		}
		last = primary
	}
	return last
}

// underWay: the move has begun, and is still approved.
func underWay(o *observed.Cluster) bool {
	move := o.Cluster.Status.StorageMove
	return move != nil && move.State == v1alpha1.StorageMoveMoving && approved(o) && !o.Deleting()
}

// approved: a person has named this very plan.
func approved(o *observed.Cluster) bool {
	spec, move := o.Cluster.Spec.Storage.Move, o.Cluster.Status.StorageMove
	return spec != nil && move != nil && spec.Plan == move.Plan
}

// obstacle says what only a person can change, so that no instance can be moved; empty: nothing.
func obstacle(o *observed.Cluster) string {
	to := volume.Wanted(o.Cluster)
	switch used, needed := needs(o); {
	case o.Wanted() < 2:
		return "A single instance can't be moved, because there would be no second copy of the data meanwhile. Set spec.instances to 2 first."
	case to.StorageClassName != "" && o.Classes[to.StorageClassName] == nil:
		return fmt.Sprintf("There is no StorageClass %s. Create it, or name another one in spec.storage.storageClassName.", to.StorageClassName)
	case used == nil && shrinks(o):
		return "No agent has reported yet how much of its volume the primary uses."
	case shrinks(o) && needed.Cmp(to.Size) > 0:
		return fmt.Sprintf("The data doesn't fit: the primary uses %s of its volume, so a new one has to have %s at least. Set spec.storage.size to that or more.",
			used.String(), needed.String())
	}
	return ""
}

// shrinks says whether some volume is to be replaced by a smaller one.
func shrinks(o *observed.Cluster) bool {
	for _, ordinal := range unlike(o) {
		requested := volume.Requested(o.Claim(ordinal))
		if requested.Cmp(volume.Wanted(o.Cluster).Size) > 0 {
			return true
		}
	}
	return false
}

// needs is how much the primary uses, as it is published, and how large a volume for that has to be: a quarter more, and so much that it
// does not grow at once. nil: it isn't known.
func needs(o *observed.Cluster) (used, needed *resource.Quantity) {
	name := o.Names.Instance(o.DataInstance())
	for i := range o.Cluster.Status.Instances {
		if known := &o.Cluster.Status.Instances[i]; known.Name == name && known.Storage != nil {
			used = known.Storage.Used
		}
	}
	if used == nil {
		return nil, nil
	}
	bytes := used.Value() + used.Value()/4
	if grow := o.Cluster.Spec.Storage.AutoGrow; grow != nil && grow.AtPercent > 0 {
		bytes = max(bytes, used.Value()*100/int64(grow.AtPercent))
	}
	return used, resource.NewQuantity((bytes+1<<20-1)>>20<<20, resource.BinarySI)
}

// waits says why the next instance isn't taken up now; empty: it is.
func waits(o *observed.Cluster, next int) string {
	for _, look := range []func(*observed.Cluster) string{obstacle, byPlan, byWork} {
		if why := look(o); why != "" {
			return why
		}
	}
	if why := unsettled(o, next); why != "" {
		return why
	}
	if whose := o.PreviousOn[o.Names.Instance(next)]; whose != "" {
		return fmt.Sprintf("The previous data of %s is on the volume of %s, and would be deleted with it. When you don't need it any more, delete %[1]s.", whose, o.Names.Instance(next))
	}
	if why := storage.KeepsCopies(o, o.Names.Instance(next)); why != "" {
		return why
	}
	if next != o.Primary() {
		return tooFew(o, next)
	}
	if availability.Heir(o, o.Reach()) < 0 {
		return fmt.Sprintf("No replica can take over from %s.", o.Names.Instance(next))
	}
	return ""
}

// byPlan is what a person has decided.
func byPlan(o *observed.Cluster) string {
	if why := rolling.Held(o); why != "" {
		return why
	}
	switch {
	case o.Cluster.Spec.Repair.Paused(o.Now):
		return "Nothing is cloned while spec.repair pauses that."
	case !restartwindow.Open(o):
		return "It continues in the maintenance window." + restartwindow.Wait(o)
	}
	return ""
}

// byWork is what else is done to the cluster.
func byWork(o *observed.Cluster) string {
	if why := rolling.Busy(o); why != "" {
		return why
	}
	set := o.StatefulSet()
	switch next := rolling.NextMove(o); {
	case len(o.Requests) > 0 || len(o.Cluster.Status.VolumeLocks) > 0:
		return "A Restore or an Upgrade has requested the volume lock."
	case o.Undoable != "":
		return fmt.Sprintf("Its previous data is on these volumes until %s is confirmed or undone: set its spec.decision.", o.Undoable)
	case o.BackingUp != "":
		return fmt.Sprintf("Pod %s takes a backup.", o.BackingUp)
	case o.FailoverDrill != nil:
		return fmt.Sprintf("FailoverDrill %s has not ended.", o.FailoverDrill.Name)
	case next.Kind != rolling.MoveNone:
		return fmt.Sprintf("%s has to be restarted or replaced first for %s.", o.Names.Instance(next.Instance), next.Why)
	case set == nil || !desired.ClaimsShaped(o, set):
		return "The StatefulSet is being created again."
	}
	return ""
}

// unsettled says which instance isn't well. The next one need not be where it never got a volume, as of a class that provides none.
func unsettled(o *observed.Cluster, next int) string {
	if o.Primary() < 0 || !o.Electing() || o.Reach() != o.Wanted() {
		return "It continues when all instances run, with a primary."
	}
	for ordinal := range o.Wanted() {
		if why := availability.Unsettled(o, ordinal); why != "" && (ordinal != next || !unbound(o, next)) {
			return why
		}
	}
	return ""
}

// unbound: the claim of an instance has no volume yet, so there is nothing on it.
func unbound(o *observed.Cluster, ordinal int) bool {
	claim := o.Claim(ordinal)
	return claim != nil && claim.Status.Phase == corev1.ClaimPending && claim.Spec.VolumeName == ""
}

// tooFew says that not enough replicas stream without an instance.
func tooFew(o *observed.Cluster, ordinal int) string {
	name, sync, spec := o.Names.Instance(ordinal), o.Cluster.Spec.Synchronous, o.Cluster.Spec.Storage.Move
	others := availability.StreamingBeside(o, ordinal)
	switch {
	case sync != nil && sync.Durability != v1alpha1.DurabilityPreferred && others < int(sync.Number) && !availability.Delayed(o, name):
		return fmt.Sprintf("Commits would wait while %s is cloned, because spec.synchronous.number: %d requests it. Add an instance (spec.instances), "+
			"or set spec.synchronous.durability: Preferred, until the move is done.", name, sync.Number)
	case others == 0 && (spec == nil || !spec.AllowFewerReplicas):
		return fmt.Sprintf("Without %s, no replica streams, so the primary would have the only copy of the data until %s is cloned. "+
			"Add an instance (spec.instances), or set spec.storage.move.allowFewerReplicas: true.", name, name)
	}
	return ""
}

// returns says why an instance that is fenced to leave its volume is to run again on it; empty: it isn't. Its volume is all there as long as
// its pod is. Whoever may be needed to take over is not kept from it.
func returns(o *observed.Cluster, ordinal int) string {
	name, primary := o.Names.Instance(ordinal), o.Primary()
	switch {
	case primary < 0 || !o.Serving(primary):
		return fmt.Sprintf("There is no primary, so %s stays on its volume for now.", name)
	case primary == ordinal:
		return fmt.Sprintf("%s became the primary meanwhile, so it stays on its volume for now.", name)
	case !underWay(o):
		return fmt.Sprintf("spec.storage.move no longer approves the move, so %s stays on its volume.", name)
	case o.Cluster.Spec.Repair.Paused(o.Now):
		return fmt.Sprintf("spec.repair pauses clones, so %s stays on its volume for now.", name)
	case o.PreviousOn[name] != "":
		return fmt.Sprintf("The previous data of %s is on the volume of %s, so it stays there.", o.PreviousOn[name], name)
	case storage.KeepsCopies(o, name) != "":
		return fmt.Sprintf("%s stays on its volume. %s", name, storage.KeepsCopies(o, name))
	}
	if why := tooFew(o, ordinal); why != "" {
		return fmt.Sprintf("%s stays on its volume for now. %s", name, why)
	}
	return ""
}

// counted says why the volume of an instance may hold what others lack, as far as can be known; empty: it can't.
func counted(o *observed.Cluster, ordinal int) string {
	name, agent := o.Names.Instance(ordinal), o.Agent(ordinal)
	switch {
	case unbound(o, ordinal) && o.Pod(ordinal) != nil:
		return ""
	case o.Pod(ordinal) == nil:
		return fmt.Sprintf("Pod %s is being created.", name)
	case agent == nil:
		return fmt.Sprintf("The agent of %s doesn't respond.", name)
	case agent.State != agentapi.StateStopped || !desired.ConfigApplied(agent, desired.AgentConfig(o).Hash()):
		return fmt.Sprintf("PostgreSQL in %s is being stopped.", name)
	case !o.Electing() || scaling.MayTakeOver(o, name):
		return fmt.Sprintf("The volume of %s is kept until the Lease %s no longer names it as an instance that may take over.", name, o.Names.Lease())
	}
	return ""
}

// follows says whether an instance has its new volume, and a copy of the data on it.
func follows(o *observed.Cluster, ordinal int) bool {
	claim := o.Claim(ordinal)
	return claim != nil && claim.DeletionTimestamp.IsZero() && claim.Status.Phase == corev1.ClaimBound &&
		ordinal != o.Primary() && availability.Unsettled(o, ordinal) == ""
}

// leads says whether an instance serves as primary on its new volume: it had followed, and took over before that was seen.
func leads(o *observed.Cluster, ordinal int) bool {
	claim, current := o.Claim(ordinal), o.Cluster.Status.StorageMove.Current
	return claim != nil && claim.UID != current.VolumeUID && claim.DeletionTimestamp.IsZero() && claim.Status.Phase == corev1.ClaimBound &&
		o.Electing() && ordinal == o.Primary() && o.Serving(ordinal)
}

func shapeOf(claim *corev1.PersistentVolumeClaim) v1alpha1.VolumeShape {
	return v1alpha1.VolumeShape{Size: volume.Requested(claim), StorageClassName: ptr.Deref(claim.Spec.StorageClassName, "")}
}

func same(a, b v1alpha1.VolumeShape) bool {
	return a.Size.Cmp(b.Size) == 0 && a.StorageClassName == b.StorageClassName
}

// describe a volume, such as: 10Gi of StorageClass fast.
func describe(shape v1alpha1.VolumeShape) string {
	if shape.StorageClassName == "" {
		return shape.Size.String()
	}
	return fmt.Sprintf("%s of StorageClass %s", shape.Size.String(), shape.StorageClassName)
}
