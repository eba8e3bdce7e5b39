package cluster

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/statefulset"
	"howdah.dev/howdah/pkg/agentapi"
)

// newImage is wanted, and these instances run it already.
func newImage(done ...int) func(*world) {
	return func(w *world) {
		w.cluster.Status.Image = "postgres:17.6"
		template := statefulset.Build(w.cluster, w.inputs(3)).Spec.Template
		for _, ordinal := range done {
			pod := w.pod(ordinal)
			pod.Annotations, pod.Spec = template.Annotations, template.Spec
		}
	}
}

// waitsFor parameters: these instances wait for a restart.
func waitsFor(name string, value v1alpha1.ParameterValue, waiting ...string) func(*world) {
	return func(w *world) {
		setParameter(w, name, value)
		for _, instance := range waiting {
			w.agents[instance].PendingRestart = []string{name}
		}
	}
}

func and(changes ...func(*world)) func(*world) {
	return func(w *world) {
		for _, change := range changes {
			change(w)
		}
	}
}

func TestOneInstanceAtATimeIsTakenDownAndThePrimaryLast(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(*world)
		kind     moveKind
		instance int
		why      string // in it
	}{
		"nothing when all is current":         {nil, moveNone, 0, ""},
		"a replica first":                     {newImage(), moveReplace, 2, "the image postgres:17.6 instead of postgres:17"},
		"then the other replica":              {newImage(2), moveReplace, 1, "postgres:17.6"},
		"then another becomes primary":        {newImage(1, 2), moveSwitch, 1, "postgres:17.6"},
		"then the one that was":               {and(newImage(1, 2), func(w *world) { switchedTo(w, "shop-1") }), moveReplace, 0, "postgres:17.6"},
		"nothing when the last one has it":    {newImage(0, 1, 2), moveNone, 0, ""},
		"the replica that is down waits none": {and(newImage(), func(w *world) { unready(w, 1) }), moveReplace, 1, "postgres:17.6"},
		"a primary that is down neither":      {and(newImage(), func(w *world) { unready(w, 0) }), moveReplace, 0, "postgres:17.6"},
		"one that is cloned is left at it": {and(newImage(), func(w *world) {
			unready(w, 1)
			w.agents["shop-1"].Rejoin = &agentapi.RejoinStatus{Method: "Clone"}
		}), moveWait, 2, "PostgreSQL in pod shop-1 runs"},
		"one that is current but down is waited for": {and(newImage(2), func(w *world) { unready(w, 2) }), moveWait, 1, "PostgreSQL in pod shop-2 runs; Kubernetes has yet to see"},
		"one that is missing is waited for":          {and(newImage(), func(w *world) { lose(w, "shop-1") }), moveWait, 2, "Pod shop-1 is being created"},
		"one that goes away is waited for":           {and(newImage(), func(w *world) { w.pod(2).DeletionTimestamp = ptr.To(metav1.NewTime(noon)) }), moveWait, 2, "Pod shop-2 is going away"},
		"one that doesn't stream is waited for":      {and(newImage(2), func(w *world) { w.agents["shop-2"].Replication.Streaming = false }), moveWait, 1, "shop-2 doesn't get WAL from the primary yet"},
		"one that is far behind is waited for":       {and(newImage(2), func(w *world) { w.agents["shop-2"].Replication.LagBytes = 17 << 20 }), moveWait, 1, "shop-2 is 17 MiB behind the primary"},
		"one that is a little behind isn't":          {and(newImage(2), func(w *world) { w.agents["shop-2"].Replication.LagBytes = 15 << 20 }), moveReplace, 1, ""},
		"an agent that doesn't answer is waited for": {and(newImage(), func(w *world) { delete(w.agents, "shop-1") }), moveWait, 2, "The agent of shop-1 doesn't answer"},
		"PostgreSQL that restarts is waited for":     {and(newImage(), func(w *world) { w.agents["shop-1"].State = agentapi.StateStarting }), moveWait, 2, "PostgreSQL in pod shop-1 is starting"},
		"without a primary nobody is taken down": {and(newImage(), func(w *world) {
			w.agents["shop-0"].Role = "replica"
			w.agents["shop-1"].Election.Waiting = "shop-0 is ahead"
		}), moveWait, 2, "There is no primary: shop-1: shop-0 is ahead."},
		"who takes over is the one that is least behind": {and(newImage(1, 2), func(w *world) { w.agents["shop-1"].Replication.LagBytes = 1 << 20 }), moveSwitch, 2, ""},

		"a parameter is raised on a replica first":  {waitsFor("max_connections", "200", "shop-0", "shop-1", "shop-2"), moveRestart, 2, "max_connections"},
		"then on the other":                         {waitsFor("max_connections", "200", "shop-0", "shop-1"), moveRestart, 1, "max_connections"},
		"then another becomes primary for it":       {waitsFor("max_connections", "200", "shop-0"), moveSwitch, 1, "max_connections"},
		"one that is lowered begins at the primary": {waitsFor("max_connections", "50", "shop-0", "shop-1", "shop-2"), moveRestart, 0, "max_connections"},
		"and goes on at the replicas":               {waitsFor("max_connections", "50", "shop-1", "shop-2"), moveRestart, 2, "max_connections"},
		"lowered from what it was": {and(func(w *world) {
			w.cluster.Status.StandbyLimits = map[string]v1alpha1.ParameterValue{"max_connections": "300"}
		}, waitsFor("max_connections", "200", "shop-0", "shop-1", "shop-2")), moveRestart, 0, ""},
		"lowered by leaving it out": {and(func(w *world) {
			w.cluster.Status.StandbyLimits = map[string]v1alpha1.ParameterValue{"max_worker_processes": "20"}
		}, waitsFor("max_worker_processes", "", "shop-0", "shop-1", "shop-2")), moveRestart, 0, ""},
		"another parameter in any direction": {waitsFor("shared_buffers", "1MB", "shop-0", "shop-1", "shop-2"), moveRestart, 2, "shared_buffers"},
		"lowered before pods are replaced":   {and(waitsFor("max_connections", "50", "shop-0"), newImage()), moveRestart, 0, "max_connections"},
		"who has not applied the parameters is waited for": {func(w *world) {
			before := w.agentConfig().Hash()
			waitsFor("max_connections", "200", "shop-0", "shop-2")(w)
			w.agents["shop-1"].ConfigHash = before
		}, moveWait, 2, "The agent of shop-1 has yet to apply the configuration"},

		"the only one so far is replaced to be able to elect": {func(w *world) {
			lose(w, "shop-1")
			lose(w, "shop-2")
			replicasOfSet(w, 1)
			w.agents["shop-0"].ConfigHash, w.agents["shop-0"].Election = "older", nil
			pod := w.pod(0)
			var volumes []corev1.Volume
			for _, v := range pod.Spec.Volumes {
				if v.Name != "instance" {
					volumes = append(volumes, v)
				}
			}
			pod.Spec.Volumes = volumes
		}, moveReplace, 0, "an agent that elects"},
	} {
		t.Run(name, func(t *testing.T) {
			got := trio(c.change).nextMove()
			if got.kind != c.kind || got.instance != c.instance || !strings.Contains(got.why, c.why) {
				t.Errorf("got %q %d: %s", got.kind, got.instance, got.why)
			}
		})
	}
}

func TestASingleInstanceIsTakenDownWithoutMoreAdo(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*world)
		kind   moveKind
	}{
		"nothing when all is current":    {nil, moveNone},
		"another image":                  {newImage(), moveReplace},
		"another image while it is down": {func(w *world) { newImage()(w); unready(w, 0) }, moveReplace},
		"a parameter":                    {waitsFor("max_connections", "50", "shop-0"), moveRestart},
	} {
		if got := running(c.change).nextMove(); got.kind != c.kind || got.instance != 0 {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}
