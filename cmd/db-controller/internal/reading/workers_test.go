package reading

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/workload"
)

func TestAWorkerUsesTheVolumeUntilItsContainersHaveEnded(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	done := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	failed := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}
	for _, component := range []string{workload.ComponentInit, workload.ComponentRestore, workload.ComponentUpgrade} {
		for state, writes := range map[*corev1.ContainerState]bool{&running: true, &done: false, &failed: true} {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "test", Name: "worker", Labels: map[string]string{
					v1alpha1.LabelCluster: "shop", v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelComponent: component,
				}},
				Spec:   corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "worker"}}},
				Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "worker", State: *state}}},
			}
			o := &observed.Cluster{Cluster: &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "test", Name: "shop"}}}
			reader := fake.NewClientBuilder().WithScheme(manager.Scheme()).WithObjects(pod).Build()
			if err := (&Reader{}).readPods(t.Context(), reader, o); err != nil || (len(o.Workers) > 0) != writes {
				t.Errorf("%s, %+v: %d workers, %v", component, *state, len(o.Workers), err)
			}
		}
	}
}
