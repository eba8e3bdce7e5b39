package backup

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"howdah.dev/apis/v1alpha1"
)

// SetupWithManager registers the reconciler and what wakes it.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	b := ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.Backup{}, builder.WithPredicates(notOnlyProgress())).
		Owns(&batchv1.Job{})
	for _, o := range others() {
		b = b.Watches(o.kind, r.affected(o.concerns), builder.WithPredicates(o.changes...))
	}
	return b.
		WatchesRawSource(r.Stores.Source()).
		WatchesRawSource(r.Queue.Source()).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).
		Complete(r)
}

// other is a kind whose changes concern Backups of the same namespace.
type other struct {
	kind     client.Object
	changes  []predicate.Predicate
	concerns func(changed client.Object, backup *v1alpha1.Backup) bool
}

// others that wake Backups. What is there when the process starts wakes none, because it looks at each Backup then anyway: to look for those
// that each of ten thousand may concern takes minutes.
func others() []other {
	return []other{
		{&v1alpha1.PostgresCluster{}, []predicate.Predicate{afterStart()}, func(cluster client.Object, backup *v1alpha1.Backup) bool {
			return backup.Spec.Cluster.Name == cluster.GetName() && backup.Status.CompletedAt == nil
		}},
		{&v1alpha1.BackupRepository{}, []predicate.Predicate{afterStart()}, func(_ client.Object, backup *v1alpha1.Backup) bool {
			return backup.Status.CompletedAt == nil || !backup.DeletionTimestamp.IsZero()
		}},
		{&v1alpha1.Backup{}, []predicate.Predicate{afterStart(), notOnlyProgress()}, func(changed client.Object, backup *v1alpha1.Backup) bool {
			other := changed.(*v1alpha1.Backup)
			return backup.Status.CompletedAt == nil && backup.UID != other.UID && backup.Spec.Cluster == other.Spec.Cluster
		}},
	}
}

// afterStart leaves out what a process finds when it starts.
func afterStart() predicate.Predicate {
	return predicate.Funcs{CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList }}
}

// affected wakes the Backups of the same namespace that a change may concern.
func (r *Reconciler) affected(concerns func(changed client.Object, backup *v1alpha1.Backup) bool) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, changed client.Object) []reconcile.Request {
		backups := &v1alpha1.BackupList{}
		if err := r.Client.List(ctx, backups, client.InNamespace(changed.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
			return nil // a list of the cache fails only at the end of the process
		}
		var requests []reconcile.Request
		for i := range backups.Items {
			if concerns(changed, &backups.Items[i]) {
				requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&backups.Items[i])})
			}
		}
		return requests
	})
}

// notOnlyProgress leaves out what the worker writes every two seconds, but for a new phase.
func notOnlyProgress() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*v1alpha1.Backup)
		after, ok2 := e.ObjectNew.(*v1alpha1.Backup)
		return !ok || !ok2 || !equality.Semantic.DeepEqual(withoutProgress(before), withoutProgress(after))
	}}
}

func withoutProgress(backup *v1alpha1.Backup) *v1alpha1.Backup {
	copied := backup.DeepCopy()
	copied.ResourceVersion, copied.ManagedFields = "", nil
	if progress := copied.Status.Progress; progress != nil {
		copied.Status.Progress = &v1alpha1.Progress{Phase: progress.Phase}
	}
	return copied
}
