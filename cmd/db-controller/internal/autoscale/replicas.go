package autoscale

import (
	"fmt"
	"math"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
)

const (
	// growAbove and shrinkBelow are the parts of a target between which the number of replicas stays. After a replica was added or removed,
	// the load lies between them, so the number doesn't go up and down under a load that stays.
	growAbove   = 1.1
	shrinkBelow = 0.8
	// shrinkAfter is for how long fewer replicas must have been enough, by default.
	shrinkAfter = time.Hour
	notesEach   = 6 // of that time, in which it is noted that they are needed
)

// Measure of the load of replicas.
type Measure struct {
	Name   string // as part of a sentence: their CPU
	Target int32  // in percent
	Used   []int64
}

// ReplicaLoad is the load of the replicas that readers are led to.
type ReplicaLoad struct {
	Replicas int32 // that there are to be now
	Late     int32 // of them that readers are not led to
	Least    int32
	Most     int32
	LeastWhy string
	Measures []Measure
}

// needs says how many replicas the load asks for, as many as there are as long as it lies about its target.
func (l ReplicaLoad) needs() (count int32, why string) {
	var reasons []string
	for _, m := range l.Measures {
		there, sum := int32(len(m.Used)), int64(0)
		if there == 0 {
			continue
		}
		for _, percent := range m.Used {
			sum += percent
		}
		count = max(count, m.needs(there, float64(sum)))
		reasons = append(reasons, fmt.Sprintf("%d %% of %s (target %d %%)", sum/int64(there), m.Name, m.Target))
	}
	if len(reasons) == 0 {
		return l.Least, l.LeastWhy
	}
	count += l.Late
	why = fmt.Sprintf("The replicas use %s on average.", strings.Join(reasons, " and "))
	switch {
	case count < l.Least:
		return l.Least, why + " " + l.LeastWhy
	case count > l.Most:
		return l.Most, why + " spec.autoscale.replicas.max applies."
	}
	return count, why
}

func (m Measure) needs(there int32, sum float64) int32 {
	target := float64(m.Target)
	if sum > growAbove*target*float64(there) {
		return int32(math.Ceil(sum / target))
	}
	for there > 1 && sum <= shrinkBelow*target*float64(there-1) {
		there--
	}
	return there
}

// RecommendReplicas says how many replicas there should be, from what was recommended before; nil: nothing was. It grows at once, and shrinks
// by one at a time after the load has asked for fewer for a while.
func RecommendReplicas(spec v1alpha1.AutoscaleReplicas, before *v1alpha1.ReplicasRecommendation, load ReplicaLoad, now time.Time) *v1alpha1.ReplicasRecommendation {
	at := metav1.NewTime(now.Truncate(time.Second))
	fresh := func(count int32, why string) *v1alpha1.ReplicasRecommendation {
		return &v1alpha1.ReplicasRecommendation{Replicas: count, Reason: why, Since: at, NeededAt: at}
	}
	need, why := load.needs()
	if before == nil {
		return fresh(max(need, min(load.Replicas, load.Most)), why)
	}
	said := min(max(before.Replicas, load.Least), load.Most)
	if spec.Mode == v1alpha1.AutoscaleApply {
		said = min(said, max(need, load.Replicas)) // what was asked for, is not there yet and is not needed any more
	}
	wait := waitOf(spec)
	since := now.Sub(before.NeededAt.Time)
	switch {
	case need > said:
		return fresh(need, why)
	case need < said && since >= wait:
		return fresh(said-1, why+fmt.Sprintf(" Fewer have been enough for %s; one is removed at a time.", wait))
	}
	kept := before.DeepCopy()
	if said != before.Replicas {
		kept = fresh(said, why)
		kept.NeededAt = before.NeededAt
	}
	if need >= said && since >= wait/notesEach {
		kept.NeededAt = at
	}
	return kept
}

// KeepReplicas is what was recommended, while the load is not known: that time doesn't count as one in which fewer were enough.
func KeepReplicas(spec v1alpha1.AutoscaleReplicas, before *v1alpha1.ReplicasRecommendation, now time.Time) *v1alpha1.ReplicasRecommendation {
	if before == nil || now.Sub(before.NeededAt.Time) < waitOf(spec)/notesEach {
		return before
	}
	kept := before.DeepCopy()
	kept.NeededAt = metav1.NewTime(now.Truncate(time.Second))
	return kept
}

func waitOf(spec v1alpha1.AutoscaleReplicas) time.Duration {
	if spec.ShrinkAfter != nil {
		return spec.ShrinkAfter.Duration
	}
	return shrinkAfter
}
