// Package autoscale says which requests of CPU and memory fit the load of a cluster. It grows quickly within bounds, and shrinks slowly.
package autoscale

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
)

const (
	// Quiet is how long the load must have been lower before less is recommended.
	Quiet = 24 * time.Hour
	// LeastSeconds that an agent must have measured.
	LeastSeconds = 20 * 60

	headroom      = 1.25 // of a recommendation over what is used
	lowShare      = 0.7  // of the recommendation, below which the load is lower, and by which it shrinks at a time
	noteEach      = time.Hour
	throttledMuch = 0.05 // of the periods of a CPU limit
	throttledMore = 1.5  // what a throttled container might use
)

// Kind of resource.
type Kind struct {
	Name   corev1.ResourceName
	Step   int64 // that recommendations are multiples of
	Amount func(value int64) resource.Quantity
	Value  func(q resource.Quantity) int64
	Show   func(value int64) string
}

// CPU is measured in thousandths of a core, and Memory in bytes.
var (
	CPU = Kind{
		Name: corev1.ResourceCPU, Step: 50, Amount: func(v int64) resource.Quantity { return *resource.NewMilliQuantity(v, resource.DecimalSI) },
		Value: func(q resource.Quantity) int64 { return q.MilliValue() }, Show: func(v int64) string { return fmt.Sprintf("%dm", v) },
	}
	Memory = Kind{
		Name: corev1.ResourceMemory, Step: 64 << 20, Amount: func(v int64) resource.Quantity { return *resource.NewQuantity(v, resource.BinarySI) },
		Value: func(q resource.Quantity) int64 { return q.Value() }, Show: func(v int64) string { return fmt.Sprintf("%dMi without the page cache", v>>20) },
	}
)

// Load of the instance that uses most within the last hour.
type Load struct {
	Instance string
	Used     int64
	// Throttled is the share of the time in which it was stopped by its limit of CPU.
	Throttled float64
	// Limit that the container has; 0: none.
	Limit int64
}

// Recommend says what to request, from what was recommended before; nil: nothing was. It shrinks to no less than the load has asked for since
// it was last needed: all of that was below the low share.
func Recommend(kind Kind, bounds v1alpha1.ResourceBounds, before *v1alpha1.ResourceRecommendation, load Load, now time.Time) *v1alpha1.ResourceRecommendation {
	at := metav1.NewTime(now.Truncate(time.Second))
	fresh := func(value int64, why string) *v1alpha1.ResourceRecommendation {
		if load.Limit > 0 && value > load.Limit {
			why += " It is more than spec.resources.limits has: raise that with it."
		}
		return &v1alpha1.ResourceRecommendation{Request: kind.Amount(value), Reason: why, Since: at, NeededAt: at}
	}
	target, why := fit(kind, bounds, load)
	if before == nil {
		return fresh(target, why)
	}
	said := kind.Value(before.Request)
	recommended := min(max(said, kind.Value(bounds.Min)), kind.Value(bounds.Max))
	low, since := float64(target) < lowShare*float64(recommended), now.Sub(before.NeededAt.Time)
	switch {
	case target > recommended:
		return fresh(target, why)
	case low && since >= Quiet:
		if less := int64(lowShare*float64(recommended)) / kind.Step * kind.Step; less > target {
			return fresh(less, why+" It shrinks by 30 % a day at most.")
		}
		return fresh(target, why)
	}
	kept := before.DeepCopy()
	if recommended != said {
		kept = fresh(recommended, why+" It follows the bounds of spec.autoscale.resources, which have changed.")
		kept.NeededAt = before.NeededAt
	}
	if !low && since >= noteEach {
		kept.NeededAt = at
	}
	return kept
}

// fit is what the load of the last hour asks for within the bounds, and why.
func fit(kind Kind, bounds v1alpha1.ResourceBounds, load Load) (target int64, why string) {
	used := float64(load.Used)
	why = fmt.Sprintf("%s used %s within the last hour, and a quarter more is kept free.", load.Instance, kind.Show(load.Used))
	if load.Throttled > throttledMuch {
		used *= throttledMore
		why += fmt.Sprintf(" Its CPU limit throttled it in %d %% of its periods, so it may need half as much more.", int(100*load.Throttled))
	}
	target, least, most := roundUp(int64(headroom*used), kind.Step), kind.Value(bounds.Min), kind.Value(bounds.Max)
	switch {
	case target < least:
		return least, why + " The min of spec.autoscale.resources applies."
	case target > most:
		return most, why + " The max of spec.autoscale.resources applies."
	}
	return target, why
}

func roundUp(value, step int64) int64 { return (value + step - 1) / step * step }
