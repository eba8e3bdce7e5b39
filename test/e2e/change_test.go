//go:build e2e

package e2e

import (
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/place"
)

// awaitSaid waits until any condition of the cluster says something.
func (b *bed) awaitSaid(cluster *v1alpha1.PostgresCluster, text string) {
	b.Helper()
	b.Await(cluster, "to say "+text, func() bool { return strings.Contains(place.Describe(cluster), text) })
	b.Logf("%s", place.Describe(cluster))
}

func TestChangedResourcesReplaceThePodAndItsMemoryIsUsed(t *testing.T) {
	t.Parallel()
	b := newBed(t, "minio")
	cluster := b.NewCluster("shop", 17)
	cluster.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")}
	b.Must(b.Create(t.Context(), cluster))
	b.AwaitTrue(cluster, v1alpha1.ConditionReady)
	w, pod, buffers := b.startWriter("shop"), b.Pod("shop-0"), b.sharedBuffers()

	b.Merge(cluster, `{"spec":{"resources":{"limits":{"memory":"1Gi"}}}}`)
	b.awaitSaid(cluster, "shop-0 is being replaced for other resources")
	b.AwaitTrue(cluster, v1alpha1.ConditionUpToDate)
	b.AwaitTrue(cluster, v1alpha1.ConditionReady)
	if again := b.Pod("shop-0"); again.UID == pod.UID || again.Spec.Containers[0].Resources.Limits.Memory().String() != "1Gi" {
		t.Errorf("the pod's limits are %v", again.Spec.Containers[0].Resources.Limits)
	}
	if now := b.sharedBuffers(); now != 2*buffers {
		t.Errorf("twice the memory took shared_buffers from %d to %d bytes", buffers, now)
	}
	w.judge()
}

func (b *bed) sharedBuffers() int64 {
	b.Helper()
	size, err := strconv.ParseInt(b.SQL("shop", "SELECT pg_size_bytes(current_setting('shared_buffers'))"), 10, 64)
	b.Must(err)
	return size
}

// TestAMinorVersionComesByItsImageAndOneThatIsNowhereIsNamed gives the image of today another name, as the next minor
// version would have one.
func TestAMinorVersionComesByItsImageAndOneThatIsNowhereIsNamed(t *testing.T) {
	t.Parallel()
	place.NeedKube(t)
	b := newBed(t, "minio")
	cluster := b.Cluster("shop", 17)
	w, before := b.startWriter("shop"), b.Pod("shop-0").UID
	image := "registry.local/postgresql:17-" + b.Namespace

	b.Merge(cluster, `{"spec":{"image":"`+image+`"}}`)
	b.AwaitReason(cluster, v1alpha1.ConditionReady, v1alpha1.ReasonImageUnavailable, image)
	b.Kube("tag", "registry.local/postgresql:17", image)
	b.AwaitTrue(cluster, v1alpha1.ConditionReady)
	b.AwaitTrue(cluster, v1alpha1.ConditionUpToDate)
	pod := b.Pod("shop-0")
	if pod.UID == before || cluster.Status.Image != image {
		t.Errorf("status says that it runs on %s", cluster.Status.Image)
	}
	for _, container := range pod.Spec.Containers {
		if container.Image != image {
			t.Errorf("container %s runs %s", container.Name, container.Image)
		}
	}
	w.judge()
}
