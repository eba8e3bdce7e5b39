package cluster

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
)

func TestWhoeverHasJustComeUpIsAskedSoon(t *testing.T) {
	ready := func(w *world, since time.Duration) {
		w.pods[1].Status.Conditions[0].LastTransitionTime = metav1.NewTime(w.now.Add(-since))
	}
	uncounted := func(w *world) { w.agents["shop-0"].Election.Members = []string{"shop-2"} }
	silent := func(w *world) { w.agents["shop-1"].Replication.Streaming = false }
	for name, c := range map[string]struct {
		change func(*world)
		after  time.Duration
	}{
		"all is well":               {func(w *world) { ready(w, time.Second) }, quietInterval},
		"it doesn't follow yet":     {func(w *world) { ready(w, time.Second); silent(w) }, busyInterval},
		"it isn't counted yet":      {func(w *world) { ready(w, time.Second); uncounted(w) }, busyInterval},
		"it doesn't follow at all":  {func(w *world) { ready(w, time.Hour); silent(w) }, unknownInterval},
		"it isn't counted for long": {func(w *world) { ready(w, time.Hour); uncounted(w) }, unknownInterval},
		"it was one a moment ago": {func(w *world) {
			ready(w, time.Hour)
			uncounted(w)
			w.cluster.Status.Conditions = []metav1.Condition{{
				Type: v1alpha1.ConditionReplicated, Status: metav1.ConditionFalse, LastTransitionTime: metav1.NewTime(w.now.Add(-joinTime / 2)),
			}}
		}, busyInterval},
		"its pod is gone": {func(w *world) {
			uncounted(w)
			w.pods = append(w.pods[:1], w.pods[2:]...)
		}, unknownInterval},
	} {
		if got := pollInterval(trio(c.change)); got != c.after {
			t.Errorf("%s: got %v, not %v", name, got, c.after)
		}
	}
}
