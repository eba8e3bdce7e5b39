// Package revisions keeps the specs with which clusters were Ready, so that a person can go back to one. It is a controller of its own in
// this binary: what it writes is no part of a cluster, and a cluster waits for none of it.
package revisions

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/spechistory"
)

// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete

// Reconciler of the revisions of PostgresClusters.
type Reconciler struct{ Client client.Client }

// CacheOptions keep the revisions of clusters in memory, and not those that Kubernetes makes of their StatefulSets.
func CacheOptions() map[client.Object]cache.ByObject {
	ours := labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelComponent: spechistory.Component})
	return map[client.Object]cache.ByObject{&appsv1.ControllerRevision{}: {Label: ours}}
}

// SetupWithManager starts the controller with the manager.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("revisions").
		For(&v1alpha1.PostgresCluster{}, builder.WithPredicates(predicate.NewPredicateFuncs(func(object client.Object) bool {
			return steady(object.(*v1alpha1.PostgresCluster))
		}))).
		Owns(&appsv1.ControllerRevision{}).
		Complete(r)
}

// steady says that the whole spec is in effect, and good.
func steady(cluster *v1alpha1.PostgresCluster) bool {
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionUpToDate} {
		if c := meta.FindStatusCondition(cluster.Status.Conditions, kind); c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != cluster.Generation {
			return false
		}
	}
	return cluster.DeletionTimestamp.IsZero() && cluster.Status.ObservedGeneration == cluster.Generation
}

// Reconcile keeps the spec of a cluster. Spec and conditions are of one read, so what a cache shows late is kept late, and not amiss.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	cluster := &v1alpha1.PostgresCluster{}
	if err := r.Client.Get(ctx, request.NamespacedName, cluster); err != nil || !steady(cluster) {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	present, err := spechistory.Revision(cluster)
	if err != nil {
		return ctrl.Result{}, err
	}
	all := &appsv1.ControllerRevisionList{}
	if err := r.Client.List(ctx, all, client.InNamespace(cluster.Namespace), client.MatchingLabels(spechistory.Labels(cluster.Name))); err != nil {
		return ctrl.Result{}, fmt.Errorf("list revisions: %w", err)
	}
	own := slices.DeleteFunc(all.Items, func(revision appsv1.ControllerRevision) bool { return !metav1.IsControlledBy(&revision, cluster) })
	return ctrl.Result{}, r.carryOut(ctx, spechistory.Keep(present, own))
}

// carryOut creates before it deletes: a crash in between leaves one more than the limit, until the next look.
func (r *Reconciler) carryOut(ctx context.Context, action spechistory.Action) error {
	switch created, renewed := action.Create, action.Renew; {
	case created != nil:
		err := r.Client.Create(ctx, created)
		if apierrors.IsAlreadyExists(err) { // the cache will show it; or it belongs to somebody else, who keeps it
			log.FromContext(ctx).V(1).Info("A revision of this spec exists already", "revision", created.Name)
			return nil
		}
		if err != nil {
			return fmt.Errorf("create revision %s: %w", created.Name, err)
		}
		log.FromContext(ctx).Info("Kept the spec", "revision", created.Revision)
	case renewed != nil:
		before := renewed.DeepCopy()
		renewed.Revision = action.Number
		if err := r.Client.Patch(ctx, renewed, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("renew revision %s: %w", renewed.Name, err)
		}
	}
	for i := range action.Delete {
		oldest := &action.Delete[i]
		if err := r.Client.Delete(ctx, oldest, client.Preconditions{UID: &oldest.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete revision %s: %w", oldest.Name, err)
		}
	}
	return nil
}
