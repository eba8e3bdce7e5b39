package autoscale

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/agentapi"
)

// scaled is a cluster of three instances whose number follows the load, and to which so many replicas are recommended.
func scaled(recommended int32, change func(*observed.Cluster)) *observed.Cluster {
	o := observedtest.Trio(func(o *observed.Cluster) {
		o.Cluster.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")}
		o.Cluster.Spec.Autoscale = &v1alpha1.Autoscale{Replicas: &v1alpha1.AutoscaleReplicas{Mode: v1alpha1.AutoscaleApply, Min: 1, Max: 4, CPUPercent: ptr.To[int32](60)}}
		o.Cluster.Status.Autoscale = &v1alpha1.AutoscaleStatus{Replicas: &v1alpha1.AutoscaleReplicasStatus{
			Recommended: &v1alpha1.ReplicasRecommendation{Replicas: recommended, Reason: "The replicas use much."},
			Applied:     &v1alpha1.AppliedReplicas{Instances: 3, SpecInstances: 3, Since: metav1.NewTime(o.Now.Add(-time.Hour))},
		}}
	})
	follow(o)
	if change != nil {
		change(o)
	}
	return o
}

func TestInstancesAreAddedAndRemovedOneAtATime(t *testing.T) {
	for name, c := range map[string]struct {
		recommended int32
		change      func(*observed.Cluster)
		want        int32
		waiting     string
	}{
		"as many":                     {2, nil, 3, ""},
		"one more":                    {3, nil, 4, ""},
		"two more":                    {4, nil, 4, ""},
		"one less":                    {1, nil, 2, ""},
		"only recommended":            {4, func(o *observed.Cluster) { ReplicasOf(o.Cluster).Mode = v1alpha1.AutoscaleRecommend }, 3, ""},
		"fewer than the min":          {2, func(o *observed.Cluster) { ReplicasOf(o.Cluster).Min = 3 }, 4, ""},
		"more than the max":           {2, func(o *observed.Cluster) { ReplicasOf(o.Cluster).Max = 1 }, 2, ""},
		"for synchronous replication": {1, func(o *observed.Cluster) { o.Cluster.Spec.Synchronous = &v1alpha1.Synchronous{Number: 2} }, 3, ""},
		"one that a Service names": {1, func(o *observed.Cluster) {
			o.Cluster.Spec.Services.Additional = []v1alpha1.AdditionalService{{Name: "x", Instance: "shop-2"}}
		}, 3, ""},
		"the primary": {1, func(o *observed.Cluster) { observedtest.SwitchedTo(o, "shop-2") }, 3, "shop-2 is the primary, and would be the next to be removed: set spec.maintenanceWindow"},
		"the primary outside of the window": {1, func(o *observed.Cluster) {
			observedtest.SwitchedTo(o, "shop-2")
			o.Cluster.Spec.MaintenanceWindow = daily(o.Now.Add(12 * time.Hour))
		}, 3, "for which it has to hand over. It waits for the maintenance window, which opens on"},
		"the primary in the window": {1, func(o *observed.Cluster) {
			observedtest.SwitchedTo(o, "shop-2")
			o.Cluster.Spec.MaintenanceWindow = daily(o.Now)
		}, 2, ""},
		"the primary with too few others": {1, func(o *observed.Cluster) {
			observedtest.SwitchedTo(o, "shop-2")
			o.Cluster.Spec.MaintenanceWindow = daily(o.Now)
			o.Agents["shop-1"].Replication.Streaming = false
		}, 3, "Without shop-2, too few replicas would stream."},
		"one with data that a clone has replaced": {1, func(o *observed.Cluster) {
			o.Cluster.Spec.Repair = &v1alpha1.Repair{KeepReplacedCopies: true}
			o.Agents["shop-2"].Copies = []agentapi.Copy{{ID: "g1", Of: "g1"}, {ID: "g1.c1", Of: "g1"}}
		}, 3, "shop-2 is not removed. spec.repair.keepReplacedCopies keeps the data on the volume of shop-2 that a clone replaces (g1, g1.c1)."},
		"one whose data is not repaired": {1, func(o *observed.Cluster) { o.Agents["shop-2"].HeldBack = "The data is not rewound." }, 3,
			"shop-2 is not removed, because it may have commits that no other instance has, and spec.repair holds back what its data needs: The data is not rewound."},
		"none that streams is left": {1, func(o *observed.Cluster) { o.Agents["shop-1"].Replication.Streaming = false }, 3, "Without shop-2, too few replicas would stream."},
		"hibernated":                {3, func(o *observed.Cluster) { o.Cluster.Spec.Hibernate = true }, 3, "hibernated"},
		"during an Upgrade":         {1, func(o *observed.Cluster) { o.Operation = "Upgrade to-18" }, 3, "Upgrade to-18 has not ended."},
		"during a backup":           {3, func(o *observed.Cluster) { o.BackingUp = "nightly-x" }, 3, "Pod nightly-x takes a backup."},
		"during a drill": {3, func(o *observed.Cluster) {
			o.FailoverDrill = &v1alpha1.FailoverDrill{ObjectMeta: metav1.ObjectMeta{Name: "game"}}
		}, 3, "FailoverDrill game has not ended."},
		"paused": {3, func(o *observed.Cluster) {
			from, until := metav1.NewTime(o.Now), metav1.NewTime(o.Now.Add(time.Hour))
			o.Cluster.Spec.Repair = &v1alpha1.Repair{PausedFrom: &from, PausedUntil: &until}
		}, 3, "spec.repair pauses"},
		"soon after the last change": {3, func(o *observed.Cluster) {
			o.Cluster.Status.AppliedReplicas().Since = metav1.NewTime(o.Now.Add(-time.Minute))
		}, 3, "less than ten minutes ago"},
		"a day after no room": {3, func(o *observed.Cluster) { o.Cluster.Status.AppliedReplicas().Refused = "Pod shop-3: no room" }, 3, "tried a day later: Pod shop-3: no room"},
		"less after no room":  {1, func(o *observed.Cluster) { o.Cluster.Status.AppliedReplicas().Refused = "Pod shop-3: no room" }, 2, ""},
		"a pod is not ready":  {3, observedtest.NotReady, 3, "Pod shop-0 is not ready."},
		"scaled by others": {3, func(o *observed.Cluster) { o.Cluster.ManagedFields = scaledBy("kube-controller-manager") }, 3,
			"kube-controller-manager has set spec.instances through the scale subresource"},
		"scaled by a person": {3, func(o *observed.Cluster) { o.Cluster.ManagedFields = scaledBy("kubectl") }, 4, ""},
	} {
		o := scaled(c.recommended, c.change)
		if waits := WaitsForInstances(o); !strings.Contains(waits, c.waiting) || (waits == "") != (c.waiting == "") {
			t.Errorf("%s: it waits: %q", name, waits)
		}
		DecideInstances(t.Context(), o)
		if got := o.Cluster.DesiredInstances(); got != c.want {
			t.Errorf("%s: %d instances, %+v", name, got, o.Cluster.Status.AppliedReplicas())
		}
	}
}

