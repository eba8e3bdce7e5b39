package verify

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

// SetupWithManager registers the reconciler and what wakes it: its own Backup and Job, and for whoever is next, the end of
// another's verification and the times of the repository.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("verification").
		For(&v1alpha1.Backup{}, builder.WithPredicates(matters())).
		Owns(&batchv1.Job{}).
		Watches(&v1alpha1.Backup{}, handler.EnqueueRequestsFromMapFunc(r.nextBeside), builder.WithPredicates(turns())).
		Watches(&v1alpha1.BackupRepository{}, handler.EnqueueRequestsFromMapFunc(r.nextIn)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 2}).
		Complete(r)
}

// matters lets only those changes of a Backup through that a verification depends on: not its progress.
func matters() predicate.Predicate {
	seen := func(object client.Object) *v1alpha1.Backup {
		backup := object.(*v1alpha1.Backup)
		return &v1alpha1.Backup{
			Spec: v1alpha1.BackupSpec{Verify: backup.Spec.Verify, Hold: backup.Spec.Hold},
			Status: v1alpha1.BackupStatus{
				CompletedAt: backup.Status.CompletedAt, VerifiedAt: backup.Status.VerifiedAt, Verification: backup.Status.Verification,
			},
		}
	}
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !equality.Semantic.DeepEqual(seen(e.ObjectOld), seen(e.ObjectNew)) ||
			e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
	}}
}

// turns are the changes of a Backup after which it may be another's turn. Those that are there when the process starts are none: the
// repository wakes whose turn it is, once, where each of ten thousand Backups would look through all of them.
func turns() predicate.Predicate {
	return predicate.And(matters(), predicate.Funcs{CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList }})
}

// nextBeside wakes the Backup whose turn it is in the repository of one that has changed.
func (r *Reconciler) nextBeside(ctx context.Context, changed client.Object) []reconcile.Request {
	plan := changed.(*v1alpha1.Backup).Status.Plan
	if plan == nil {
		return nil
	}
	repo := &v1alpha1.BackupRepository{}
	if r.Client.Get(ctx, client.ObjectKey{Namespace: changed.GetNamespace(), Name: plan.Repository}, repo) != nil {
		return nil // it wakes us when it is made
	}
	return r.nextIn(ctx, repo)
}

// nextIn wakes the Backup whose turn it is in a repository, as a thousand may be due, and one can go; and those of whose manifests the inventory
// has news.
func (r *Reconciler) nextIn(ctx context.Context, repo client.Object) []reconcile.Request {
	backups := &v1alpha1.BackupList{}
	if err := r.Client.List(ctx, backups, client.InNamespace(repo.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		return nil // a list of the cache fails only at the end of the process
	}
	of := repo.(*v1alpha1.BackupRepository)
	var woken []reconcile.Request
	wake := func(b *v1alpha1.Backup) {
		woken = append(woken, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(b)})
	}
	if next := first(of, backups.Items); next != nil {
		wake(next)
	}
	for i := range backups.Items {
		if b := &backups.Items[i]; succeeded(b) && b.Status.Plan.Repository == of.Name && r.news(of, b) != manifestKnown {
			wake(b)
		}
	}
	return woken
}
