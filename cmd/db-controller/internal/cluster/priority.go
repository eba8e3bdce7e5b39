package cluster

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"howdah.dev/apis/v1alpha1"
)

// Priorities in the queue. Changes have 0, and clusters that a process which has just started has yet to look at
// handler.LowPriority.
const (
	// priorityAnswered is for clusters whose agents were asked: what they said counts for a moment.
	priorityAnswered = 20
	// priorityUnready is for clusters that are not Ready.
	priorityUnready = 10
	// priorityQuiet is for looks at clusters that are, last of all, so that none waits to be looked at for the first time.
	priorityQuiet = handler.LowPriority - 50
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

func enqueue(q queue, cluster types.NamespacedName, priority int) {
	if sorted, ok := q.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		sorted.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, reconcile.Request{NamespacedName: cluster})
		return
	}
	q.Add(reconcile.Request{NamespacedName: cluster})
}

// wakeByOthers has the answers of agents wake their clusters, and the end of a rollout those that wait for their turn. From now on agents
// are asked.
func (r *Reconciler) wakeByOthers(ctx context.Context, q queue) error {
	r.rollouts.WakeBy(func(cluster types.NamespacedName) { enqueue(q, cluster, priorityUnready) })
	r.pool.WakeBy(func(cluster types.NamespacedName) { enqueue(q, cluster, priorityAnswered) })
	go r.pool.Run(ctx)
	return nil
}

// unreadyFirst has a process that has just started look first at clusters that are not Ready.
func unreadyFirst() handler.EventHandler {
	return handler.Funcs{CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) {
		if cluster := e.Object.(*v1alpha1.PostgresCluster); priorityOf(cluster) == priorityUnready {
			enqueue(q, client.ObjectKeyFromObject(cluster), priorityUnready)
		}
	}}
}

// priorityOf the next look at a cluster that nothing wakes.
func priorityOf(cluster *v1alpha1.PostgresCluster) int {
	if !cluster.DeletionTimestamp.IsZero() || !meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ConditionReady) {
		return priorityUnready
	}
	return priorityQuiet
}

// ranked gives a result its priority; without one it would keep that of what woke the cluster.
func (g *guard) ranked(result ctrl.Result) ctrl.Result {
	result.Priority = &g.priority
	return result
}
