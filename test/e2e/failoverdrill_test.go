//go:build e2e

package e2e

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

// TestAFailoverDrillMeasuresTheDeletionOfThePrimarysPodAndLeavesNothing drills a cluster of three, in which every acknowledged row must be there.
func TestAFailoverDrillMeasuresTheDeletionOfThePrimarysPodAndLeavesNothing(t *testing.T) {
	onlyInFull(t, "it takes minutes")
	t.Parallel()
	b := newBed(t, "minio")
	cluster := b.replicated(17)
	b.awaitInstances(cluster, 3)
	former := cluster.Status.Primary
	drill := &v1alpha1.FailoverDrill{ObjectMeta: b.Meta("drill"), Spec: v1alpha1.FailoverDrillSpec{
		Cluster: v1alpha1.LocalReference{Name: cluster.Name}, Fault: v1alpha1.FailoverFault{Type: v1alpha1.FaultDeletePrimaryPod},
		Limits:     &v1alpha1.FailoverDrillLimits{MaxGap: &metav1.Duration{Duration: time.Minute}, MaxLostRows: ptr.To[int64](0)},
		MaxPerWeek: 1,
	}}
	b.Must(b.Create(b.Context(), drill))
	b.AwaitTrue(drill, v1alpha1.ConditionSucceeded)
	r := drill.Status.Result
	t.Logf("%+v", r)
	if r.RowsAcknowledged < 100 || r.RowsLost != 0 || r.Primary == former || r.LongestGap.Duration <= 0 {
		t.Errorf("%+v, and %s was the primary", r, former)
	}
	b.Await(cluster, "nothing is left", func() bool { return cluster.Status.FailoverDrill == nil })
	for _, object := range []client.Object{&batchv1.Job{}, &corev1.ServiceAccount{}, &corev1.Secret{}} {
		name := "drill-failover-drill"
		if _, secret := object.(*corev1.Secret); secret {
			name = cluster.Name + "-failover-drill"
		}
		if err := b.Get(b.Context(), client.ObjectKey{Namespace: b.Namespace, Name: name}, object); err == nil && object.GetDeletionTimestamp() == nil {
			t.Errorf("%T %s is left", object, name)
		}
	}
	left := ""
	b.Await(cluster, "the role is dropped", func() bool {
		left = b.SQL(cluster.Name, "SELECT count(*) FROM pg_roles WHERE rolname = 'howdah_failoverdrill'")
		return left == "0"
	})

	second := &v1alpha1.FailoverDrill{ObjectMeta: b.Meta("second"), Spec: drill.Spec}
	second.Spec.StartWithin = &metav1.Duration{}
	b.Must(b.Create(b.Context(), second))
	b.Await(second, "the budget is spent", func() bool {
		return len(second.Status.Conditions) > 0 && second.Status.CompletedAt != nil && second.Status.Conditions[0].Reason == v1alpha1.ReasonBudgetSpent
	})
}

// TestFailoverDrillsKillFreezeAndStopProcessesWithoutALoss has each of the faults once, and none may cost an acknowledged row.
func TestFailoverDrillsKillFreezeAndStopProcessesWithoutALoss(t *testing.T) {
	onlyInFull(t, "what an agent does for a drill is tried with real servers, and a drill as a whole with the deletion of a pod")
	t.Parallel()
	b := newBed(t, "minio")
	cluster := b.NewCluster("shop", 17)
	cluster.Spec.Instances, cluster.Spec.Synchronous = 3, &v1alpha1.Synchronous{Number: 1}
	b.Must(b.Create(b.Context(), cluster))
	b.awaitInstances(cluster, 3)
	for name, fault := range map[string]v1alpha1.FailoverFaultType{
		"kill": v1alpha1.FaultKillPostmaster, "freeze": v1alpha1.FaultFreezePostmaster, "stop": v1alpha1.FaultStopReplica,
	} {
		drill := &v1alpha1.FailoverDrill{ObjectMeta: b.Meta(name), Spec: v1alpha1.FailoverDrillSpec{
			Cluster: v1alpha1.LocalReference{Name: cluster.Name}, Fault: v1alpha1.FailoverFault{Type: fault},
			Limits: &v1alpha1.FailoverDrillLimits{MaxLostRows: ptr.To[int64](0)}, MaxPerWeek: 3,
		}}
		b.Must(b.Create(b.Context(), drill))
		b.AwaitTrue(drill, v1alpha1.ConditionSucceeded)
		t.Logf("%s: %+v", name, drill.Status.Result)
	}
}
