package cluster

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
)

// growPause is between two decisions to grow: what the agents say of the larger volume has to be known before the next.
const growPause = time.Minute

// growByItself decides that the volumes grow, where spec.storage.autoGrow asks for that. The decision is recorded before
// anything is asked of Kubernetes, and is never taken back.
func (r *Reconciler) growByItself(_ context.Context, w *world) flow.Outcome {
	if !w.filling() || !w.mayGrowAgain() {
		return flow.Next
	}
	name, percent := w.fullest()
	size, next := volume.Size(w.cluster), nextSize(w.cluster.Spec.Storage.AutoGrow, volume.Size(w.cluster))
	if next.Cmp(size) <= 0 {
		return flow.Next
	}
	message := fmt.Sprintf("They grow by themselves, as the volume of %s was used to %d%%.", name, percent)
	w.cluster.Status.Storage = &v1alpha1.StorageStatus{Size: next, GrownAt: *timeOf(w.now), Message: message}
	return flow.Save(v1alpha1.ReasonVolumesGrowing, fmt.Sprintf("The volumes are to grow from %s to %s. %s", size.String(), next.String(), message))
}

// filling: a volume is used so far that all of them grow by themselves, where that is wanted.
func (w *world) filling() bool {
	grow := w.cluster.Spec.Storage.AutoGrow
	if grow == nil {
		return false
	}
	_, percent := w.fullest()
	return percent >= int(grow.AtPercent)
}

// mayGrowAgain: all volumes have the size that is wanted, and may have a larger one.
func (w *world) mayGrowAgain() bool {
	if grown := w.cluster.Status.Storage; grown != nil && w.now.Sub(grown.GrownAt.Time) < growPause {
		return false
	}
	claims := w.claims()
	for _, claim := range claims {
		capacity := volume.Capacity(claim)
		if w.tooSmall(claim) || capacity.IsZero() || w.lacksSpace(claim) || w.barrier(claim) != "" {
			return false
		}
	}
	return len(claims) > 0
}

// fullest is the instance whose volume is used most, by the word of its agent, and how many percent that is.
func (w *world) fullest() (name string, percent int) {
	for ordinal := range w.reach() {
		agent := w.agent(ordinal)
		if agent == nil {
			continue
		}
		if used := usedPercent(agent.Volume); used > percent {
			name, percent = agent.Pod, used
		}
	}
	return name, percent
}

// usedPercent of a file system, rounded down; 0: it is not known.
func usedPercent(v *agentapi.VolumeStatus) int {
	if v == nil || v.Bytes <= 0 {
		return 0
	}
	return int(min(100, float64(v.UsedBytes)*100/float64(v.Bytes)))
}

// nextSize is a step more than a size, within the limit. It is rounded up to what a person would write.
func nextSize(grow *v1alpha1.AutoGrow, size resource.Quantity) resource.Quantity {
	next := size.Value() + size.Value()/100*int64(grow.StepPercent)
	unit := int64(64 << 20)
	if next >= 10<<30 {
		unit = 1 << 30
	}
	next = (next + unit - 1) / unit * unit
	if next >= grow.Limit.Value() {
		return grow.Limit
	}
	return *resource.NewQuantity(next, resource.BinarySI)
}
