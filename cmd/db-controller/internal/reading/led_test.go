package reading

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/availability"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/ownwrites"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/manager"
)

// A primary leads clients to itself, and has ended when the pods are read. If the EndpointSlice had been read before, data that has served would be
// taken back.
func TestThatClientsWereLedToAPrimaryIsSeenWhenItIsSeenToHaveEnded(t *testing.T) {
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "shop", UID: "u1"}}
	cluster.Spec.Instances = 1
	cluster.Status.DataGeneration, cluster.Status.SystemIdentifier = "g2", "7"
	cluster.Status.VolumeLocks = []v1alpha1.VolumeLock{{Name: "up", State: v1alpha1.VolumeLockAdopted}}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "shop-rw", Annotations: map[string]string{agentapi.AnnotationDataGeneration: "g1"}}}
	live := fake.NewClientBuilder().WithScheme(manager.Scheme()).WithObjects(cluster, slice).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, pods := list.(*corev1.PodList); pods {
				led := slice.DeepCopy()
				if err := c.Get(ctx, client.ObjectKeyFromObject(slice), led); err != nil {
					return err
				}
				led.Annotations[agentapi.AnnotationDataGeneration] = "g2"
				if err := c.Update(ctx, led); err != nil {
					return err
				}
			}
			return c.List(ctx, list, options...)
		},
	}).Build()
	seen := &v1alpha1.PostgresCluster{}
	if err := live.Get(t.Context(), client.ObjectKeyFromObject(cluster), seen); err != nil {
		t.Fatal(err)
	}
	o := &observed.Cluster{Cluster: seen, Own: &ownwrites.View{}, Names: component.NamesOf(seen), Live: map[string]client.Object{
		observed.Key("EndpointSlice", "shop-rw"): slice,
	}}
	if err := (&Reader{Client: live, Live: live}).readPeers(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if got := availability.LedTo(o); got != "g2" {
		t.Errorf("clients were led to %s, as far as is seen", got)
	}
}
