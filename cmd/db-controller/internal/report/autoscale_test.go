package report

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/statefulset"
	"howdah.dev/howdah/cmd/db-controller/internal/desired"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
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

func TestAChangeOfRequestsIsSaidBeforeAPodGetsThem(t *testing.T) {
	o := observedtest.Trio(func(o *observed.Cluster) {
		o.Cluster.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	})
	template := statefulset.Build(o.Cluster, desired.Inputs(o, 3)).Spec.Template
	for i := range o.Pods {
		o.Pods[i].Annotations[v1alpha1.AnnotationTemplateHash] = template.Annotations[v1alpha1.AnnotationTemplateHash]
		o.Pods[i].Spec.Containers[0].Resources = statefulset.Resources(o.Cluster)
	}
	if found := adjusting(o); found.Reason != "" {
		t.Errorf("%+v", found)
	}
	applied := &v1alpha1.AppliedRequests{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi")}, Reason: "memory: shop-1 used much."}
	o.Cluster.Status.Autoscale = &v1alpha1.AutoscaleStatus{Applied: applied}
	if found := adjusting(o); found.Reason != v1alpha1.ReasonApplying || found.Message != "Pod shop-0 is given other requests without a restart. memory: shop-1 used much." {
		t.Errorf("%+v", found)
	}
	applied.Refused = "Pod shop-1: no room"
	if found := adjusting(o); found.Message != "Pod shop-0 returns to its previous requests: Pod shop-1: no room." {
		t.Errorf("%+v", found)
	}
	o.Cluster.Spec.Autoscale = nil
	if reportAutoscale(o); o.Cluster.Status.AppliedRequests() == nil {
		t.Error("forgotten while pods may have them")
	}
}
