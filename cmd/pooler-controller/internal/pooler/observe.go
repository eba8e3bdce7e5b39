package pooler

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/protocol"
)

// observed is everything that a pass has seen.
type observed struct {
	pooler  *v1alpha1.Pooler
	image   string                    // of PgBouncer; empty: there is none
	cluster *v1alpha1.PostgresCluster // nil: there is none of that name
	// entitled are the names of the Poolers that the certificate of the cluster is to be for, as long as it isn't for this one.
	entitled []string
	// live objects of the pooler's names by kind, whoever they belong to, as far as Howdah made them.
	live map[string]client.Object
	pods []corev1.Pod
}

// kinds of which a pooler has one object, all of one name.
func kinds() map[string]client.Object {
	return map[string]client.Object{
		"Deployment": &appsv1.Deployment{}, "ConfigMap": &corev1.ConfigMap{}, "Service": &corev1.Service{}, "ServiceAccount": &corev1.ServiceAccount{},
		"Role": &rbacv1.Role{}, "RoleBinding": &rbacv1.RoleBinding{}, "PodDisruptionBudget": &policyv1.PodDisruptionBudget{},
	}
}

// observe does every read of a pass.
func (r *Reconciler) observe(ctx context.Context, pooler *v1alpha1.Pooler) (*observed, error) {
	o := &observed{pooler: pooler, image: pooler.Spec.Image, live: map[string]client.Object{}}
	if o.image == "" {
		o.image = r.PgBouncer
	}
	cluster := &v1alpha1.PostgresCluster{}
	switch err := r.Client.Get(ctx, client.ObjectKey{Namespace: pooler.Namespace, Name: pooler.Spec.Cluster.Name}, cluster); {
	case err == nil:
		o.cluster = cluster
	case !apierrors.IsNotFound(err):
		return o, fmt.Errorf("read PostgresCluster %s: %w", pooler.Spec.Cluster.Name, err)
	}
	if o.cluster != nil && !protocol.PoolerAdmitted(o.cluster, pooler) {
		all := &v1alpha1.PoolerList{}
		if err := r.Client.List(ctx, all, client.InNamespace(pooler.Namespace)); err != nil {
			return o, fmt.Errorf("list Poolers: %w", err)
		}
		o.entitled = protocol.PoolersOf(o.cluster, all.Items)
	}
	key := client.ObjectKey{Namespace: pooler.Namespace, Name: protocol.PoolerName(pooler.Name)}
	for kind, object := range kinds() {
		switch err := r.Client.Get(ctx, key, object); {
		case err == nil:
			o.live[kind] = object
		case !apierrors.IsNotFound(err):
			return o, fmt.Errorf("read %s %s: %w", kind, key.Name, err)
		}
	}
	pods := &corev1.PodList{}
	if err := r.Client.List(ctx, pods, client.InNamespace(pooler.Namespace), client.MatchingLabels(selector(pooler))); err != nil {
		return o, fmt.Errorf("list pods: %w", err)
	}
	manager.SortByName(pods.Items)
	o.pods = pods.Items
	return o, nil
}
