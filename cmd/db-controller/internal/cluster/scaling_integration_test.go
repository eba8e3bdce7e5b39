//go:build integration

package cluster

import (
	"context"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/agentapi"
)

// scale changes spec.instances through the scale subresource, as kubectl scale does.
func (l *lab) scale(shop *v1alpha1.PostgresCluster, instances int32) {
	l.Helper()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":`+strconv.Itoa(int(instances))+`}}`))
	if err := l.SubResource("scale").Patch(context.Background(), shop.DeepCopy(), patch); err != nil {
		l.Fatal(err)
	}
}

func (l *lab) lead(name string) { l.kube.set(func(s *standIn) { s.leaders["shop"] = name; s.terms++ }) }

func TestInstancesAreAddedOnceTheFirstHasTakenTheLease(t *testing.T) {
	l := newLab(t)
	shop := l.shop(nil)
	l.awaitRunning(shop)
	l.kube.set(func(s *standIn) {
		s.answer = func(status *agentapi.Status) { status.Election = nil } // it has not noticed yet
	})
	l.scale(shop, 3)
	message := l.awaitCondition(shop, v1alpha1.ConditionUpToDate, metav1.ConditionFalse, v1alpha1.ReasonScaling)
	if !strings.Contains(message, "once the agent of shop-0 has taken the Lease shop") {
		t.Errorf("message: %s", message)
	}
	l.settle()
	set := &appsv1.StatefulSet{}
	if l.there(set, "shop"); *set.Spec.Replicas != 1 || l.told().Instances != 3 || !l.there(&coordinationv1.Lease{}, "shop") {
		t.Errorf("replicas %d, told %d, or there is no Lease", *set.Spec.Replicas, l.told().Instances)
	}
	before, after := &corev1.Pod{}, &corev1.Pod{}
	l.there(before, "shop-0")
	l.kube.set(func(s *standIn) { s.answer = nil })
	l.awaitReplicated(shop)
	if l.there(after, "shop-0"); after.UID != before.UID || shop.Status.ReadyInstances != 3 {
		t.Errorf("the first was replaced, or not all are ready: %+v", shop.Status)
	}
}

func TestAPodThatCantElectIsReplacedBeforeInstancesAreAdded(t *testing.T) {
	l := newLab(t)
	shop := l.shop(nil)
	l.awaitRunning(shop)
	// As an earlier suite created it.
	l.stop()
	set := &appsv1.StatefulSet{}
	l.there(set, "shop")
	l.change(set, func() {
		spec := &set.Spec.Template.Spec
		for i := range spec.Volumes {
			if spec.Volumes[i].Name == "instance" {
				spec.Volumes[i].Name = "other"
			}
		}
		for i := range spec.Containers[0].VolumeMounts {
			if mount := &spec.Containers[0].VolumeMounts[i]; mount.Name == "instance" {
				mount.Name = "other"
			}
		}
	})
	pod := &corev1.Pod{}
	l.there(pod, "shop-0")
	old := pod.UID
	if err := l.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	l.eventually("an earlier pod", func() bool { return l.there(pod, "shop-0") && observed.PodReady(pod) && pod.UID != old })
	old = pod.UID
	l.startController()
	l.awaitRunning(shop)
	if l.there(pod, "shop-0"); pod.UID != old {
		t.Fatal("the new suite has restarted the database")
	}
	l.scale(shop, 2)
	l.awaitReplicated(shop)
	if l.there(pod, "shop-0"); pod.UID == old {
		t.Error("it elects with an agent that can't")
	}
}

func TestAPrimaryThatIsToGoGivesItsRoleAwayFirst(t *testing.T) {
	l := newLab(t)
	shop := l.shop(func(c *v1alpha1.PostgresCluster) { three(c); c.Spec.DeletionPolicy.Volumes = v1alpha1.VolumesDelete })
	l.awaitReplicated(shop)
	l.lead("shop-2")
	l.eventually("shop-2 is primary", func() bool { l.get(shop); return shop.Status.Primary == "shop-2" })
	l.kube.set(func(s *standIn) {
		s.refusal = "no member is fit"
	})
	l.scale(shop, 2)
	l.eventually("it is said why nothing happens", func() bool {
		message := l.awaitCondition(shop, v1alpha1.ConditionUpToDate, metav1.ConditionFalse, v1alpha1.ReasonScaling)
		return strings.Contains(message, "shop-2 is the primary and will be removed. shop-2 didn't hand over to shop-0: no member is fit.")
	})
	if !l.there(&corev1.Pod{}, "shop-2") {
		t.Fatal("it was taken away all the same")
	}
	l.kube.set(func(s *standIn) { s.refusal, s.switchovers = "", nil })
	l.awaitReplicated(shop)
	l.eventually("the volume is gone", func() bool {
		claim := &corev1.PersistentVolumeClaim{}
		return !l.there(claim, "data-shop-2") || !claim.DeletionTimestamp.IsZero()
	})
	if l.there(&corev1.Pod{}, "shop-2") || shop.Status.Primary != "shop-0" || len(shop.Status.Instances) != 2 {
		t.Errorf("status: %+v", shop.Status)
	}
	l.kube.set(func(s *standIn) {
		if len(s.switchovers) != 1 || s.switchovers[0].To != "shop-0" {
			t.Errorf("asked for %+v", s.switchovers)
		}
	})
}

