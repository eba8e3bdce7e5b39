package cluster

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/howdah/pkg/agentapi"
)

func wants(n int32) func(*world) {
	return func(w *world) { w.cluster.Spec.Instances = n }
}

// allGone: no pod is left, and the StatefulSet makes none.
func allGone(w *world) {
	for _, name := range []string{"shop-0", "shop-1", "shop-2"} {
		lose(w, name)
	}
	replicasOfSet(w, 0)
}

func leaseOf(generation, last string) func(*world) {
	return func(w *world) {
		w.lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
			"howdah.dev/election": `{"generation":"` + generation + `","lastHolder":"` + last + `"}`,
		}}}
	}
}

func TestTheNumberOfInstancesChangesInAnOrderThatLeavesNoTwoPrimaries(t *testing.T) {
	single := func(w *world) {
		lose(w, "shop-1")
		lose(w, "shop-2")
		replicasOfSet(w, 1)
	}
	for name, c := range map[string]struct {
		change         func(*world)
		told, replicas int
	}{
		"as many as are wanted":                         {nil, 3, 3},
		"one more":                                      {wants(4), 4, 4},
		"one less":                                      {wants(2), 3, 2},
		"one less, and it is primary":                   {and(wants(2), func(w *world) { switchedTo(w, "shop-2") }), 3, 3},
		"one less, and nobody is primary":               {and(wants(2), func(w *world) { w.agents["shop-0"].Role = "replica" }), 3, 3},
		"one less, and the primary is down":             {and(wants(2), func(w *world) { unready(w, 0) }), 3, 3},
		"one less, and its pod is still there":          {and(wants(2), func(w *world) { w.statefulSet().Spec.Replicas = ptr.To[int32](2) }), 3, 2},
		"one less, and it is gone":                      {and(wants(2), func(w *world) { replicasOfSet(w, 2); lose(w, "shop-2") }), 2, 2},
		"from three to one":                             {wants(1), 3, 1},
		"from three to one, going":                      {and(wants(1), func(w *world) { replicasOfSet(w, 1) }), 3, 1},
		"from three to one, gone":                       {and(wants(1), single), 1, 1},
		"from three to one, in a new pass":              {and(wants(1), single, func(w *world) { toldBefore(w, 1) }), 1, 1},
		"from one to three: first the agent is told":    {and(single, func(w *world) { toldBefore(w, 1); w.agents["shop-0"].Election = nil }), 3, 1},
		"from one to three: it has taken the lease":     {single, 3, 3},
		"from one to three: somebody else has it":       {and(single, func(w *world) { w.agents["shop-0"].Election.Leader = "shop-1" }), 3, 1},
		"a StatefulSet that was scaled by hand":         {and(wants(1), single, func(w *world) { toldBefore(w, 1); replicasOfSet(w, 3) }), 1, 1},
		"all stopped":                                   {allGone, 3, 3},
		"all stopped, and one is wanted":                {and(wants(1), allGone), 1, 1},
		"all stopped, one wanted that has not the data": {and(wants(1), allGone, func(w *world) { w.cluster.Status.Primary = "shop-2" }), 3, 3},
		"all stopped, and the Lease knows more":         {and(wants(1), allGone, leaseOf("g1", "shop-1")), 2, 2},
		"all stopped, and the Lease is of other data":   {and(wants(1), allGone, leaseOf("g0", "shop-1")), 1, 1},
		"what was told is lost":                         {and(wants(1), func(w *world) { delete(w.live, key("ConfigMap", "shop-config")) }), 3, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := trio(c.change)
			if told, replicas := w.toldInstances(), w.replicas(); told != c.told || replicas != c.replicas {
				t.Errorf("told %d, want %d; replicas %d, want %d", told, c.told, replicas, c.replicas)
			}
		})
	}
}

func TestThePrimaryIsWhomTheAgentsCallSo(t *testing.T) {
	silent := func(w *world) { w.agents = map[string]*agentapi.Status{} }
	label := func(ordinal int) func(*world) {
		return func(w *world) { w.pod(ordinal).Labels["howdah.dev/role"] = "primary" }
	}
	for name, c := range map[string]struct {
		change func(*world)
		want   int
	}{
		"the one whose agent says so": {nil, 0},
		"whatever labels say":         {label(1), 0},
		"of two the one of the later term": {func(w *world) {
			a := w.agents["shop-2"]
			a.Role = "primary"
			a.Election = &agentapi.ElectionStatus{Leader: "shop-2", Term: 5}
		}, 2},
		"of two not the one that lost the lease": {func(w *world) {
			a := w.agents["shop-2"]
			a.Role = "primary"
			a.Election = &agentapi.ElectionStatus{Leader: "shop-0", Term: 5}
		}, 0},
		"none while it is being started":               {func(w *world) { w.agents["shop-0"].State = agentapi.StateStarting }, -1},
		"none on other data":                           {func(w *world) { w.agents["shop-0"].DataGeneration = "g0" }, -1},
		"the labelled one where no agent answers":      {and(silent, label(1)), 1},
		"of two that are labelled the one of before":   {and(silent, label(1), label(2), func(w *world) { w.cluster.Status.Primary = "shop-2" }), 2},
		"not one that is labelled and not ready":       {and(silent, label(1), func(w *world) { unready(w, 1) }), -1},
		"not one that is labelled and says it is none": {func(w *world) { delete(w.agents, "shop-0"); label(1)(w) }, -1},
		"none where nothing is said":                   {silent, -1},
	} {
		if got := trio(c.change).primary(); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}

func TestTheVolumeWithTheDataIsHandedOverFirst(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*world)
		want   string
	}{
		"of who is primary":                        {nil, "data-shop-0"},
		"of who became it":                         {func(w *world) { switchedTo(w, "shop-2") }, "data-shop-2"},
		"of who was when all were stopped":         {and(allGone, func(w *world) { w.cluster.Status.Primary = "shop-1" }), "data-shop-1"},
		"of who was last, as the Lease says":       {and(allGone, leaseOf("g1", "shop-2")), "data-shop-2"},
		"not of who was last on the data before":   {and(allGone, leaseOf("g0", "shop-2")), "data-shop-0"},
		"of the first, before there was a primary": {and(allGone, func(w *world) { w.cluster.Status.Primary = "" }), "data-shop-0"},
	} {
		w := trio(c.change)
		if facts := w.holdFacts(); len(facts.Volumes) != 3 || facts.Volumes[0].ClaimName != c.want || "data-"+facts.Volumes[0].Instance != c.want {
			t.Errorf("%s: %+v", name, facts.Volumes)
		}
	}
}
