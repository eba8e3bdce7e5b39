package report

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/statefulset"
	"howdah.dev/howdah/cmd/db-controller/internal/desired"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/cmd/db-controller/internal/rolling"
	"howdah.dev/howdah/pkg/flow"
)

func TestMoreMemoryAloneRestartsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		kind   rolling.MoveKind
		status string
		says   string
	}{
		"shared_buffers wait for the next restart": {observedtest.Grown("shared_buffers"), rolling.MoveNone, "True", "shared_buffers takes its value for the new memory at the next restart"},
		"an agent is silent for a moment": {observedtest.All(observedtest.Grown("shared_buffers"), func(o *observed.Cluster) {
			Write(o, flow.Next)
			o.Agents = nil
		}), rolling.MoveNone, "True", "shared_buffers takes its value for the new memory"},
		"those that were asked for don't wait":  {observedtest.All(func(o *observed.Cluster) { observedtest.SetParameter(o, "shared_buffers", "1GB") }, observedtest.Grown("shared_buffers")), rolling.MoveRestart, "False", "is being restarted in shop-0"},
		"they come with another parameter":      {observedtest.Grown("max_connections", "shared_buffers"), rolling.MoveRestart, "False", "max_connections, shared_buffers"},
		"workers don't wait":                    {observedtest.Grown("max_worker_processes"), rolling.MoveRestart, "False", "max_worker_processes"},
		"after a restart they don't wait again": {observedtest.All(observedtest.Grown("shared_buffers"), func(o *observed.Cluster) { o.Agents["shop-0"].StartedAt = observedtest.Noon.Add(1e9) }), rolling.MoveRestart, "False", "shared_buffers"},
	} {
		t.Run(name, func(t *testing.T) {
			o := observedtest.Running(c.change)
			if got := rolling.NextMove(o); got.Kind != c.kind {
				t.Errorf("got %+v", got)
			}
			Write(o, flow.Next)
			if got := upToDate(o, flow.Next); string(got.Status) != c.status || !strings.Contains(got.Message, c.says) {
				t.Errorf("%s: %s", got.Status, got.Message)
			}
		})
	}
}

func TestOtherResourcesReachRunningPodsOrTakeNewOnes(t *testing.T) {
	memory := func(amount string) func(*observed.Cluster) {
		return func(o *observed.Cluster) {
			o.Cluster.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(amount)}
			observedtest.Tell(o)
		}
	}
	has := func(o *observed.Cluster) { // all pods have what spec says
		template := statefulset.Build(o.Cluster, desired.Inputs(o, 3)).Spec.Template
		for i := range o.Pods {
			o.Pods[i].Annotations[v1alpha1.AnnotationTemplateHash] = template.Annotations[v1alpha1.AnnotationTemplateHash]
			o.Pods[i].Spec.Containers[0].Resources = statefulset.Resources(o.Cluster)
		}
	}
	o := observedtest.Trio(observedtest.All(memory("1Gi"), has, memory("2Gi")))
	if next, found := rolling.NextMove(o), Resizing(o); next.Kind != rolling.MoveNone || found.Message != "Pod shop-0 is being resized without a restart." {
		t.Errorf("more: %+v, %+v", next, found)
	}
	o = observedtest.Trio(observedtest.All(memory("2Gi"), has, memory("1Gi")))
	if next, found := rolling.NextMove(o), Resizing(o); next.Kind != rolling.MoveReplace || next.Instance != 2 || found.Reason != "" ||
		next.Why != "other resources or mounted Secrets (PostgreSQL gives memory back only when it is restarted)" {
		t.Errorf("less: %+v, %+v", next, found)
	}
}