func daily(at time.Time) *v1alpha1.MaintenanceWindow {
	at = at.UTC()
	return &v1alpha1.MaintenanceWindow{Schedule: fmt.Sprintf("%d %d * * *", at.Minute(), at.Hour()), Duration: metav1.Duration{Duration: time.Hour}}
}

func scaledBy(manager string) []metav1.ManagedFieldsEntry {
	return []metav1.ManagedFieldsEntry{
		{Manager: "kubectl-client-side-apply", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:instances":{}}}`)},
		{Manager: manager, Subresource: "scale", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:instances":{}}}`)},
	}
}

func TestWhatAPersonWritesIntoSpecCountsAgain(t *testing.T) {
	o := scaled(3, nil)
	DecideInstances(t.Context(), o)
	o.Cluster.Spec.Instances = 2
	if o.Wanted() != 2 {
		t.Errorf("%d instances", o.Wanted())
	}
	if outcome := DecideInstances(t.Context(), o); outcome.Finished() || o.Wanted() != 2 || o.Cluster.Status.AppliedReplicas().SpecInstances != 2 {
		t.Errorf("%+v, %+v", outcome, o.Cluster.Status.AppliedReplicas())
	}
	o.Cluster.Spec.Autoscale = nil
	if o.Wanted() != 2 || !DecideInstances(t.Context(), o).Finished() {
		t.Errorf("%d instances where nobody wants it any more", o.Wanted())
	}
	o = scaled(3, func(o *observed.Cluster) { o.Cluster.ManagedFields = scaledBy("kube-controller-manager") })
	o.Cluster.Status.AppliedReplicas().Instances = 5
	if DecideInstances(t.Context(), o); o.Wanted() != 3 || o.Cluster.Status.AppliedReplicas() != nil {
		t.Errorf("two decide: %+v", o.Cluster.Status.AppliedReplicas())
	}
}

func TestAStatusThatWasLostRemovesNoInstance(t *testing.T) {
	o := scaled(2, func(o *observed.Cluster) {
		o.Cluster.Spec.Instances = 2
		o.Cluster.Status.Autoscale = nil
	})
	if outcome := DecideInstances(t.Context(), o); outcome.Finished() || o.Wanted() != 3 {
		t.Errorf("%+v, %d instances", outcome, o.Wanted())
	}
	if outcome := DecideInstances(t.Context(), o); !outcome.Finished() {
		t.Errorf("%+v", outcome)
	}
}

func TestAnInstanceForWhichNoNodeHasRoomIsRemovedAgain(t *testing.T) {
	o := scaled(3, nil)
	DecideInstances(t.Context(), o)
	o.Pods = append(o.Pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "shop-3"}, Status: corev1.PodStatus{
		Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "no room"}},
	}})
	if DecideInstances(t.Context(), o); o.Wanted() != 4 {
		t.Errorf("at once: %+v", o.Cluster.Status.AppliedReplicas())
	}
	o.Now = o.Now.Add(applyPause)
	o.Cluster.Spec.Repair = &v1alpha1.Repair{PausedFrom: &metav1.Time{Time: o.Now.Add(-time.Minute)}, PausedUntil: &metav1.Time{Time: o.Now.Add(time.Minute)}}
	if DecideInstances(t.Context(), o); o.Wanted() != 4 {
		t.Errorf("while repairs are paused: %+v", o.Cluster.Status.AppliedReplicas())
	}
	o.Cluster.Spec.Repair = nil
	DecideInstances(t.Context(), o)
	if applied := o.Cluster.Status.AppliedReplicas(); applied.Instances != 3 || applied.Refused != "Pod shop-3: no room" || applied.Previous != nil {
		t.Errorf("%+v", applied)
	}
}

