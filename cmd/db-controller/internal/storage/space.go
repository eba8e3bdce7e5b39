package storage

import (
	"cmp"
	"fmt"
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/availability"
	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/cmd/db-controller/internal/condition"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/phrase"
	"howdah.dev/howdah/pkg/agentapi"
)

// InstanceStorage is what is known of the volume of an instance. What an agent has said last of it stays.
func InstanceStorage(o *observed.Cluster, ordinal int, known []v1alpha1.InstanceStatus) *v1alpha1.InstanceStorage {
	claim := o.Claim(ordinal)
	if claim == nil || o.AwaitsInit() { // that it is bound is no news of its own
		return nil
	}
	storage := &v1alpha1.InstanceStorage{}
	for i := range known {
		if known[i].Name == o.Names.Instance(ordinal) && known[i].Storage != nil {
			*storage = *known[i].Storage
		}
	}
	storage.Capacity = capacityOf(claim)
	agent := o.Agents[o.Names.Instance(ordinal)]
	if agent != nil && agent.Volume != nil {
		reportVolume(agent.Volume, storage)
	}
	storage.WAL = walVolume(o, ordinal, storage.WAL, agent)
	if agent != nil && agent.Disk != nil {
		storage.StalledSince = nil
		if since := agent.Disk.StalledSince; !since.IsZero() {
			storage.StalledSince = &metav1.Time{Time: since}
		}
	}
	if *storage == (v1alpha1.InstanceStorage{}) {
		return nil
	}
	return storage
}

// walVolume is what is known of the WAL volume of an instance; nil: it has none.
func walVolume(o *observed.Cluster, ordinal int, known *v1alpha1.WALVolume, agent *agentapi.Status) *v1alpha1.WALVolume {
	claim := observed.WALClaim(o, ordinal)
	if claim == nil {
		return nil
	}
	wal := &v1alpha1.WALVolume{}
	if known != nil {
		*wal = *known
	}
	wal.Name, wal.Capacity = claim.Name, capacityOf(claim)
	if agent == nil || agent.WALVolume == nil {
		return wal
	}
	seen := v1alpha1.InstanceStorage{Used: wal.Used, Percent: wal.Percent, State: wal.State, Message: wal.Message}
	reportVolume(agent.WALVolume, &seen)
	wal.Used, wal.Percent, wal.State, wal.Message = seen.Used, seen.Percent, seen.State, seen.Message
	return wal
}

func capacityOf(claim *corev1.PersistentVolumeClaim) *resource.Quantity {
	capacity := volume.Capacity(claim)
	if capacity.IsZero() {
		return nil
	}
	return &capacity
}

// sizes in the cause of a lack of space: they change all the time, as what is used does.
var sizes = regexp.MustCompile(`[0-9.]+ [MG]iB`)

// reportVolume publishes what is used when that has changed by a percent of the whole, or when its state or cause is another: it
// changes all the time, and a status that is written each time would cost more than it tells.
func reportVolume(seen *agentapi.VolumeStatus, storage *v1alpha1.InstanceStorage) {
	state, step := v1alpha1.SpaceState(seen.State), max(seen.Bytes/100, 1)
	if storage.Used != nil && near(storage.Used.Value(), seen.UsedBytes, step) && near(int64(storage.Percent), int64(usedPercent(seen)), 2) &&
		storage.State == state && sizes.ReplaceAllString(storage.Message, "") == sizes.ReplaceAllString(seen.Cause, "") {
		return
	}
	storage.State, storage.Message = state, seen.Cause
	storage.Used = resource.NewQuantity(seen.UsedBytes>>20<<20, resource.BinarySI)
	storage.Percent = int32(usedPercent(seen))
}

// near says that two numbers are less than a step apart.
func near(a, b, step int64) bool { return max(a, b)-min(a, b) < step }

