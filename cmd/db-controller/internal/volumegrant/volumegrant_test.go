package volumegrant

import (
	"testing"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/desired"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/flow"
)

func TestDataThatIsHandedOverBeginsWhereItLies(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		want   string
	}{
		"on the first volume that was granted": {func(o *observed.Cluster) {
			observedtest.HandsOver(o, "g2", v1alpha1.VolumeLockGranted, "shop-2", "shop-0", "shop-1")
		}, "shop-2"},
		"taken back, where it was before": {func(o *observed.Cluster) {
			observedtest.HandsOver(o, "g0", v1alpha1.VolumeLockAdopted)
			o.Cluster.Status.DataInstance = "shop-2"
			observedtest.SwitchedTo(o, "shop-1")
		}, "shop-2"},
		"taken back in a cluster of an older suite, at the primary": {func(o *observed.Cluster) {
			observedtest.HandsOver(o, "g0", v1alpha1.VolumeLockAdopted)
			observedtest.SwitchedTo(o, "shop-1")
		}, "shop-1"},
	} {
		t.Run(name, func(t *testing.T) {
			o := observedtest.Trio(c.change)
			outcome := AdoptHandover(t.Context(), o)
			status := o.Cluster.Status
			if outcome.Kind != flow.KindSave || status.DataInstance != c.want || status.Primary != c.want {
				t.Errorf("%+v: begins on %s, primary %s", outcome, status.DataInstance, status.Primary)
			}
			if told := desired.AgentConfig(o).DataInstance; told != c.want {
				t.Errorf("the agents are told %q", told)
			}
		})
	}
}

func TestTheVolumeWithTheDataIsHandedOverFirst(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		want   string
	}{
		"of who is primary":                        {nil, "data-shop-0"},
		"of who became it":                         {func(o *observed.Cluster) { observedtest.SwitchedTo(o, "shop-2") }, "data-shop-2"},
		"of who was when all were stopped":         {observedtest.All(observedtest.AllGone, func(o *observed.Cluster) { o.Cluster.Status.Primary = "shop-1" }), "data-shop-1"},
		"of who was last, as the Lease says":       {observedtest.All(observedtest.AllGone, observedtest.LeaseOf("g1", "shop-2")), "data-shop-2"},
		"not of who was last on the data before":   {observedtest.All(observedtest.AllGone, observedtest.LeaseOf("g0", "shop-2")), "data-shop-0"},
		"of the first, before there was a primary": {observedtest.All(observedtest.AllGone, func(o *observed.Cluster) { o.Cluster.Status.Primary = "" }), "data-shop-0"},
	} {
		o := observedtest.Trio(c.change)
		if facts := facts(o); len(facts.Volumes) != 3 || facts.Volumes[0].ClaimName != c.want || "data-"+facts.Volumes[0].Instance != c.want {
			t.Errorf("%s: %+v", name, facts.Volumes)
		}
	}
}
