package observedtest

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/howdah/cmd/db-controller/internal/observed"
)

func TestStoppedTakesTheWordOfTheStatefulSetsController(t *testing.T) {
	none := func(o *observed.Cluster) *appsv1.StatefulSet {
		set := o.StatefulSet()
		o.Pods, set.Spec.Replicas, set.Generation, set.Status.ObservedGeneration = nil, ptr.To[int32](0), 2, 2
		return set
	}
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		want   bool
	}{
		"running":                       {nil, false},
		"scaled down and gone":          {func(o *observed.Cluster) { none(o) }, true},
		"scaled down, not yet seen":     {func(o *observed.Cluster) { none(o).Status.ObservedGeneration = 1 }, false},
		"gone, but it comes again":      {func(o *observed.Cluster) { none(o).Spec.Replicas = ptr.To[int32](1) }, false},
		"the pod is still going":        {func(o *observed.Cluster) { pods := o.Pods; none(o); o.Pods = pods }, false},
		"a worker still writes":         {func(o *observed.Cluster) { none(o); o.Workers = make([]corev1.Pod, 1) }, false},
		"there never was a StatefulSet": {func(o *observed.Cluster) { o.Pods, o.Live = nil, nil }, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Running(c.change).Stopped(); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestVolumesAreVacatedWhenAllContainersHaveEndedForGood(t *testing.T) {
	going := func(phase corev1.PodPhase) func(o *observed.Cluster) {
		return func(o *observed.Cluster) {
			set := o.StatefulSet()
			set.Spec.Replicas, set.Generation, set.Status.ObservedGeneration, set.Status.Replicas = ptr.To[int32](0), 2, 2, 1
			o.Pods[0].Status.Phase, o.Pods[0].DeletionTimestamp = phase, &metav1.Time{Time: o.Now}
		}
	}
	and := func(changes ...func(*observed.Cluster)) func(*observed.Cluster) {
		return func(o *observed.Cluster) {
			for _, change := range changes {
				change(o)
			}
		}
	}
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		want   bool
	}{
		"running":                              {nil, false},
		"going":                                {going(corev1.PodRunning), false},
		"going, its containers have ended":     {going(corev1.PodSucceeded), true},
		"going, they have ended with an error": {going(corev1.PodFailed), true},
		"they have ended, but nobody has told it to go": {
			and(going(corev1.PodFailed), func(o *observed.Cluster) { o.Pods[0].DeletionTimestamp = nil }), false},
		"scaled down, not yet seen": {
			and(going(corev1.PodSucceeded), func(o *observed.Cluster) { o.StatefulSet().Status.ObservedGeneration = 1 }), false},
		"there is another pod that isn't seen yet": {
			and(going(corev1.PodSucceeded), func(o *observed.Cluster) { o.StatefulSet().Status.Replicas = 2 }), false},
		"a worker still writes": {and(going(corev1.PodSucceeded), func(o *observed.Cluster) { o.Workers = make([]corev1.Pod, 1) }), false},
	} {
		t.Run(name, func(t *testing.T) {
			o := Running(c.change)
			if got := o.Vacated(); got != c.want {
				t.Errorf("got %v", got)
			}
			if o.Stopped() {
				t.Error("the pod is still there")
			}
		})
	}
}
