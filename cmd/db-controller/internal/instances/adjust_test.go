package instances

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/apply"
	"howdah.dev/howdah/cmd/db-controller/internal/component/statefulset"
	"howdah.dev/howdah/cmd/db-controller/internal/desired"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
)

// refusing is an API server that resizes all pods but some.
type refusing struct {
	client.Client

	refused string // pod
	resized []string
}

func (r *refusing) SubResource(string) client.SubResourceClient { return &resizer{server: r} }

type resizer struct {
	client.SubResourceClient

	server *refusing
}

func (s *resizer) Patch(_ context.Context, object client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
	if object.GetName() == s.server.refused {
		return apierrors.NewBadRequest("a quota is exceeded")
	}
	s.server.resized = append(s.server.resized, object.GetName())
	return nil
}

func TestRequestsThatAPodCanNotHaveAreTakenBackFromAll(t *testing.T) {
	o := observedtest.Trio(func(o *observed.Cluster) {
		o.Cluster.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	})
	hash := statefulset.Build(o.Cluster, desired.Inputs(o, 3)).Spec.Template.Annotations[v1alpha1.AnnotationTemplateHash]
	follow := func(pods ...int) {
		for _, i := range pods {
			o.Pods[i].Annotations[v1alpha1.AnnotationTemplateHash] = hash
			o.Pods[i].Spec.Containers[0].Resources = statefulset.Resources(o.Cluster)
		}
	}
	follow(0, 1, 2)
	server := &refusing{refused: "shop-1"}
	steps := &Steps{Applier: &apply.Applier{Client: server}}
	if outcome := steps.AdjustRequests(t.Context(), o); outcome.Err != nil || len(server.resized) != 0 {
		t.Errorf("nothing was decided: %+v, %v", outcome, server.resized)
	}
	memory := func(amount string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(amount)}
	}
	o.Cluster.Status.Autoscale = &v1alpha1.AutoscaleStatus{Applied: &v1alpha1.AppliedRequests{Requests: memory("2Gi"), Previous: memory("1Gi")}}
	steps.AdjustRequests(t.Context(), o)
	applied := o.Cluster.Status.AppliedRequests()
	if applied.Requests.Memory().String() != "1Gi" || applied.Previous != nil || !strings.Contains(applied.Refused, "Pod shop-1: a quota is exceeded") || len(server.resized) != 1 {
		t.Errorf("%+v, resized %v", applied, server.resized)
	}
	o.Pods[0].Spec.Containers[0].Resources.Requests = memory("2Gi") // it has them already
	steps.AdjustRequests(t.Context(), o)
	if len(server.resized) != 2 || server.resized[1] != "shop-0" {
		t.Errorf("returned: %v", server.resized)
	}
	follow(0)
	o.Pods[2].Annotations[v1alpha1.AnnotationTemplateHash] = "other"
	o.Pods[2].Spec.Containers[0].Image = "postgres:17.9"
	o.Pods[2].Spec.Containers[0].Resources.Requests = memory("2Gi")
	if steps.AdjustRequests(t.Context(), o); len(server.resized) != 2 {
		t.Errorf("a pod that is replaced is resized: %v", server.resized)
	}
}
