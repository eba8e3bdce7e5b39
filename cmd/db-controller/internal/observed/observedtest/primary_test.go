package observedtest

import (
	"testing"

	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/agentapi"
)

func TestThePrimaryIsWhomTheAgentsCallSo(t *testing.T) {
	silent := func(o *observed.Cluster) { o.Agents = map[string]*agentapi.Status{} }
	label := func(ordinal int) func(*observed.Cluster) {
		return func(o *observed.Cluster) { o.Pod(ordinal).Labels["howdah.dev/role"] = "primary" }
	}
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		want   int
	}{
		"the one whose agent says so": {nil, 0},
		"whatever labels say":         {label(1), 0},
		"of two the one of the later term": {func(o *observed.Cluster) {
			a := o.Agents["shop-2"]
			a.Role = "primary"
			a.Election = &agentapi.ElectionStatus{Leader: "shop-2", Term: 5}
		}, 2},
		"of two not the one that lost the lease": {func(o *observed.Cluster) {
			a := o.Agents["shop-2"]
			a.Role = "primary"
			a.Election = &agentapi.ElectionStatus{Leader: "shop-0", Term: 5}
		}, 0},
		"none while it is being started":               {func(o *observed.Cluster) { o.Agents["shop-0"].State = agentapi.StateStarting }, -1},
		"none on other data":                           {func(o *observed.Cluster) { o.Agents["shop-0"].DataGeneration = "g0" }, -1},
		"the labelled one where no agent answers":      {All(silent, label(1)), 1},
		"of two that are labelled the previous one":    {All(silent, label(1), label(2), func(o *observed.Cluster) { o.Cluster.Status.Primary = "shop-2" }), 2},
		"not one that is labelled and not ready":       {All(silent, label(1), func(o *observed.Cluster) { Unready(o, 1) }), -1},
		"not one that is labelled and says it is none": {func(o *observed.Cluster) { delete(o.Agents, "shop-0"); label(1)(o) }, -1},
		"none where nothing is said":                   {silent, -1},
	} {
		if got := Trio(c.change).Primary(); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}
