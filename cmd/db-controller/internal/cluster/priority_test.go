package cluster

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"howdah.dev/apis/v1alpha1"
)

func named(name string, ready metav1.ConditionStatus) *v1alpha1.PostgresCluster {
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	cluster.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: ready}}
	return cluster
}

// A process has started, and one cluster of those that it sees first is not Ready.
func TestClustersThatAreNotReadyComeFirstAndQuietPollsLast(t *testing.T) {
	q := priorityqueue.New[reconcile.Request]("test")
	defer q.ShutDown()
	enqueue(q, types.NamespacedName{Name: "polled"}, priorityOf(named("polled", metav1.ConditionTrue)))
	usual, first := &handler.EnqueueRequestForObject{}, unreadyFirst()
	for _, cluster := range []*v1alpha1.PostgresCluster{
		named("calm", metav1.ConditionTrue), named("calm-too", metav1.ConditionTrue), named("broken", metav1.ConditionFalse),
	} {
		initial := event.CreateEvent{Object: cluster, IsInInitialList: true}
		handler.WithLowPriorityWhenUnchanged[client.Object, reconcile.Request](usual).Create(t.Context(), initial, q)
		first.Create(t.Context(), initial, q)
	}
	q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: "changed"}})
	enqueue(q, types.NamespacedName{Name: "answered"}, priorityAnswered)
	for _, want := range []string{"answered", "broken", "changed", "calm", "calm-too", "polled"} {
		got, _ := q.Get()
		if got.Name != want {
			t.Errorf("%s comes before %s", got.Name, want)
		}
		q.Done(got)
	}
}
