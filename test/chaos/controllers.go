package chaos

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// LeaveAlone takes the controllers away until bringBack is called, which brings them back and waits until they say that all is
// well. Until then nobody writes status, and only what the instances themselves say counts.
func (s *Subject) LeaveAlone() (bringBack func()) {
	s.Helper()
	start := s.stopControllers()
	s.alone = true
	return func() {
		s.Helper()
		start()
		s.alone = false
		s.awaitWhole()
	}
}

// stopControllers scales every controller of the suite to zero, and waits until none is left.
func (s *Subject) stopControllers() (start func()) {
	s.Helper()
	deployments := &appsv1.DeploymentList{}
	suite := client.InNamespace("howdah-system")
	s.Must(s.List(s.Context(), deployments, suite))
	start = func() {
		for i := range deployments.Items {
			s.Must(s.scale(&deployments.Items[i], ptr.Deref(deployments.Items[i].Spec.Replicas, 1)))
		}
	}
	s.Cleanup(start) // also after a failure; clusters can't be deleted without them
	for i := range deployments.Items {
		s.Must(s.scale(deployments.Items[i].DeepCopy(), 0))
	}
	s.until("the controllers to be gone", time.Minute, func(ctx context.Context) error {
		pods := &corev1.PodList{}
		if err := s.List(ctx, pods, suite); err != nil || meta.LenList(pods) == 0 {
			return err
		}
		return fmt.Errorf("%d pods are left", meta.LenList(pods))
	})
	return start
}

// scale sets the number of pods of a Deployment; it is used after the test's end too.
func (s *Subject) scale(deployment *appsv1.Deployment, replicas int32) error {
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	return s.Patch(context.Background(), deployment, patch)
}
