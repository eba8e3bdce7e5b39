package storage

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
)

// GrowPause is between two decisions to grow: what the agents say of the larger volume has to be known before the next.
const GrowPause = time.Minute

// GrowByItself decides that the volumes grow, where spec.storage.autoGrow requests it. The decision is recorded before
// anything is requested of Kubernetes, and is never taken back.
func GrowByItself(_ context.Context, o *observed.Cluster) flow.Outcome {
	for _, k := range kinds {
		if outcome := growByItself(o, k); !outcome.Finished() {
			return outcome
		}
	}
	return flow.Next
}

func growByItself(o *observed.Cluster, k kind) flow.Outcome {
	if !filling(o, k) || !mayGrowAgain(o, k) {
		return flow.Next
	}
	name, percent := fullest(o, k)
	size := k.size(o)
	next := nextSize(k.autoGrow(o), size)
	if next.Cmp(size) <= 0 {
		return flow.Next
	}
	message := fmt.Sprintf("They grow automatically, because the %s of %s was %d%% full.", k.name, name, percent)
	k.grow(o, &v1alpha1.StorageStatus{Size: next, GrownAt: *observed.TimeOf(o.Now), Message: message})
	return flow.Save(v1alpha1.ReasonVolumesGrowing, fmt.Sprintf("The %ss are to grow from %s to %s. %s", k.name, size.String(), next.String(), message))
}

// Filling says whether a volume is used so far that all of its kind grow by themselves, where that is wanted.
func Filling(o *observed.Cluster) bool {
	return slices.ContainsFunc(kinds, func(k kind) bool { return filling(o, k) })
}

func filling(o *observed.Cluster, k kind) bool {
	grow := k.autoGrow(o)
	if grow == nil {
		return false
	}
	_, percent := fullest(o, k)
	return percent >= int(grow.AtPercent)
}

// mayGrowAgain: all volumes have the size that is wanted, and may have a larger one.
func mayGrowAgain(o *observed.Cluster, k kind) bool {
	if grown := k.grown(o); grown != nil && o.Now.Sub(grown.GrownAt.Time) < GrowPause {
		return false
	}
	claims := k.claims(o)
	for _, claim := range claims {
		capacity := volume.Capacity(claim)
		if TooSmall(o, claim) || capacity.IsZero() || lacksSpace(o, claim) || barrier(o, claim) != "" {
			return false
		}
	}
	return len(claims) > 0
}

// fullest is the instance whose volume is used most, by the word of its agent, and how many percent that is.
func fullest(o *observed.Cluster, k kind) (name string, percent int) {
	if observed.StandsBy(o) {
		return o.Names.Instance(0), usedPercent(k.ofStandby(o))
	}
	for ordinal := range o.Reach() {
		agent := o.Agent(ordinal)
		if agent == nil {
			continue
		}
		if used := usedPercent(k.seen(agent)); used > percent {
			name, percent = agent.Pod, used
		}
	}
	return name, percent
}

// volumeOfStandby is what the Job of a standby has said of its volume; nil: nothing that is known to be true yet. The report of a pod that doesn't run
// stays, and a report from before the volume has grown would make it grow to its limit.
func volumeOfStandby(o *observed.Cluster) *agentapi.VolumeStatus {
	said, claim := observed.StandbyReport(o), o.Claim(0)
	if said == nil || said.Volume == nil || claim == nil || o.InitJob.LivePods == 0 {
		return nil
	}
	if capacity := volume.Capacity(claim); said.Volume.Bytes < capacity.Value()/100*fileSystemPercent {
		return nil
	}
	return said.Volume
}

// fileSystemPercent of a volume are in its file system, at least. The rest are the file system's own.
const fileSystemPercent = 90

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