func TestTheLastInstanceIsToldSoWhenTheOthersAreGone(t *testing.T) {
	l := newLab(t)
	shop := l.shop(func(c *v1alpha1.PostgresCluster) { three(c); c.Spec.DeletionPolicy.Volumes = v1alpha1.VolumesRetain })
	l.awaitReplicated(shop)
	// A pod that takes its time to end.
	pod := &corev1.Pod{}
	l.there(pod, "shop-1")
	l.change(pod, func() { pod.Finalizers = []string{"example.com/slow"} })
	l.scale(shop, 1)
	l.eventually("the other is gone", func() bool { return !l.there(&corev1.Pod{}, "shop-2") })
	l.settle()
	if told := l.told().Instances; told <= 1 {
		t.Fatalf("told %d while shop-1 is there", told)
	}
	claim := &corev1.PersistentVolumeClaim{}
	if l.there(claim, "data-shop-2"); claim.Labels[component.LabelRetainedFrom] != "" {
		t.Error("volumes are given up before it is over")
	}
	l.change(pod, func() { pod.Finalizers = nil })
	l.awaitRunning(shop)
	if l.told().Instances > 1 || len(shop.Status.Instances) != 1 {
		t.Errorf("told %d; status %+v", l.told().Instances, shop.Status)
	}
	l.eventually("the volumes are left behind", func() bool {
		return l.there(claim, "data-shop-2") && claim.Labels[component.LabelRetainedFrom] == "shop" && claim.DeletionTimestamp.IsZero()
	})
	role := &rbacv1.Role{}
	if l.there(role, "shop-instance"); len(role.Rules[2].ResourceNames) != 1 {
		t.Errorf("it may still touch %v", role.Rules[2].ResourceNames)
	}
	l.scale(shop, 2)
	l.awaitReplicated(shop)
	if l.there(claim, "data-shop-1"); claim.Labels[component.LabelRetainedFrom] != "" || claim.Labels[v1alpha1.LabelCluster] != "shop" {
		t.Errorf("the volume was not taken back: %v", claim.Labels)
	}
}

func TestACacheThatIsBehindEndsNoElection(t *testing.T) {
	l := newLab(t)
	shop := l.shop(three)
	l.awaitReplicated(shop)
	pod := &corev1.Pod{}
	l.there(pod, "shop-1")
	l.change(pod, func() { pod.Finalizers = []string{"example.com/slow"} })
	l.writes.hide("shop-1", "shop-2")
	l.scale(shop, 1)
	l.eventually("the other is gone", func() bool { return !l.there(&corev1.Pod{}, "shop-2") })
	l.settle()
	if told := l.told().Instances; told <= 1 {
		t.Fatalf("told %d while shop-1 is there", told)
	}
	l.change(pod, func() { pod.Finalizers = nil })
	l.eventually("it is told when that is gone", func() bool { return l.told().Instances <= 1 })
	l.awaitRunning(shop)
}

func TestAReplicasLostVolumeIsCreatedAgain(t *testing.T) {
	l := newLab(t)
	shop := l.shop(three)
	l.awaitReplicated(shop)
	claim := &corev1.PersistentVolumeClaim{}
	l.there(claim, "data-shop-1")
	uid := claim.UID
	l.change(claim, func() { claim.Finalizers = nil })
	if err := l.Delete(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	l.eventually("another volume", func() bool { return l.there(claim, "data-shop-1") && claim.UID != uid })
	l.awaitReplicated(shop)
}

func TestThePrimarysLostVolumeIsNotHidden(t *testing.T) {
	l := newLab(t)
	shop := l.shop(three)
	l.awaitReplicated(shop)
	upgrade := l.upgrade("to-18", shop)
	l.awaitAnswer(shop, upgrade, v1alpha1.VolumeLockGranted)
	claim := &corev1.PersistentVolumeClaim{}
	l.there(claim, "data-shop-0")
	l.change(claim, func() { claim.Finalizers = nil })
	if err := l.Delete(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	l.say(upgrade, func() { upgrade.Status.VolumeLockRequest = nil })
	message := l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonUnavailable)
	if !strings.Contains(message, "PersistentVolumeClaim data-shop-0, which held the data, was deleted") || l.there(&corev1.PersistentVolumeClaim{}, "data-shop-0") {
		t.Errorf("message: %s", message)
	}
}

func TestAStatefulSetThatWasScaledByHandIsPutBack(t *testing.T) {
	l := newLab(t)
	shop := l.shop(three)
	l.awaitReplicated(shop)
	set := &appsv1.StatefulSet{}
	l.there(set, "shop")
	l.change(set, func() { set.Spec.Replicas = ptr.To[int32](5) })
	l.eventually("replicas are put back", func() bool { return l.there(set, "shop") && *set.Spec.Replicas == 3 })
	l.awaitReplicated(shop)
}
