// Package pooler keeps PgBouncer running in front of a PostgresCluster: a Deployment whose pods the agent supervises, the Service that leads
// to them, and what they need. Who is the primary, and when clients wait, is between the agents: it continues without this controller.
package pooler

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/manager"
)

// Reconciler keeps Poolers as they are wanted.
type Reconciler struct {
	manager.Dependencies
}

// New makes the reconciler of Poolers.
func New(dependencies manager.Dependencies) *Reconciler {
	return &Reconciler{Dependencies: dependencies}
}

// +kubebuilder:rbac:groups=howdah.dev,resources=poolers,verbs=get;list;watch
// +kubebuilder:rbac:groups=howdah.dev,resources=poolers/status,verbs=patch
// +kubebuilder:rbac:groups=howdah.dev,resources=poolers/finalizers,verbs=update
// +kubebuilder:rbac:groups=howdah.dev,resources=postgresclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=configmaps;services;serviceaccounts,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager watches Poolers, all that they consist of, and their clusters.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.Pooler{}).
		Owns(&appsv1.Deployment{}).Owns(&corev1.ConfigMap{}).Owns(&corev1.Service{}).Owns(&corev1.ServiceAccount{}).
		Owns(&rbacv1.Role{}).Owns(&rbacv1.RoleBinding{}).Owns(&policyv1.PodDisruptionBudget{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(ofPod)).
		Watches(&v1alpha1.PostgresCluster{}, handler.EnqueueRequestsFromMapFunc(r.poolersOf)).
		Complete(r)
}

// ofPod is the Pooler that a pod is of.
func ofPod(_ context.Context, pod client.Object) []reconcile.Request {
	name := pod.GetLabels()[v1alpha1.LabelPooler]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: pod.GetNamespace(), Name: name}}}
}

// poolersOf are the Poolers of a cluster.
func (r *Reconciler) poolersOf(ctx context.Context, cluster client.Object) []reconcile.Request {
	poolers := &v1alpha1.PoolerList{}
	if err := r.Client.List(ctx, poolers, client.InNamespace(cluster.GetNamespace())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List the Poolers of a cluster", "cluster", cluster.GetName())
		return nil
	}
	var requests []reconcile.Request
	for i := range poolers.Items {
		if poolers.Items[i].Spec.Cluster.Name == cluster.GetName() {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&poolers.Items[i])})
		}
	}
	return requests
}

// Reconcile keeps one Pooler as it is wanted. plan is the algorithm; everything else serves it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return flow.Loop[*v1alpha1.Pooler, *observed]{
		Client: r.Client, Events: r.Events, Object: &v1alpha1.Pooler{}, Summary: v1alpha1.ConditionReady,
		LogValues: func(p *v1alpha1.Pooler) []any { return []any{"pooler", p.Name, "cluster", p.Spec.Cluster.Name} },
		Observe:   r.observe, Plan: r.plan, Report: report,
	}.Reconcile(ctx, req)
}

type step = flow.Step[*observed]

// plan is the algorithm. What there is continues while the cluster or its certificate is away.
func (r *Reconciler) plan(o *observed) []step {
	if !o.pooler.DeletionTimestamp.IsZero() {
		return nil // all of it goes with its owner
	}
	steps := []step{requireCluster, awaitCertificate, requireImage, requireClientCA}
	for _, object := range []func(*observed) client.Object{account, role, binding, configMap, service, budget, r.deployment} {
		steps = append(steps, r.ensure(object))
	}
	return append(steps, awaitPods)
}
