//go:build e2e

package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

// evict a pod, as draining its node does.
func (b *bed) evict(pod string) error {
	b.Helper()
	return b.SubResource("eviction").Create(b.Context(), b.Pod(pod), &policyv1.Eviction{ObjectMeta: b.Meta(pod)})
}

func TestDrainsTakeOneInstanceAtATimeAndWritesGoOn(t *testing.T) {
	t.Parallel()
	b := newBed(t, "minio")
	cluster := b.replicated(17)
	w, primary := b.startWriter("shop"), b.Pod(cluster.Status.Primary)
	var replica string
	for _, instance := range cluster.Status.Instances {
		if instance.Role == v1alpha1.RoleReplica {
			replica = instance.Name
		}
	}

	b.Must(b.evict(primary.Name))
	if err := b.evict(replica); !apierrors.IsTooManyRequests(err) {
		t.Errorf("evicting another while the first is away: %v", err)
	}
	b.Await(cluster, "another primary", func() bool { return cluster.Status.Primary != primary.Name })
	b.Await(&corev1.Pod{ObjectMeta: b.Meta(primary.Name)}, "to be another pod", func() bool { return b.isAnother(primary) })
	b.awaitInstances(cluster, 3)
	b.Await(cluster, replica+" to be let go", func() bool { return b.evict(replica) == nil })
	b.awaitInstances(cluster, 3)
	if gap := w.judge(); gap.Seconds() > slow {
		t.Errorf("writes stood still for %s", gap)
	}
	b.leasesAreServedApart()
}

// leasesAreServedApart: the API server has served requests for leases at the level that the chart installs for them.
func (b *bed) leasesAreServedApart() {
	b.Helper()
	const served = `apiserver_flowcontrol_dispatched_requests_total{flow_schema="howdah-leases",priority_level="howdah-leases"} `
	for line := range strings.SplitSeq(b.kubectl("get", "--raw", "/metrics"), "\n") {
		if count, is := strings.CutPrefix(line, served); is && count != "0" {
			return
		}
	}
	b.Errorf("no line begins with %s", served)
}

// isAnother says that there is a pod in the place of this one.
func (b *bed) isAnother(old *corev1.Pod) bool {
	pod := &corev1.Pod{ObjectMeta: b.Meta(old.Name)}
	return b.Get(b.Context(), client.ObjectKeyFromObject(pod), pod) == nil && pod.UID != old.UID
}

func TestASingleInstanceDoesNotHoldADrainUp(t *testing.T) {
	onlyInFull(t, "another test drains nodes")
	t.Parallel()
	b := newBed(t, "minio")
	cluster := b.Cluster("shop", 18)
	w, before := b.startWriter("shop"), b.Pod("shop-0")
	b.Must(b.evict("shop-0"))
	b.Await(&corev1.Pod{ObjectMeta: b.Meta("shop-0")}, "to be another pod", func() bool { return b.isAnother(before) })
	b.AwaitTrue(cluster, v1alpha1.ConditionReady)
	w.judge()
}
