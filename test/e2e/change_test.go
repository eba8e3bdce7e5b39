//go:build e2e

package e2e

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/place"
)

func TestMoreMemoryReachesARunningPodAndLessTakesANewOne(t *testing.T) {
	onlyInFull(t, "it takes minutes")
	t.Parallel()
	b := newBed(t, "minio")
	cluster := b.NewCluster("shop", 17)
	cluster.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")}
	b.Must(b.Create(t.Context(), cluster))
	b.AwaitTrue(cluster, v1alpha1.ConditionReady)
	w, pod, buffers := b.startWriter("shop"), b.Pod("shop-0"), b.sharedBuffers()

	b.Merge(cluster, `{"spec":{"resources":{"limits":{"memory":"1Gi"}}}}`)
	b.AwaitSaid(cluster, "shared_buffers takes its value for the new memory at the next restart")
	if same := b.Pod("shop-0"); same.UID != pod.UID || same.Status.ContainerStatuses[0].RestartCount > 0 || memoryOf(same) != "1Gi" {
		t.Errorf("it is pod %s instead of %s, restarted %d times, with %s", same.UID, pod.UID, same.Status.ContainerStatuses[0].RestartCount, memoryOf(same))
	}

	b.Merge(cluster, `{"spec":{"resources":{"limits":{"memory":"768Mi"}}}}`)
	b.AwaitSaid(cluster, "PostgreSQL gives memory back only when it is restarted")
	b.AwaitTrue(cluster, v1alpha1.ConditionUpToDate)
	b.AwaitTrue(cluster, v1alpha1.ConditionReady)
	if another := b.Pod("shop-0"); another.UID == pod.UID || memoryOf(another) != "768Mi" {
		t.Errorf("pod %s has %s", another.UID, memoryOf(another))
	}
	if now := b.sharedBuffers(); now != buffers/2*3 {
		t.Errorf("half as much memory again took shared_buffers from %d to %d bytes", buffers, now)
	}
	w.judge()
}

// memoryOf PostgreSQL, as its node has it.
func memoryOf(pod *corev1.Pod) string {
	if resources := pod.Status.ContainerStatuses[0].Resources; resources != nil {
		return resources.Limits.Memory().String()
	}
	return "unknown"
}

func (b *bed) sharedBuffers() int64 {
	b.Helper()
	size, err := strconv.ParseInt(b.SQL("shop", "SELECT pg_size_bytes(current_setting('shared_buffers'))"), 10, 64)
	b.Must(err)
	return size
}

// TestAMinorVersionComesByItsImageAndAMissingOneIsNamed gives the image of today another name, as the next minor
// version would have one.
func TestAMinorVersionComesByItsImageAndAMissingOneIsNamed(t *testing.T) {
	onlyInFull(t, "the integration tests roll images out, and the agent's try them")
	t.Parallel()
	place.NeedKube(t)
	b := newBed(t, "minio")
	cluster := b.Cluster("shop", 17)
	w, before := b.startWriter("shop"), b.Pod("shop-0").UID
	image := "registry.local/postgresql:17-" + b.Namespace

	b.Merge(cluster, `{"spec":{"image":"`+image+`"}}`)
	b.AwaitReason(cluster, v1alpha1.ConditionUpToDate, v1alpha1.ReasonApplying, "The image "+image+" is being tried")
	b.AwaitSaid(cluster, "ImagePull") // or ErrImagePull; the cluster serves meanwhile
	if b.Pod("shop-0").UID != before {
		t.Error("an instance was replaced for an image that can't be pulled")
	}
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

func TestARestartWaitsForTheMaintenanceWindowAndAReloadDoesNot(t *testing.T) {
	onlyInFull(t, "windows, reloads and restarts have tests of their own in the controller and the agent")
	t.Parallel()
	b := newBed(t, "minio")
	cluster := b.Cluster("shop", 17)
	w, started := b.startWriter("shop"), b.SQL("shop", "SELECT pg_postmaster_start_time()")

	shut := fmt.Sprintf("0 %d * * *", time.Now().UTC().Add(12*time.Hour).Hour())
	b.Merge(cluster, `{"spec":{"maintenanceWindow":{"schedule":"`+shut+`","duration":"10m"},
		"postgresql":{"parameters":{"max_connections":"77","work_mem":"5MB"}}}}`)
	b.AwaitReason(cluster, v1alpha1.ConditionUpToDate, v1alpha1.ReasonRestartPending, "waits for the maintenance window, which opens on")
	b.Await(cluster, "work_mem to be reloaded", func() bool { return b.SQL("shop", "SHOW work_mem") == "5MB" })
	if again := b.SQL("shop", "SELECT pg_postmaster_start_time()"); again != started {
		t.Errorf("PostgreSQL was restarted outside of the window: %s, then %s", started, again)
	}

	b.Merge(cluster, `{"spec":{"maintenanceWindow":{"schedule":"* * * * *"}}}`)
	b.AwaitTrue(cluster, v1alpha1.ConditionUpToDate)
	if got := b.SQL("shop", "SHOW max_connections"); got != "77" {
		t.Errorf("in the window max_connections is %s", got)
	}
	w.judge()
}

// TestAnImageOfTheSuiteIsShownAndRolledOutByItselfInItsWindow begins in the same image under another name, as if that had been the
// suite's when the cluster was created.
func TestAnImageOfTheSuiteIsShownAndRolledOutByItselfInItsWindow(t *testing.T) {
	onlyInFull(t, "another image is rolled out in another test, and windows have tests of their own")
	t.Parallel()
	place.NeedKube(t)
	b := newBed(t, "minio")
	image := "registry.local/postgresql:17-" + b.Namespace
	b.Kube("tag", "registry.local/postgresql:17", image)
	cluster := b.NewCluster("shop", 17)
	cluster.Spec.Instances, cluster.Spec.Image = 2, image
	b.Must(b.Create(t.Context(), cluster))
	b.AwaitTrue(cluster, v1alpha1.ConditionReplicated)
	w, before := b.startWriter("shop"), b.Pod("shop-0").UID

	b.Merge(cluster, `{"spec":{"image":null}}`)
	b.AwaitReason(cluster, v1alpha1.ConditionUpdated, v1alpha1.ReasonUpdatePending, "set spec.updates.minor: Automatic")
	shut := fmt.Sprintf("0 %d * * *", time.Now().UTC().Add(12*time.Hour).Hour())
	b.Merge(cluster, `{"spec":{"updates":{"minor":"Automatic","window":{"schedule":"`+shut+`","duration":"10m"}}}}`)
	b.AwaitReason(cluster, v1alpha1.ConditionUpdated, v1alpha1.ReasonUpdatePending, "It waits until")
	if pending := cluster.Status.PendingUpdate; pending == nil || pending.NotBefore == nil || b.Pod("shop-0").UID != before {
		t.Errorf("before its window: %+v", pending)
	}
	b.Merge(cluster, `{"spec":{"updates":{"window":{"schedule":"* * * * *"}}}}`)
	b.AwaitTrue(cluster, v1alpha1.ConditionUpdated)
	b.AwaitTrue(cluster, v1alpha1.ConditionReplicated)
	for _, name := range []string{"shop-0", "shop-1"} {
		if got := b.Pod(name).Spec.Containers[0].Image; got != "registry.local/postgresql:17" || cluster.Status.PendingUpdate != nil {
			t.Errorf("%s runs %s", name, got)
		}
	}
	if cluster.Status.Primary != "shop-1" {
		t.Errorf("%s is primary, so it was not replicas first", cluster.Status.Primary)
	}
	w.judge()
}
