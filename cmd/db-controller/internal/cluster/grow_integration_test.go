//go:build integration

package cluster

import (
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
	"howdah.dev/howdah/cmd/db-controller/internal/storage"
	"howdah.dev/howdah/pkg/agentapi"
)

var orphaning = client.PropagationPolicy(metav1.DeletePropagationOrphan)

// stored is a cluster of some instances on volumes of a class of this test's own, bound to volumes of 1Gi.
func (l *lab) stored(instances int32, expands bool) *v1alpha1.PostgresCluster {
	l.Helper()
	l.provides(expands)
	shop := l.shop(func(c *v1alpha1.PostgresCluster) {
		c.Spec.Instances, c.Spec.Storage.StorageClassName = instances, ptr.To(l.ns)
	})
	l.awaitRunning(shop)
	l.awaitSize(instances, "1Gi")
	return shop
}

// provides makes a class of this test's own, by the name of its namespace.
func (l *lab) provides(expands bool) {
	l.Helper()
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: l.ns}, Provisioner: "example.org/none", AllowVolumeExpansion: &expands}
	l.create(class)
	l.Cleanup(func() { _ = l.Delete(context.Background(), class) })
	l.kube.set(func(s *standIn) { s.volumes = volumes{bind: true, resize: true} })
}

// awaitSize waits until every volume, and what new ones are made of, has a size.
func (l *lab) awaitSize(instances int32, size string) {
	l.Helper()
	wanted := resource.MustParse(size)
	l.eventually("all volumes have "+size, func() bool {
		set := &appsv1.StatefulSet{}
		if !l.there(set, "shop") || !set.DeletionTimestamp.IsZero() {
			return false
		}
		asked := set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage]
		for ordinal := range int(instances) {
			claim := &corev1.PersistentVolumeClaim{}
			if !l.there(claim, component.NamesOf(shopOf(l)).Volume(ordinal)) {
				return false
			}
			if has := claim.Status.Capacity[corev1.ResourceStorage]; has.Cmp(wanted) != 0 {
				return false
			}
		}
		return asked.Cmp(wanted) == 0
	})
}

func shopOf(l *lab) *v1alpha1.PostgresCluster {
	return &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "shop"}}
}

// podUIDs of the instances, all of which the StatefulSet owns.
func (l *lab) podUIDs(instances int) map[string]types.UID {
	l.Helper()
	uids := map[string]types.UID{}
	l.eventually("the StatefulSet owns its pods", func() bool {
		set := &appsv1.StatefulSet{}
		if !l.there(set, "shop") {
			return false
		}
		for ordinal := range instances {
			pod := &corev1.Pod{}
			if !l.there(pod, component.NamesOf(shopOf(l)).Instance(ordinal)) || !metav1.IsControlledBy(pod, set) {
				return false
			}
			uids[pod.Name] = pod.UID
		}
		return true
	})
	return uids
}

// TestVolumesGrowAndNoPodIsReplaced with each write the last of its process.
func TestVolumesGrowAndNoPodIsReplaced(t *testing.T) {
	l := newLab(t)
	l.patience *= 4
	shop := l.stored(3, true)
	pods := l.podUIDs(3)
	set := &appsv1.StatefulSet{}
	l.there(set, "shop")
	l.kube.set(func(s *standIn) { s.volumes.resize, s.notReady = false, true }) // the database is down meanwhile
	l.mortals(1)
	l.change(shop, func() { shop.Spec.Storage.Size = resource.MustParse("2Gi") })
	message := l.awaitCondition(shop, v1alpha1.ConditionUpToDate, metav1.ConditionFalse, v1alpha1.ReasonVolumesGrowing)
	if !strings.Contains(message, "from 1Gi to 2Gi") && !strings.Contains(message, "created again") {
		t.Errorf("message: %s", message)
	}
	l.kube.set(func(s *standIn) { s.volumes.resize, s.notReady = true, false })
	l.awaitSize(3, "2Gi")
	l.awaitRunning(shop)
	renewed := &appsv1.StatefulSet{}
	if l.there(renewed, "shop"); renewed.UID == set.UID || *renewed.Spec.Replicas != 3 {
		t.Errorf("StatefulSet %s with %d replicas", renewed.UID, *renewed.Spec.Replicas)
	}
	for name, uid := range l.podUIDs(3) {
		if pods[name] != uid {
			t.Errorf("pod %s was replaced", name)
		}
	}
	l.eventually("the capacity is shown", func() bool {
		l.get(shop)
		storage := shop.Status.Instances[2].Storage
		return storage != nil && storage.Capacity != nil && storage.Capacity.String() == "2Gi"
	})
}

func TestPodsWithoutTheirStatefulSetAreAdoptedByANewOne(t *testing.T) {
	l := newLab(t)
	shop := l.stored(3, true)
	pods := l.podUIDs(3)
	l.stop()
	set := &appsv1.StatefulSet{}
	l.there(set, "shop")
	if err := l.Delete(context.Background(), set, orphaning); err != nil {
		t.Fatal(err)
	}
	l.eventually("the StatefulSet is gone", func() bool { return !l.there(&appsv1.StatefulSet{}, "shop") })
	l.startController()
	for name, uid := range l.podUIDs(3) {
		if pods[name] != uid {
			t.Errorf("pod %s was replaced", name)
		}
	}
	l.awaitRunning(shop)
}

