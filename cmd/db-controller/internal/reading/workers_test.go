package reading

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

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

// A cache lists in another order each time.
func TestTheOrderOfAListIsNotSeen(t *testing.T) {
	worker := func(name, component string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "test", Name: name, Labels: map[string]string{
			v1alpha1.LabelCluster: "shop", v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelComponent: component,
		}}}
	}
	restore := func(name string) *v1alpha1.Restore {
		in := v1alpha1.RestoreDestination{InPlace: &v1alpha1.InPlace{Name: "shop"}}
		return &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "test", Name: name}, Spec: v1alpha1.RestoreSpec{Destination: in}}
	}
	reader := fake.NewClientBuilder().WithScheme(manager.Scheme()).WithObjects(
		worker("a", workload.ComponentRestore), worker("b", workload.ComponentRestore), worker("c", workload.ComponentBackup), worker("d", workload.ComponentBackup),
		restore("first"), restore("second"),
	).WithInterceptorFuncs(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		err := c.List(ctx, list, opts...)
		switch all := list.(type) {
		case *corev1.PodList:
			slices.Reverse(all.Items)
		case *v1alpha1.RestoreList:
			slices.Reverse(all.Items)
		}
		return err
	}}).Build()
	o := &observed.Cluster{Cluster: &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "test", Name: "shop"}}}
	r := &Reader{}
	if err := r.readPods(t.Context(), reader, o); err != nil || len(o.Workers) != 2 || o.Workers[0].Name != "a" || o.BackingUp != "d" {
		t.Errorf("%v: %d workers, and %s backs up", err, len(o.Workers), o.BackingUp)
	}
	if err := r.readRequests(t.Context(), reader, o); err != nil || o.Operation != "Restore first" {
		t.Errorf("%v: %q continues", err, o.Operation)
	}
}
