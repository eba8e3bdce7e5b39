package instances

import (
	"testing"

	"howdah.dev/howdah/cmd/db-controller/internal/desired"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/flow"
)

func TestAnotherInstanceBeginsOnlyWhenTheLeaseHasGone(t *testing.T) {
	gone := func(o *observed.Cluster) { o.LeaseRead, o.Lease = true, nil }
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		want   string
		saves  bool
	}{
		"not with a failover":                  {func(o *observed.Cluster) { observedtest.SwitchedTo(o, "shop-1") }, "shop-0", false},
		"the Lease has gone, under the first":  {gone, "shop-0", false},
		"the Lease has gone, under another":    {func(o *observed.Cluster) { observedtest.SwitchedTo(o, "shop-1"); gone(o) }, "shop-1", true},
		"the Lease has gone, and all are down": {func(o *observed.Cluster) { o.Agents = nil; o.Pods = nil; o.Cluster.Status.Primary = "shop-2"; gone(o) }, "shop-2", true},
		"a single instance is asked for nothing": {func(o *observed.Cluster) {
			*o = *observedtest.Running(nil)
			o.Cluster.Status.DataInstance = "shop-0"
			gone(o)
		}, "shop-0", false},
	} {
		t.Run(name, func(t *testing.T) {
			o := observedtest.Trio(func(o *observed.Cluster) { o.Cluster.Status.DataInstance = "shop-0"; observedtest.Tell(o) })
			before := desired.AgentConfig(o).Hash()
			c.change(o)
			outcome := SettleBeginning(t.Context(), o)
			if got := o.Cluster.Status.DataInstance; got != c.want || (outcome.Kind == flow.KindSave) != c.saves {
				t.Errorf("%s, %+v", got, outcome)
			}
			if changed := desired.AgentConfig(o).Hash() != before; changed != c.saves && o.Electing() {
				t.Errorf("the configuration changes: %v", changed)
			}
		})
	}
}
