package rolling

import (
	"testing"
	"time"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
)

func TestWhatIsDownDoesNotWaitForTheWindow(t *testing.T) {
	shut := func(o *observed.Cluster) {
		o.Cluster.Spec.MaintenanceWindow = observedtest.WindowOf("0 3 * * *", "UTC", time.Hour)
	}
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		want   bool
	}{
		"an image for a replica":    {observedtest.NewImage(), true},
		"an image for the primary":  {observedtest.NewImage(1, 2), true},
		"a parameter":               {observedtest.WaitsFor("max_connections", "50", "shop-0"), true},
		"an image for what is down": {observedtest.All(observedtest.NewImage(), func(o *observed.Cluster) { observedtest.Unready(o, 1) }), false},
		"other data":                {func(o *observed.Cluster) { o.Cluster.Status.DataGeneration = "g2" }, false},
		"nothing":                   {nil, false},
	} {
		o := observedtest.Trio(observedtest.All(shut, observedtest.OrNothing(c.change)))
		if got := disturbs(o, NextMove(o)); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestWhatIsDownIsLeftAloneWhileRepairsArePaused(t *testing.T) {
	paused := func(o *observed.Cluster) {
		o.Cluster.Spec.Repair = &v1alpha1.Repair{PausedFrom: observed.TimeOf(o.Now.Add(-time.Hour)), PausedUntil: observed.TimeOf(o.Now.Add(time.Hour))}
	}
	ended := func(o *observed.Cluster) { o.Cluster.Spec.Repair.PausedUntil = observed.TimeOf(o.Now) }
	pending := func(o *observed.Cluster) { o.Pod(1).Spec.NodeName = "" }
	otherData := func(o *observed.Cluster) { o.Cluster.Status.DataGeneration = "g2" }
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		want   MoveKind
	}{
		"while it lasts":                   {paused, moveWait},
		"once it has ended":                {observedtest.All(paused, ended), MoveReplace},
		"its pod has no node yet":          {observedtest.All(pending, paused), MoveReplace},
		"other data was handed over to it": {observedtest.All(paused, otherData), MoveReplace},
	} {
		o := observedtest.Trio(observedtest.All(observedtest.NewImage(), func(o *observed.Cluster) { observedtest.Unready(o, 1) }, c.change))
		if got := NextMove(o); got.Kind != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
