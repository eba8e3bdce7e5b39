package cluster

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/statefulset"
	"howdah.dev/howdah/pkg/flow"
)

// grown instances have more memory since noon, and PostgreSQL runs since an hour before.
func grown(pending ...string) func(*world) {
	return func(w *world) {
		for name, agent := range w.agents {
			w.pod(w.names.Ordinal(name)).Annotations[statefulset.AnnotationResized] = "2026-03-01T12:00:00Z"
			agent.PendingRestart, agent.StartedAt = pending, noon.Add(-3600e9)
		}
	}
}

func TestMoreMemoryAloneRestartsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*world)
		kind   moveKind
		status string
		says   string
	}{
		"shared_buffers wait for the next restart": {grown("shared_buffers"), moveNone, "True", "shared_buffers: follows the memory with the next restart"},
		"an agent is silent for a moment": {and(grown("shared_buffers"), func(w *world) {
			report(w, flow.Next)
			w.agents = nil
		}), moveNone, "True", "shared_buffers: follows"},
		"those that were asked for don't wait":  {and(func(w *world) { setParameter(w, "shared_buffers", "1GB") }, grown("shared_buffers")), moveRestart, "False", "waits for a restart"},
		"they come with another parameter":      {grown("max_connections", "shared_buffers"), moveRestart, "False", "max_connections, shared_buffers"},
		"workers don't wait":                    {grown("max_worker_processes"), moveRestart, "False", "max_worker_processes"},
		"after a restart they don't wait again": {and(grown("shared_buffers"), func(w *world) { w.agents["shop-0"].StartedAt = noon.Add(1e9) }), moveRestart, "False", "shared_buffers"},
	} {
		t.Run(name, func(t *testing.T) {
			w := running(c.change)
			if got := w.nextMove(); got.kind != c.kind {
				t.Errorf("got %+v", got)
			}
			report(w, flow.Next)
			if got := upToDate(w, flow.Next); string(got.status) != c.status || !strings.Contains(got.message, c.says) {
				t.Errorf("%s: %s", got.status, got.message)
			}
		})
	}
}

func TestOtherResourcesReachRunningPodsOrTakeNewOnes(t *testing.T) {
	memory := func(amount string) func(*world) {
		return func(w *world) {
			w.cluster.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(amount)}
			tell(w)
		}
	}
	has := func(w *world) { // all pods have what spec says
		template := statefulset.Build(w.cluster, w.inputs(3)).Spec.Template
		for i := range w.pods {
			w.pods[i].Annotations[v1alpha1.AnnotationTemplateHash] = template.Annotations[v1alpha1.AnnotationTemplateHash]
			w.pods[i].Spec.Containers[0].Resources = statefulset.Resources(w.cluster)
		}
	}
	w := trio(and(memory("1Gi"), has, memory("2Gi")))
	if next, found := w.nextMove(), resizing(w); next.kind != moveNone || found.message != "Pod shop-0 is given other resources while it runs." {
		t.Errorf("more: %+v, %+v", next, found)
	}
	w = trio(and(memory("2Gi"), has, memory("1Gi")))
	if next, found := w.nextMove(), resizing(w); next.kind != moveReplace || next.instance != 2 || found.reason != "" ||
		next.why != "other resources or mounted Secrets (PostgreSQL gives memory back only when it is restarted)" {
		t.Errorf("less: %+v, %+v", next, found)
	}
}
