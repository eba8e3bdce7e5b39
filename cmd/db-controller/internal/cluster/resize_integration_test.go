//go:build integration

package cluster

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/statefulset"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/subset"
)

// runResize is what kubelet says of a pod's resources: that the container has them, or why it can't.
func (s *standIn) runResize(ctx context.Context, pod *corev1.Pod) {
	if pod.Status.Phase != corev1.PodRunning || pod.Annotations[statefulset.AnnotationResized] == "" && s.noRoom == "" || len(pod.Spec.Containers) == 0 {
		return
	}
	changed, container := pod.DeepCopy(), pod.Spec.Containers[0]
	if s.noRoom != "" {
		changed.Status.Conditions = append(slices.DeleteFunc(changed.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodResizePending
		}), corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: s.noRoom, Message: "the node is too small"})
	} else {
		changed.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: container.Name, Resources: container.Resources.DeepCopy()}}
	}
	_ = s.client.Status().Patch(ctx, changed, client.MergeFrom(pod))
}

// node makes the one that pods are on, without which Kubernetes resizes none.
func (l *lab) node() {
	l.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1"}}
	if err := l.Create(context.Background(), node); client.IgnoreAlreadyExists(err) != nil {
		l.Fatal(err)
	}
	l.say(node, func() {
		node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("64Gi")}
	})
}