// Space says whether the volumes have space left, by what the agents have said last.
func Space(o *observed.Cluster) condition.Finding {
	var almost, full *volumeState
	var stalled *v1alpha1.InstanceStatus
	known := false
	instances := o.Cluster.Status.Instances
	for i := range instances {
		storage := instances[i].Storage
		if storage != nil && storage.StalledSince != nil && (stalled == nil || instances[i].Role == v1alpha1.RolePrimary) {
			stalled = &instances[i]
		}
		if storage == nil || storage.Used == nil {
			continue
		}
		known = true
		for _, v := range volumesOf(&instances[i]) {
			switch {
			case v.state == v1alpha1.SpaceFull && (full == nil || v.primary):
				full = &v
			case v.state == v1alpha1.SpaceAlmostFull && (almost == nil || v.primary):
				almost = &v
			}
		}
	}
	endangered := availability.Endangered(o)
	switch {
	case endangered != "" && o.Cluster.Status.StorageMove.Leaving() == "":
		return condition.False(v1alpha1.ReasonClaimDeleted, endangered)
	case refusedClaim(o) != "":
		return condition.False(v1alpha1.ReasonClaimRefused, refusedClaim(o))
	case stalled != nil:
		return condition.False(v1alpha1.ReasonDiskStalled, stall(stalled))
	case full != nil && full.primary:
		return condition.False(v1alpha1.ReasonDiskFull, fmt.Sprintf("The %s of the primary %s is full, and clients may only read until there is space: %s %s",
			full.kind.name, full.instance, phrase.Sentence(full.message), forSpace(o, full.kind)))
	case full != nil:
		return condition.False(v1alpha1.ReasonDiskFull, fmt.Sprintf("The %s of %s is full: %s %s", full.kind.name, full.instance, phrase.Sentence(full.message), forSpace(o, full.kind)))
	case almost != nil:
		return condition.False(v1alpha1.ReasonAlmostFull, fmt.Sprintf("The %s of %s is nearly full: %s %s", almost.kind.name, almost.instance, phrase.Sentence(almost.message), forSpace(o, almost.kind)))
	case !known:
		return condition.Unknown(v1alpha1.ReasonSpaceUnknown, "No agent has reported yet how full its volume is.")
	}
	return condition.True(v1alpha1.ReasonEnoughSpace, "All volumes have space left.")
}

// volumeState is how full a volume of an instance is.
type volumeState struct {
	kind     kind
	instance string
	primary  bool
	state    v1alpha1.SpaceState
	message  string
}

func volumesOf(instance *v1alpha1.InstanceStatus) []volumeState {
	storage, primary := instance.Storage, instance.Role == v1alpha1.RolePrimary
	all := []volumeState{{dataKind, instance.Name, primary, storage.State, storage.Message}}
	if wal := storage.WAL; wal != nil {
		all = append(all, volumeState{walKind, instance.Name, primary, wal.State, wal.Message})
	}
	return all
}

// refusedClaim says which claim can't be created, and why; empty: all can.
func refusedClaim(o *observed.Cluster) string {
	for ordinal := range o.Wanted() {
		if why := cmp.Or(o.Refused[o.Names.Volume(ordinal)], o.Refused[o.Names.WALVolume(ordinal)]); why != "" && observed.MissingClaim(o, ordinal) != "" {
			return fmt.Sprintf("%s has no volume: %s The other instances run without it. Make room for it, or lower spec.instances.", o.Names.Instance(ordinal), phrase.Sentence(why))
		}
	}
	return ""
}

// stall says what a disk that doesn't respond means, and what to do about it.
func stall(instance *v1alpha1.InstanceStatus) string {
	what := fmt.Sprintf("The disk of %s has not answered since %s: a small write to it does not end.", instance.Name, instance.Storage.StalledSince.UTC().Format(time.RFC3339))
	if instance.Role == v1alpha1.RolePrimary {
		return what + " Commits wait. A replica takes over if there is one that follows and whose disk responds. Check the storage behind its volume, and its node."
	}
	return what + " It does not take over until the disk responds. Check the storage behind its volume, and its node; if it stays like this, delete the pod, so that it starts on another node."
}

// forSpace is what a person can do about a volume that fills.
func forSpace(o *observed.Cluster, k kind) string {
	size := k.size(o)
	if grow := k.autoGrow(o); grow != nil {
		if size.Cmp(grow.Limit) >= 0 {
			return fmt.Sprintf("Volumes have grown to their limit. Fix the cause, or raise %s.autoGrow.limit beyond %s.", k.field(), grow.Limit.String())
		}
		return fmt.Sprintf("Volumes grow automatically up to %s.", grow.Limit.String())
	}
	return fmt.Sprintf("Fix the cause, or raise %s.size beyond %s.", k.field(), size.String())
}
