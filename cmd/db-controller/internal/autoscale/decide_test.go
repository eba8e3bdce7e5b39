package autoscale

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/statefulset"
	"howdah.dev/howdah/cmd/db-controller/internal/desired"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
)

// sized is a cluster whose pods have what spec requests, and to which more memory is recommended.
func sized(change func(*observed.Cluster)) *observed.Cluster {
	o := observedtest.Trio(func(o *observed.Cluster) {
		o.Cluster.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("1Gi")}
		o.Cluster.Spec.Autoscale = &v1alpha1.Autoscale{Resources: &v1alpha1.AutoscaleResources{
			Mode:   v1alpha1.AutoscaleApply,
			Memory: &v1alpha1.ResourceBounds{Min: resource.MustParse("1Gi"), Max: resource.MustParse("8Gi")},
		}}
		recommend(o, "2Gi")
	})
	follow(o)
	if change != nil {
		change(o)
	}
	return o
}

func recommend(o *observed.Cluster, memory string) {
	if o.Cluster.Status.Autoscale == nil {
		o.Cluster.Status.Autoscale = &v1alpha1.AutoscaleStatus{}
	}
	o.Cluster.Status.Autoscale.Memory = &v1alpha1.ResourceRecommendation{Request: resource.MustParse(memory), Reason: "shop-1 used much."}
}

// follow has all pods be as they are to be.
func follow(o *observed.Cluster) {
	hash := statefulset.Build(o.Cluster, desired.Inputs(o, 3)).Spec.Template.Annotations[v1alpha1.AnnotationTemplateHash]
	for i := range o.Pods {
		o.Pods[i].Annotations[v1alpha1.AnnotationTemplateHash] = hash
		o.Pods[i].Spec.Containers[0].Resources = statefulset.Resources(o.Cluster)
	}
}

func memory(o *observed.Cluster) string {
	request := statefulset.Requests(o.Cluster)[corev1.ResourceMemory]
	return request.String()
}

func TestRequestsAreAppliedWhereNothingElseIsUnderWay(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*observed.Cluster)
		want    string
		waiting string
	}{
		"more":               {nil, "2Gi", ""},
		"less":               {func(o *observed.Cluster) { recommend(o, "512Mi") }, "512Mi", ""},
		"the same":           {func(o *observed.Cluster) { recommend(o, "1Gi") }, "1Gi", ""},
		"only a recommender": {func(o *observed.Cluster) { o.Cluster.Spec.Autoscale.Resources.Mode = v1alpha1.AutoscaleRecommend }, "1Gi", ""},
		"no more than the limit": {func(o *observed.Cluster) {
			o.Cluster.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1536Mi")}
			follow(o)
		}, "1536Mi", ""},
		"hibernated":        {func(o *observed.Cluster) { o.Cluster.Spec.Hibernate = true }, "1Gi", "hibernated"},
		"during an Upgrade": {func(o *observed.Cluster) { o.Operation = "Upgrade to-18" }, "1Gi", "Upgrade to-18 has not ended."},
		"during a backup":   {func(o *observed.Cluster) { o.BackingUp = "nightly-x" }, "1Gi", "Pod nightly-x takes a backup."},
		"during a drill": {func(o *observed.Cluster) {
			o.FailoverDrill = &v1alpha1.FailoverDrill{ObjectMeta: metav1.ObjectMeta{Name: "game"}}
		}, "1Gi", "FailoverDrill game has not ended."},
		"paused": {func(o *observed.Cluster) {
			from, until := metav1.NewTime(o.Now), metav1.NewTime(o.Now.Add(time.Hour))
			o.Cluster.Spec.Repair = &v1alpha1.Repair{PausedFrom: &from, PausedUntil: &until}
		}, "1Gi", "spec.repair pauses"},
		"a pod is not ready": {observedtest.NotReady, "1Gi", "Pod shop-0 is not ready."},
		"a pod is replaced": {func(o *observed.Cluster) {
			o.Pods[1].Annotations[v1alpha1.AnnotationTemplateHash] = "other"
			o.Pods[1].Spec.Containers[0].Image = "postgres:17.9"
		}, "1Gi", "Pod shop-1 has yet to be brought up to date."},
	} {
		o := sized(c.change)
		if waits := Waits(o); !strings.Contains(waits, c.waiting) || (waits == "") != (c.waiting == "") {
			t.Errorf("%s: it waits: %q", name, waits)
		}
		outcome := Decide(t.Context(), o)
		if got := memory(o); got != c.want || outcome.Finished() != (c.want == "1Gi") {
			t.Errorf("%s: %s, %+v", name, got, outcome)
		}
	}
}

func TestADecisionIsOnRecordAndTheNextOneWaits(t *testing.T) {
	o := sized(nil)
	hash := statefulset.Hash(o.Cluster, desired.Inputs(o, 3))
	Decide(t.Context(), o)
	applied := o.Cluster.Status.AppliedRequests()
	if previous := applied.Previous[corev1.ResourceMemory]; applied.Reason != "memory: shop-1 used much." || !applied.Since.Time.Equal(o.Now) || previous.String() != "1Gi" || len(applied.Requests) != 1 {
		t.Errorf("%+v", applied)
	}
	if hash != statefulset.Hash(o.Cluster, desired.Inputs(o, 3)) {
		t.Error("pods are replaced for it")
	}
	recommend(o, "3Gi")
	if waits := Waits(o); !strings.Contains(waits, "less than ten minutes ago") {
		t.Errorf("at once: %s", waits)
	}
	o.Now = o.Now.Add(applyPause)
	if waits := Waits(o); !strings.Contains(waits, "Pod shop-0 does not have its requests yet.") {
		t.Errorf("before the pods have them: %s", waits)
	}
	follow(o)
	if Decide(t.Context(), o); memory(o) != "3Gi" {
		t.Errorf("%+v", o.Cluster.Status.AppliedRequests())
	}
	if !TakeBack(o, "Pod shop-1: no room") || memory(o) != "2Gi" || TakeBack(o, "again") {
		t.Errorf("%+v", o.Cluster.Status.AppliedRequests())
	}
	follow(o)
	o.Now = o.Now.Add(applyPause)
	if waits := Waits(o); !strings.Contains(waits, "was refused, and the next one is tried a day later: Pod shop-1: no room") {
		t.Errorf("after a refusal: %s", waits)
	}
	o.Now = o.Now.Add(refusePause)
	if Decide(t.Context(), o); memory(o) != "3Gi" || o.Cluster.Status.AppliedRequests().Refused != "" {
		t.Errorf("%+v", o.Cluster.Status.AppliedRequests())
	}
}

func TestWhereNobodyWantsItTheRequestsOfSpecReturn(t *testing.T) {
	o := sized(nil)
	Decide(t.Context(), o)
	follow(o)
	o.Cluster.Spec.Autoscale = nil
	if outcome := Decide(t.Context(), o); outcome.Finished() || memory(o) != "1Gi" || o.Cluster.Status.AppliedRequests() == nil {
		t.Errorf("%+v, %+v", outcome, o.Cluster.Status.Autoscale)
	}
	Decide(t.Context(), o)
	if o.Cluster.Status.AppliedRequests() == nil {
		t.Error("forgotten while pods have others")
	}
	follow(o)
	if Decide(t.Context(), o); o.Cluster.Status.AppliedRequests() != nil {
		t.Errorf("%+v", o.Cluster.Status.Autoscale)
	}
}