func resources(cpu, memory string) v1alpha1.Resources {
	return v1alpha1.Resources{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("256Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)},
	}
}

// TestMoreMemoryReachesRunningPods with each write the last of its process.
func TestMoreMemoryReachesRunningPods(t *testing.T) {
	subset.OnlyInFull(t)
	l := newLab(t)
	l.patience *= 4
	l.node()
	shop := l.shop(func(c *v1alpha1.PostgresCluster) { three(c); c.Spec.Resources = resources("100m", "512Mi") })
	l.awaitReplicated(shop)
	started := shop.CreationTimestamp.Time
	l.kube.set(func(s *standIn) {
		s.made = nil
		s.answer = func(status *agentapi.Status) {
			status.StartedAt = started
			if s.config(context.Background(), "shop").MemoryBytes == 1<<30 {
				status.PendingRestart = []string{"shared_buffers"}
			}
		}
	})
	l.clock.forward(5e9)
	l.mortals(1)
	l.change(shop, func() { shop.Spec.Resources = resources("200m", "1Gi") })
	l.eventually("every pod has them", func() bool {
		for _, name := range []string{"shop-0", "shop-1", "shop-2"} {
			pod := &corev1.Pod{}
			if !l.there(pod, name) || pod.Spec.Containers[0].Resources.Limits.Memory().String() != "1Gi" ||
				pod.Spec.Containers[0].Resources.Requests.Cpu().String() != "200m" {
				return false
			}
		}
		return true
	})
	l.eventually("it is said what the next restart brings", func() bool {
		message := l.awaitCondition(shop, v1alpha1.ConditionUpToDate, metav1.ConditionTrue, v1alpha1.ReasonCurrent)
		return strings.Contains(message, "shared_buffers takes its value for the new memory at the next restart")
	})
	l.settle()
	set := &appsv1.StatefulSet{}
	if l.there(set, "shop"); set.Spec.Template.Spec.Containers[0].Resources.Limits.Memory().String() != "1Gi" || l.told().MemoryBytes != 1<<30 {
		t.Errorf("the template has %v; told %d", set.Spec.Template.Spec.Containers[0].Resources, l.told().MemoryBytes)
	}
	l.kube.set(func(s *standIn) {
		if len(s.made) > 0 || len(s.restarts) > 0 || len(s.switchovers) > 0 {
			t.Errorf("made %v, restarted %v, switched over %v", s.made, s.restarts, s.switchovers)
		}
	})
}

// TestAPodThatItsNodeHasNoRoomForIsReplaced once, with each write the last of its process.
func TestAPodThatItsNodeHasNoRoomForIsReplaced(t *testing.T) {
	l := newLab(t)
	l.patience *= 4
	l.node()
	shop := l.shop(func(c *v1alpha1.PostgresCluster) { c.Spec.Resources = resources("100m", "512Mi") })
	l.awaitRunning(shop)
	l.kube.set(func(s *standIn) { s.made, s.noRoom = nil, corev1.PodReasonInfeasible })
	l.mortals(1)
	l.change(shop, func() { shop.Spec.Resources = resources("100m", "1Gi") })
	l.eventually("the pod is another one", func() bool {
		made := 0
		l.kube.set(func(s *standIn) { made = len(s.made) })
		return made > 0
	})
	l.awaitRunning(shop)
	pod := &corev1.Pod{}
	if l.there(pod, "shop-0"); pod.Spec.Containers[0].Resources.Limits.Memory().String() != "1Gi" || pod.Annotations[statefulset.AnnotationResized] != "" {
		t.Errorf("the pod has %+v", pod.Spec.Containers[0].Resources)
	}
	if made := l.made(); len(made) != 1 {
		t.Errorf("made %v", made)
	}
}

func TestAPodWhoseQualityOfServiceWouldChangeIsReplaced(t *testing.T) {
	l := newLab(t)
	shop := l.shop(nil)
	l.awaitRunning(shop)
	l.kube.set(func(s *standIn) { s.made = nil })
	l.change(shop, func() { shop.Spec.Resources = resources("100m", "1Gi") })
	l.eventually("the pod has them", func() bool {
		pod := &corev1.Pod{}
		return l.there(pod, "shop-0") && len(pod.Spec.Containers[0].Resources.Limits) > 0
	})
	l.awaitRunning(shop)
	l.kube.set(func(s *standIn) {
		if !slices.Equal(s.made, []string{"shop-0"}) {
			t.Errorf("made %v", s.made)
		}
	})
}

// TestRunningPodsGetTheRequestsThatFitTheLoad with each write the last of its process.
func TestRunningPodsGetTheRequestsThatFitTheLoad(t *testing.T) {
	l := newLab(t)
	l.patience *= 4
	l.node()
	shop := l.shop(func(c *v1alpha1.PostgresCluster) {
		three(c)
		c.Spec.Resources = v1alpha1.Resources{Requests: resources("100m", "1Gi").Requests}
		c.Spec.Autoscale = &v1alpha1.Autoscale{Resources: &v1alpha1.AutoscaleResources{
			Mode: v1alpha1.AutoscaleApply, Memory: &v1alpha1.ResourceBounds{Min: resource.MustParse("256Mi"), Max: resource.MustParse("4Gi")},
		}}
	})
	l.awaitReplicated(shop)
	l.forgetMade()
	l.mortals(1)
	uses := func(memory int64) {
		l.kube.set(func(s *standIn) {
			s.answer = func(status *agentapi.Status) {
				if status.Pod == "shop-1" {
					status.Usage = &agentapi.Usage{Seconds: 3600, MemoryBytes: memory}
				}
			}
		})
		l.nudge(shop)
	}
	all := func(memory string) {
		t.Helper()
		l.eventually("every pod requests "+memory, func() bool {
			for _, name := range []string{"shop-0", "shop-1", "shop-2"} {
				pod := &corev1.Pod{}
				if !l.there(pod, name) || pod.Spec.Containers[0].Resources.Requests.Memory().String() != memory {
					return false
				}
			}
			return true
		})
	}
	uses(1 << 30)
	all("1280Mi")
	applied := func() *v1alpha1.AppliedRequests { l.get(shop); return shop.Status.AppliedRequests() }
	if got := applied(); got == nil || !strings.Contains(got.Reason, "shop-1 used 1024Mi") {
		t.Errorf("%+v", got)
	}
	l.kube.set(func(s *standIn) { s.noRoom = corev1.PodReasonInfeasible })
	l.clock.forward(11 * time.Minute)
	uses(3 << 29)
	l.eventually("the change is taken back", func() bool {
		got := applied()
		return got != nil && strings.Contains(got.Refused, "the node is too small")
	})
	all("1280Mi")
	l.kube.set(func(s *standIn) { s.noRoom = "" })
	l.change(shop, func() { shop.Spec.Autoscale = nil })
	all("256Mi")
	if made := l.made(); len(made) != 0 {
		t.Errorf("pods were replaced: %v", made)
	}
}