// A drain leaves the pod of an instance without a node for a moment. Its volume has a copy of the data, and perhaps commits that no other has.
func TestAnInstanceThatHasJoinedIsNotRemovedForLackOfRoom(t *testing.T) {
	o := scaled(3, nil)
	DecideInstances(t.Context(), o)
	conditions := func(ready, scheduled corev1.ConditionStatus) []corev1.PodCondition {
		return []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}, {Type: corev1.PodScheduled, Status: scheduled, Reason: corev1.PodReasonUnschedulable}}
	}
	o.Pods = append(o.Pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "shop-3"}, Status: corev1.PodStatus{Conditions: conditions(corev1.ConditionTrue, corev1.ConditionTrue)}})
	DecideInstances(t.Context(), o)
	o.Now = o.Now.Add(7 * 24 * time.Hour)
	o.Pods[len(o.Pods)-1].Status.Conditions = conditions(corev1.ConditionFalse, corev1.ConditionFalse)
	DecideInstances(t.Context(), o)
	if applied := o.Cluster.Status.AppliedReplicas(); applied.Instances != 4 || applied.Refused != "" {
		t.Errorf("%+v", applied)
	}
}

func TestTheLoadOfReplicasIsKnownOnceAllHaveBeenMeasured(t *testing.T) {
	o := scaled(2, nil)
	if _, unknown := LoadOfReplicas(o); unknown != "shop-1 has not been measured for 4 minutes." {
		t.Error(unknown)
	}
	for name, millis := range map[string]int64{"shop-0": 900, "shop-1": 250, "shop-2": 400} {
		o.Agents[name].Usage = &agentapi.Usage{RecentSeconds: 300, RecentCPUMillis: millis}
	}
	load, unknown := LoadOfReplicas(o)
	if unknown != "" || len(load.Measures) != 1 || len(load.Measures[0].Used) != 2 || load.Measures[0].Used[0] != 50 || load.Measures[0].Used[1] != 80 || load.Replicas != 2 {
		t.Errorf("%+v, %s", load, unknown)
	}
	ReplicasOf(o.Cluster).SessionsPercent = ptr.To[int32](70)
	if _, unknown := LoadOfReplicas(o); unknown == "" {
		t.Error("their sessions are known")
	}
	o.Agents["shop-2"].Replication = nil
	if _, unknown := LoadOfReplicas(o); unknown == "" {
		t.Error("one that doesn't follow has no load")
	}
}
