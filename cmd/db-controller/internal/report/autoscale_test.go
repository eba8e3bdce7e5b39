package report

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/agentapi"
)

func TestRecommendedRequestsFollowTheBusiestInstance(t *testing.T) {
	o := observedtest.Trio(nil)
	o.Cluster.Spec.Autoscale = &v1alpha1.Autoscale{Resources: &v1alpha1.AutoscaleResources{
		Memory: &v1alpha1.ResourceBounds{Min: resource.MustParse("1Gi"), Max: resource.MustParse("8Gi")},
	}}
	uses := func(instance string, memory, seconds int64) {
		o.Agents[instance].Usage = &agentapi.Usage{Seconds: seconds, MemoryBytes: memory}
	}
	request := func() string {
		reportAutoscale(o)
		if s := o.Cluster.Status.Autoscale; s != nil && s.Memory != nil && s.CPU == nil {
			return s.Memory.Request.String()
		}
		return ""
	}
	uses("shop-0", 1<<30, 60)
	if got := request(); got != "" {
		t.Errorf("after a minute: %s", got)
	}
	uses("shop-0", 1<<30, 3600)
	uses("shop-2", 2<<30, 3600)
	if got := request(); got != "2560Mi" {
		t.Errorf("of the busiest: %s", got)
	}
	said := *o.Cluster.Status.Autoscale.Memory
	o.Now = o.Now.Add(time.Minute)
	uses("shop-2", 2<<30-1<<26, 3600)
	if request(); !equality.Semantic.DeepEqual(said, *o.Cluster.Status.Autoscale.Memory) {
		t.Errorf("it is written again: %+v", o.Cluster.Status.Autoscale.Memory)
	}
	for _, agent := range o.Agents {
		agent.Usage = nil
	}
	if got := request(); got != "2560Mi" {
		t.Errorf("while nobody has measured: %s", got)
	}
	uses("shop-0", 4<<30, 3600)
	if got := request(); got != "5Gi" {
		t.Errorf("with more load: %s", got)
	}
	o.Cluster.Spec.Autoscale = nil
	if request(); o.Cluster.Status.Autoscale != nil {
		t.Error("it stays although nobody asks for it")
	}
}
