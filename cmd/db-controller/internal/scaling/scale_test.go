package scaling

import (
	"testing"

	"k8s.io/utils/ptr"

	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
)

func TestTheNumberOfInstancesChangesInAnOrderThatLeavesNoTwoPrimaries(t *testing.T) {
	single := func(o *observed.Cluster) {
		observedtest.Lose(o, "shop-1")
		observedtest.Lose(o, "shop-2")
		observedtest.ReplicasOfSet(o, 1)
	}
	for name, c := range map[string]struct {
		change         func(*observed.Cluster)
		told, replicas int
	}{
		"as many as are wanted":                         {nil, 3, 3},
		"one more":                                      {observedtest.Wants(4), 4, 4},
		"one less":                                      {observedtest.Wants(2), 3, 2},
		"one less, and it is primary":                   {observedtest.All(observedtest.Wants(2), func(o *observed.Cluster) { observedtest.SwitchedTo(o, "shop-2") }), 3, 3},
		"one less, and nobody is primary":               {observedtest.All(observedtest.Wants(2), func(o *observed.Cluster) { o.Agents["shop-0"].Role = "replica" }), 3, 3},
		"one less, and the primary is down":             {observedtest.All(observedtest.Wants(2), func(o *observed.Cluster) { observedtest.Unready(o, 0) }), 3, 3},
		"one less, and its pod is still there":          {observedtest.All(observedtest.Wants(2), func(o *observed.Cluster) { o.StatefulSet().Spec.Replicas = ptr.To[int32](2) }), 3, 2},
		"one less, and it is gone":                      {observedtest.All(observedtest.Wants(2), func(o *observed.Cluster) { observedtest.ReplicasOfSet(o, 2); observedtest.Lose(o, "shop-2") }), 2, 2},
		"from three to one":                             {observedtest.Wants(1), 3, 1},
		"from three to one, going":                      {observedtest.All(observedtest.Wants(1), func(o *observed.Cluster) { observedtest.ReplicasOfSet(o, 1) }), 3, 1},
		"from three to one, gone":                       {observedtest.All(observedtest.Wants(1), single), 1, 1},
		"from three to one, in a new pass":              {observedtest.All(observedtest.Wants(1), single, func(o *observed.Cluster) { observedtest.ToldBefore(o, 1) }), 1, 1},
		"from one to three: first the agent is told":    {observedtest.All(single, func(o *observed.Cluster) { observedtest.ToldBefore(o, 1); o.Agents["shop-0"].Election = nil }), 3, 1},
		"from one to three: it has taken the lease":     {single, 3, 3},
		"from one to three: somebody else has it":       {observedtest.All(single, func(o *observed.Cluster) { o.Agents["shop-0"].Election.Leader = "shop-1" }), 3, 1},
		"a StatefulSet that was scaled by hand":         {observedtest.All(observedtest.Wants(1), single, func(o *observed.Cluster) { observedtest.ToldBefore(o, 1); observedtest.ReplicasOfSet(o, 3) }), 1, 1},
		"all stopped":                                   {observedtest.AllGone, 3, 3},
		"all stopped, and one is wanted":                {observedtest.All(observedtest.Wants(1), observedtest.AllGone), 1, 1},
		"all stopped, one wanted that has not the data": {observedtest.All(observedtest.Wants(1), observedtest.AllGone, func(o *observed.Cluster) { o.Cluster.Status.Primary = "shop-2" }), 3, 3},
		"all stopped, and the Lease knows more":         {observedtest.All(observedtest.Wants(1), observedtest.AllGone, observedtest.LeaseOf("g1", "shop-1")), 2, 2},
		"all stopped, and the Lease is of other data":   {observedtest.All(observedtest.Wants(1), observedtest.AllGone, observedtest.LeaseOf("g0", "shop-1")), 1, 1},
		"what was told is lost":                         {observedtest.All(observedtest.Wants(1), func(o *observed.Cluster) { delete(o.Live, observed.Key("ConfigMap", "shop-config")) }), 3, 1},
	} {
		t.Run(name, func(t *testing.T) {
			o := observedtest.Trio(c.change)
			if told, replicas := o.ToldInstances(), Replicas(o); told != c.told || replicas != c.replicas {
				t.Errorf("told %d, want %d; replicas %d, want %d", told, c.told, replicas, c.replicas)
			}
		})
	}
}

func TestTheConditionSaysWhichInstanceComesOrGoes(t *testing.T) {
	for want, change := range map[string]func(*observed.Cluster){
		"shop-2 is being removed.": func(o *observed.Cluster) { o.Cluster.Spec.Instances = 2 },
		"shop-2 hands over to an instance that stays.": func(o *observed.Cluster) {
			o.Cluster.Spec.Instances = 2
			observedtest.SwitchedTo(o, "shop-2")
		},
		"Instances are removed once the primary shop-0 is ready.": func(o *observed.Cluster) {
			o.Cluster.Spec.Instances = 2
			observedtest.Unready(o, 0)
		},
		"shop-3 is being created.": func(o *observed.Cluster) { o.Cluster.Spec.Instances = 4 },
	} {
		if got := Condition(observedtest.Trio(change)).Message; got != want {
			t.Errorf("%q, and it should be %q", got, want)
		}
	}
}
