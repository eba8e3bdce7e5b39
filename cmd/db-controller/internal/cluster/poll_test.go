package cluster

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/cmd/db-controller/internal/pace"
	"howdah.dev/howdah/pkg/flow"
)

func TestWhoeverHasJustComeUpIsAskedSoon(t *testing.T) {
	ready := func(o *observed.Cluster, since time.Duration) {
		o.Pods[1].Status.Conditions[0].LastTransitionTime = metav1.NewTime(o.Now.Add(-since))
	}
	uncounted := func(o *observed.Cluster) { o.Agents["shop-0"].Election.Members = []string{"shop-2"} }
	silent := func(o *observed.Cluster) { o.Agents["shop-1"].Replication.Streaming = false }
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		after  time.Duration
	}{
		"all is well": {func(o *observed.Cluster) { ready(o, time.Second) }, pace.RestInterval},
		"a person's Secret is read": {func(o *observed.Cluster) {
			ready(o, time.Hour)
			o.Passwords = map[string][]byte{"reader": []byte("x")}
		}, pace.QuietInterval},
		"it follows its load": {func(o *observed.Cluster) {
			ready(o, time.Hour)
			o.Cluster.Spec.Autoscale = &v1alpha1.Autoscale{}
		}, pace.QuietInterval},
		"a failover is paused": {func(o *observed.Cluster) {
			ready(o, time.Hour)
			o.Cluster.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAutomaticFailover, Status: metav1.ConditionFalse, Reason: "Paused"}}
		}, pace.QuietInterval},
		"nothing is archived, as spec wants it": {func(o *observed.Cluster) {
			ready(o, time.Hour)
			o.Cluster.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionArchiving, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNotConfigured}}
		}, pace.RestInterval},
		"it doesn't follow yet":     {func(o *observed.Cluster) { ready(o, time.Second); silent(o) }, pace.BusyInterval},
		"it isn't counted yet":      {func(o *observed.Cluster) { ready(o, time.Second); uncounted(o) }, pace.BusyInterval},
		"it doesn't follow at all":  {func(o *observed.Cluster) { ready(o, time.Hour); silent(o) }, pace.UnknownInterval},
		"it isn't counted for long": {func(o *observed.Cluster) { ready(o, time.Hour); uncounted(o) }, pace.UnknownInterval},
		"it was one a moment ago": {func(o *observed.Cluster) {
			ready(o, time.Hour)
			uncounted(o)
			o.Cluster.Status.Conditions = []metav1.Condition{{
				Type: v1alpha1.ConditionReplicated, Status: metav1.ConditionFalse, LastTransitionTime: metav1.NewTime(o.Now.Add(-joinTime / 2)),
			}}
		}, pace.BusyInterval},
		"its pod is gone": {func(o *observed.Cluster) {
			uncounted(o)
			o.Pods = append(o.Pods[:1], o.Pods[2:]...)
		}, pace.UnknownInterval},
	} {
		if got := pollInterval(observedtest.Trio(c.change)); got != c.after {
			t.Errorf("%s: got %v, not %v", name, got, c.after)
		}
	}
}

func TestLongPausesAreSpread(t *testing.T) {
	busy := func(o *observed.Cluster) { o.Agents["shop-1"].Replication.Streaming = false }
	for _, c := range []struct {
		change func(*observed.Cluster)
		random float64
		want   time.Duration
	}{
		{busy, 1, pollInterval(observedtest.Trio(busy))},
		{func(*observed.Cluster) {}, 0, pace.RestInterval * 3 / 4},
		{func(*observed.Cluster) {}, 0.5, pace.RestInterval},
		{func(*observed.Cluster) {}, 1, pace.RestInterval * 5 / 4},
	} {
		r := &Reconciler{random: func() float64 { return c.random }}
		if got := r.lookAgain(observedtest.Trio(c.change), flow.Next); got != c.want {
			t.Errorf("with %v: got %v, not %v", c.random, got, c.want)
		}
	}
}
