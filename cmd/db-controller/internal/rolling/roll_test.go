package rolling

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/desired"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/agentapi"
)

func TestOneInstanceAtATimeIsTakenDownAndThePrimaryLast(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(*observed.Cluster)
		kind     MoveKind
		instance int
		why      string // in it
	}{
		"nothing when all is current":         {nil, MoveNone, 0, ""},
		"a replica first":                     {observedtest.NewImage(), MoveReplace, 2, "the image postgres:17.6 instead of postgres:17"},
		"then the other replica":              {observedtest.NewImage(2), MoveReplace, 1, "postgres:17.6"},
		"then another becomes primary":        {observedtest.NewImage(1, 2), moveSwitch, 1, "postgres:17.6"},
		"then the one that was":               {observedtest.All(observedtest.NewImage(1, 2), func(o *observed.Cluster) { observedtest.SwitchedTo(o, "shop-1") }), MoveReplace, 0, "postgres:17.6"},
		"nothing when the last one has it":    {observedtest.NewImage(0, 1, 2), MoveNone, 0, ""},
		"the replica that is down waits none": {observedtest.All(observedtest.NewImage(), func(o *observed.Cluster) { observedtest.Unready(o, 1) }), MoveReplace, 1, "postgres:17.6"},
		"a primary that is down neither":      {observedtest.All(observedtest.NewImage(), func(o *observed.Cluster) { observedtest.Unready(o, 0) }), MoveReplace, 0, "postgres:17.6"},
		"one that is cloned is left at it": {observedtest.All(observedtest.NewImage(), func(o *observed.Cluster) {
			observedtest.Unready(o, 1)
			o.Agents["shop-1"].Rejoin = &agentapi.RejoinStatus{Method: "Clone"}
		}), moveWait, 2, "PostgreSQL in pod shop-1 runs"},
		"one that is current but down is waited for": {observedtest.All(observedtest.NewImage(2), func(o *observed.Cluster) { observedtest.Unready(o, 2) }), moveWait, 1, "PostgreSQL in pod shop-2 runs; Kubernetes has yet to see"},
		"one that is missing is waited for":          {observedtest.All(observedtest.NewImage(), func(o *observed.Cluster) { observedtest.Lose(o, "shop-1") }), moveWait, 2, "Pod shop-1 is being created"},
		"one that goes away is waited for":           {observedtest.All(observedtest.NewImage(), func(o *observed.Cluster) { o.Pod(2).DeletionTimestamp = ptr.To(metav1.NewTime(observedtest.Noon)) }), moveWait, 2, "Pod shop-2 is being deleted"},
		"one that doesn't stream is waited for":      {observedtest.All(observedtest.NewImage(2), func(o *observed.Cluster) { o.Agents["shop-2"].Replication.Streaming = false }), moveWait, 1, "shop-2 doesn't receive WAL from the primary yet"},
		"one that is far behind is waited for":       {observedtest.All(observedtest.NewImage(2), func(o *observed.Cluster) { o.Agents["shop-2"].Replication.LagBytes = 17 << 20 }), moveWait, 1, "shop-2 lags 17 MiB behind the primary"},
		"one that lacks only what was written just now isn't": {observedtest.All(observedtest.NewImage(2), func(o *observed.Cluster) {
			o.Agents["shop-2"].Replication.LagBytes, o.Agents["shop-2"].Replication.OverdueBytes = 300<<20, new(int64(0))
		}), MoveReplace, 1, ""},
		"one that is a little behind isn't":           {observedtest.All(observedtest.NewImage(2), func(o *observed.Cluster) { o.Agents["shop-2"].Replication.LagBytes = 15 << 20 }), MoveReplace, 1, ""},
		"an agent that doesn't respond is waited for": {observedtest.All(observedtest.NewImage(), func(o *observed.Cluster) { delete(o.Agents, "shop-1") }), moveWait, 2, "The agent of shop-1 doesn't respond"},
		"PostgreSQL that restarts is waited for":      {observedtest.All(observedtest.NewImage(), func(o *observed.Cluster) { o.Agents["shop-1"].State = agentapi.StateStarting }), moveWait, 2, "PostgreSQL in pod shop-1 is starting"},
		"without a primary nobody is taken down": {observedtest.All(observedtest.NewImage(), func(o *observed.Cluster) {
			o.Agents["shop-0"].Role = "replica"
			o.Agents["shop-1"].Election.Waiting = "shop-0 is ahead"
		}), moveWait, 2, "There is no primary: shop-1: shop-0 is ahead."},
		"who takes over is the one that is least behind": {observedtest.All(observedtest.NewImage(1, 2), func(o *observed.Cluster) { o.Agents["shop-1"].Replication.LagBytes = 1 << 20 }), moveSwitch, 2, ""},

		"a parameter is raised on a replica first":  {observedtest.WaitsFor("max_connections", "200", "shop-0", "shop-1", "shop-2"), MoveRestart, 2, "max_connections"},
		"then on the other":                         {observedtest.WaitsFor("max_connections", "200", "shop-0", "shop-1"), MoveRestart, 1, "max_connections"},
		"then another becomes primary for it":       {observedtest.WaitsFor("max_connections", "200", "shop-0"), moveSwitch, 1, "max_connections"},
		"one that is lowered begins at the primary": {observedtest.WaitsFor("max_connections", "50", "shop-0", "shop-1", "shop-2"), MoveRestart, 0, "max_connections"},
		"and continues at the replicas":             {observedtest.WaitsFor("max_connections", "50", "shop-1", "shop-2"), MoveRestart, 2, "max_connections"},
		"lowered from what it was": {observedtest.All(func(o *observed.Cluster) {
			o.Cluster.Status.StandbyLimits = map[string]v1alpha1.ParameterValue{"max_connections": "300"}
		}, observedtest.WaitsFor("max_connections", "200", "shop-0", "shop-1", "shop-2")), MoveRestart, 0, ""},
		"lowered by leaving it out": {observedtest.All(func(o *observed.Cluster) {
			o.Cluster.Status.StandbyLimits = map[string]v1alpha1.ParameterValue{"max_worker_processes": "20"}
		}, observedtest.WaitsFor("max_worker_processes", "", "shop-0", "shop-1", "shop-2")), MoveRestart, 0, ""},
		"another parameter in any direction": {observedtest.WaitsFor("shared_buffers", "1MB", "shop-0", "shop-1", "shop-2"), MoveRestart, 2, "shared_buffers"},
		"lowered before pods are replaced":   {observedtest.All(observedtest.WaitsFor("max_connections", "50", "shop-0"), observedtest.NewImage()), MoveRestart, 0, "max_connections"},
		"who has not applied the parameters is waited for": {func(o *observed.Cluster) {
			before := desired.AgentConfig(o).Hash()
			observedtest.WaitsFor("max_connections", "200", "shop-0", "shop-2")(o)
			o.Agents["shop-1"].ConfigHash = before
		}, moveWait, 2, "The agent of shop-1 has yet to apply the configuration"},

		"the only one so far is replaced to be able to elect": {func(o *observed.Cluster) {
			observedtest.Lose(o, "shop-1")
			observedtest.Lose(o, "shop-2")
			observedtest.ReplicasOfSet(o, 1)
			o.Agents["shop-0"].ConfigHash, o.Agents["shop-0"].Election = "older", nil
			pod := o.Pod(0)
			var volumes []corev1.Volume
			for _, v := range pod.Spec.Volumes {
				if v.Name != "instance" {
					volumes = append(volumes, v)
				}
			}
			pod.Spec.Volumes = volumes
		}, MoveReplace, 0, "an agent that takes part in elections"},
	} {
		t.Run(name, func(t *testing.T) {
			got := NextMove(observedtest.Trio(c.change))
			if got.Kind != c.kind || got.Instance != c.instance || !strings.Contains(got.Why, c.why) {
				t.Errorf("got %q %d: %s", got.Kind, got.Instance, got.Why)
			}
		})
	}
}

func TestASingleInstanceIsTakenDownWithoutMoreAdo(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		kind   MoveKind
	}{
		"nothing when all is current":    {nil, MoveNone},
		"another image":                  {observedtest.NewImage(), MoveReplace},
		"another image while it is down": {func(o *observed.Cluster) { observedtest.NewImage()(o); observedtest.Unready(o, 0) }, MoveReplace},
		"a parameter":                    {observedtest.WaitsFor("max_connections", "50", "shop-0"), MoveRestart},
	} {
		if got := NextMove(observedtest.Running(c.change)); got.Kind != c.kind || got.Instance != 0 {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}