func TestWhatAnEarlierSuiteCreatedIsReplacedAndNoPodIs(t *testing.T) {
	l := newLab(t)
	shop := l.stored(3, true)
	l.stop()
	set := &appsv1.StatefulSet{}
	l.there(set, "shop")
	if err := l.Delete(context.Background(), set, orphaning); err != nil {
		t.Fatal(err)
	}
	l.eventually("the StatefulSet is gone", func() bool { return !l.there(&appsv1.StatefulSet{}, "shop") })
	l.create(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: l.ns, Name: "shop-pods", Labels: set.Labels, OwnerReferences: set.OwnerReferences,
		},
		Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: set.Spec.Selector.MatchLabels},
	})
	set.ResourceVersion, set.UID, set.Spec.ServiceName = "", "", "shop-pods"
	l.create(set)
	l.replace("shop-2")
	pods := l.podUIDs(3)
	l.startController()
	l.eventually("the StatefulSet is governed by another Service", func() bool {
		renewed := &appsv1.StatefulSet{}
		return l.there(renewed, "shop") && renewed.Spec.ServiceName == "shop-r"
	})
	for name, uid := range l.podUIDs(3) {
		if pods[name] != uid {
			t.Errorf("pod %s was replaced", name)
		}
	}
	l.awaitRunning(shop)
	l.settle()
	if !l.there(&corev1.Service{}, "shop-pods") {
		t.Error("a Service is gone by which a pod has its name")
	}
	l.replace("shop-2")
	l.eventually("the Service that names no pod is gone", func() bool { return !l.there(&corev1.Service{}, "shop-pods") })
	l.awaitRunning(shop)
}

// replace deletes a pod, and waits until there is another.
func (l *lab) replace(name string) {
	l.Helper()
	pod := &corev1.Pod{}
	l.there(pod, name)
	if err := l.Delete(context.Background(), pod); err != nil {
		l.Fatal(err)
	}
	l.eventually("pod "+name+" is another", func() bool {
		now := &corev1.Pod{}
		return l.there(now, name) && now.UID != pod.UID
	})
}

func TestADeletionStopsPodsWithoutAStatefulSet(t *testing.T) {
	l := newLab(t)
	shop := l.stored(1, true)
	l.podUIDs(1)
	l.stop()
	set := &appsv1.StatefulSet{}
	l.there(set, "shop")
	if err := l.Delete(context.Background(), set, orphaning); err != nil {
		t.Fatal(err)
	}
	l.eventually("the StatefulSet is gone", func() bool { return !l.there(&appsv1.StatefulSet{}, "shop") })
	if err := l.Delete(context.Background(), shop); err != nil {
		t.Fatal(err)
	}
	l.startController()
	l.eventually("the cluster is gone", func() bool { return !l.there(&v1alpha1.PostgresCluster{}, "shop") && !l.there(&corev1.Pod{}, "shop-0") })
}

func TestAClassThatDoesNotLetVolumesGrowIsNamed(t *testing.T) {
	l := newLab(t)
	shop := l.stored(1, false)
	l.change(shop, func() { shop.Spec.Storage.Size = resource.MustParse("2Gi") })
	message := l.awaitCondition(shop, v1alpha1.ConditionUpToDate, metav1.ConditionFalse, v1alpha1.ReasonExpansionNotAllowed)
	if !strings.Contains(message, "StorageClass "+l.ns) || !strings.Contains(message, "allowVolumeExpansion") {
		t.Errorf("message: %s", message)
	}
	l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRunning)
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: l.ns}}
	l.change(class, func() { class.AllowVolumeExpansion = ptr.To(true) })
	l.awaitSize(1, "2Gi")
	l.awaitRunning(shop)
}

// TestVolumesThatFillGrowUpToTheirLimit with each write the last of its process.
func TestVolumesThatFillGrowUpToTheirLimit(t *testing.T) {
	l := newLab(t)
	l.patience *= 4
	shop := l.stored(1, true)
	l.mortals(1)
	full := func(status *agentapi.Status) {
		status.Volume = &agentapi.VolumeStatus{Bytes: 1000, UsedBytes: 900, State: "AlmostFull"}
	}
	l.kube.set(func(s *standIn) { s.answer = full })
	l.change(shop, func() {
		shop.Spec.Storage.AutoGrow = &v1alpha1.AutoGrow{Limit: resource.MustParse("1500Mi")}
	})
	l.awaitSize(1, "1280Mi")
	if l.get(shop); shop.Spec.Storage.AutoGrow.AtPercent != 80 || shop.Status.Storage == nil || shop.Status.Storage.Size.String() != "1280Mi" ||
		!strings.Contains(shop.Status.Storage.Message, "shop-0 was 90% full") {
		t.Errorf("%+v, %+v", shop.Spec.Storage.AutoGrow, shop.Status.Storage)
	}
	l.clock.forward(2 * storage.GrowPause)
	l.nudge(shop)
	l.awaitSize(1, "1500Mi")
	l.clock.forward(2 * storage.GrowPause)
	l.nudge(shop)
	l.awaitCondition(shop, v1alpha1.ConditionStorageHealthy, metav1.ConditionFalse, v1alpha1.ReasonAlmostFull)
	l.settle()
	if l.get(shop); shop.Status.Storage.Size.String() != "1500Mi" {
		t.Errorf("beyond the limit: %s", shop.Status.Storage.Size.String())
	}
	l.awaitRunning(shop)
}

// nudge has the controller look again.
func (l *lab) nudge(shop *v1alpha1.PostgresCluster) {
	l.Helper()
	l.change(shop, func() {
		metav1.SetMetaDataAnnotation(&shop.ObjectMeta, "example.org/look", l.clock.now().String())
	})
}
