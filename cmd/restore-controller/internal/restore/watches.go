package restore

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"howdah.dev/apis/v1alpha1"
)

// +kubebuilder:rbac:groups=howdah.dev,resources=restores,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=howdah.dev,resources=restores/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=howdah.dev,resources=restores/finalizers,verbs=update
// +kubebuilder:rbac:groups=howdah.dev,resources=postgresclusters,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=howdah.dev,resources=upgrades,verbs=list
// +kubebuilder:rbac:groups=howdah.dev,resources=backups;backuprepositories,verbs=get;list;watch
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create
// +kubebuilder:rbac:groups="",resources=configmaps;serviceaccounts,verbs=get;create
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;create
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups="",resources=events,verbs=list

// SetupWithManager watches Restores, their Jobs, and what they wait for.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.Restore{}, builder.WithPredicates(predicate.Funcs{UpdateFunc: beyondProgress})).
		Owns(&batchv1.Job{}).
		Owns(&v1alpha1.Restore{}, builder.WithPredicates(predicate.Funcs{UpdateFunc: beyondProgress})).
		Watches(&v1alpha1.PostgresCluster{}, handler.EnqueueRequestsFromMapFunc(r.goingOn)).
		Watches(&v1alpha1.BackupRepository{}, handler.EnqueueRequestsFromMapFunc(r.goingOn)).
		Watches(&v1alpha1.Backup{}, handler.EnqueueRequestsFromMapFunc(r.goingOn)).
		WatchesRawSource(r.reports.Source()).
		WatchesRawSource(r.headers.Source()).
		Complete(r)
}

// Woken are the Restores that a change of an object wakes, as SetupWithManager has it.
func (r *Reconciler) Woken(ctx context.Context, object client.Object) []reconcile.Request {
	switch object.(type) {
	case *v1alpha1.Restore:
		requests := []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(object)}}
		if owner := metav1.GetControllerOf(object); owner != nil && owner.Kind == v1alpha1.KindRestore {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: object.GetNamespace(), Name: owner.Name}})
		}
		return requests
	case *v1alpha1.PostgresCluster, *v1alpha1.BackupRepository, *v1alpha1.Backup:
		return r.goingOn(ctx, object)
	case *batchv1.Job:
		if owner := metav1.GetControllerOf(object); owner != nil && owner.Kind == v1alpha1.KindRestore {
			return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: object.GetNamespace(), Name: owner.Name}}}
		}
	}
	return nil
}

// WakeBy has wake called with each Restore for which a bucket was read, where no manager does that.
func (r *Reconciler) WakeBy(wake func(client.Object)) {
	r.reports.WakeBy(wake)
	r.headers.WakeBy(wake)
}

// beyondProgress tells a change from one that is only the worker's report of its progress.
func beyondProgress(e event.UpdateEvent) bool {
	before, isRestore := e.ObjectOld.(*v1alpha1.Restore)
	now, stillIs := e.ObjectNew.(*v1alpha1.Restore)
	if !isRestore || !stillIs {
		return true
	}
	before, now = before.DeepCopy(), now.DeepCopy()
	before.Status.Progress, now.Status.Progress = nil, nil
	before.ResourceVersion, now.ResourceVersion = "", ""
	return !equality.Semantic.DeepEqual(before, now)
}

// goingOn are the Restores in the namespace of an object that may wait for it: those that have not ended, and those
// that ended but want their first backup, or are being deleted. They are few.
func (r *Reconciler) goingOn(ctx context.Context, object client.Object) []reconcile.Request {
	restores := &v1alpha1.RestoreList{}
	if err := r.Client.List(ctx, restores, client.InNamespace(object.GetNamespace())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List the Restores of a namespace", "namespace", object.GetNamespace())
		return nil
	}
	var requests []reconcile.Request
	for i := range restores.Items {
		status := &restores.Items[i].Status
		if status.CompletedAt == nil || status.BackupRequest != nil || !restores.Items[i].DeletionTimestamp.IsZero() {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&restores.Items[i])})
		}
	}
	return requests
}
