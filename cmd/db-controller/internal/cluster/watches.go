package cluster

import (
	"context"
	"reflect"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"howdah.dev/apis/v1alpha1"
)

// workers is how many clusters are looked at at once.
const workers = 8

// owned kinds: a change of one of them wakes the cluster that owns it.
func owned() []client.Object {
	return []client.Object{
		&corev1.ConfigMap{}, &corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}, &corev1.Service{},
		&discoveryv1.EndpointSlice{}, &policyv1.PodDisruptionBudget{}, &networkingv1.NetworkPolicy{}, &appsv1.StatefulSet{}, &batchv1.Job{},
	}
}

// labelled kinds have no owner that is a cluster; their label says whose they are.
func labelled() []client.Object {
	return []client.Object{&corev1.Pod{}, &corev1.PersistentVolumeClaim{}}
}

// CacheOptions keep only what Howdah has made in memory.
func CacheOptions() map[client.Object]cache.ByObject {
	ours := labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy})
	options := map[client.Object]cache.ByObject{}
	for _, kind := range append(owned(), labelled()...) {
		options[kind] = cache.ByObject{Label: ours}
	}
	options[&v1alpha1.PostgresCluster{}] = cache.ByObject{Transform: keepScaleFields}
	for kind, by := range options {
		if _, is := kind.(*corev1.Pod); is {
			by.Transform = slim
			options[kind] = by
		}
	}
	return options
}

// slim drops what is large in a pod and read by nobody here. Pods of a cache are patched, and never updated as a whole.
func slim(object any) (any, error) {
	pod, is := object.(*corev1.Pod)
	if !is {
		return object, nil // a tombstone
	}
	pod.ManagedFields = nil
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			c := &containers[i]
			c.Command, c.Args, c.Env, c.EnvFrom, c.Ports, c.SecurityContext = nil, nil, nil, nil, nil, nil
			c.LivenessProbe, c.ReadinessProbe, c.StartupProbe, c.Lifecycle = nil, nil, nil, nil
		}
	}
	return pod, nil
}

// keepScaleFields keeps of the managed fields of an object only who has scaled it. Objects of a cache are patched, and never updated as a whole.
func keepScaleFields(object any) (any, error) {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return object, nil //nolint:nilerr // a tombstone has none
	}
	accessor.SetManagedFields(slices.DeleteFunc(accessor.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool { return f.Subresource != "scale" }))
	return object, nil
}

// SetupWithManager starts the controller with the manager.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	b := ctrl.NewControllerManagedBy(mgr).Named("postgrescluster").For(&v1alpha1.PostgresCluster{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers})
	for _, kind := range owned() {
		b = b.Owns(kind)
	}
	for _, watched := range mapped() {
		b = b.Watches(watched.kind, handler.EnqueueRequestsFromMapFunc(watched.clusters))
	}
	return b.
		Watches(&v1alpha1.BackupRepository{}, handler.EnqueueRequestsFromMapFunc(r.ofRepository)).
		Watches(&v1alpha1.PostgresCluster{}, unreadyFirst()).
		WatchesRawSource(source.Func(r.wakeByOthers)).
		Complete(r)
}

// watched kind, and whom a change of an object wakes.
type watched struct {
	kind     client.Object
	clusters handler.MapFunc
}

// mapped kinds tell by what they say whom they wake.
func mapped() []watched {
	all := []watched{
		{&v1alpha1.Restore{}, ofRestore}, {&v1alpha1.Upgrade{}, ofUpgrade}, {&v1alpha1.Pooler{}, ofPooler},
		{&v1alpha1.FailoverDrill{}, ofFailoverDrill}, {&v1alpha1.Backup{}, ofBackup},
	}
	for _, kind := range labelled() {
		all = append(all, watched{kind, byLabel})
	}
	return all
}

// Woken are the PostgresClusters that a change of an object wakes, as SetupWithManager has it, but for those of a BackupRepository.
func Woken(ctx context.Context, object client.Object) []reconcile.Request {
	for _, watched := range mapped() {
		if reflect.TypeOf(watched.kind) == reflect.TypeOf(object) {
			return watched.clusters(ctx, object)
		}
	}
	if _, is := object.(*v1alpha1.PostgresCluster); is {
		return request(object.GetNamespace(), object.GetName())
	}
	owns := slices.ContainsFunc(owned(), func(kind client.Object) bool { return reflect.TypeOf(kind) == reflect.TypeOf(object) })
	if owner := metav1.GetControllerOf(object); owns && owner != nil && owner.Kind == v1alpha1.KindPostgresCluster {
		return request(object.GetNamespace(), owner.Name)
	}
	return nil
}

func request(namespace, name string) []reconcile.Request {
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}}
}

func byLabel(_ context.Context, object client.Object) []reconcile.Request {
	return request(object.GetNamespace(), object.GetLabels()[v1alpha1.LabelCluster])
}

func ofRestore(_ context.Context, object client.Object) []reconcile.Request {
	return request(object.GetNamespace(), object.(*v1alpha1.Restore).Spec.Destination.ClusterName())
}

func ofUpgrade(_ context.Context, object client.Object) []reconcile.Request {
	return request(object.GetNamespace(), object.(*v1alpha1.Upgrade).Spec.Cluster.Name)
}

func ofPooler(_ context.Context, object client.Object) []reconcile.Request {
	return request(object.GetNamespace(), object.(*v1alpha1.Pooler).Spec.Cluster.Name)
}

func ofFailoverDrill(_ context.Context, object client.Object) []reconcile.Request {
	return request(object.GetNamespace(), object.(*v1alpha1.FailoverDrill).Spec.Cluster.Name)
}

// ofBackup wakes a cluster whose final backup, or first one after a promotion, this is.
func ofBackup(_ context.Context, object client.Object) []reconcile.Request {
	by := object.(*v1alpha1.Backup).Spec.RequestedBy
	if by == nil || by.Kind != v1alpha1.KindPostgresCluster {
		return nil
	}
	return request(object.GetNamespace(), by.Name)
}

// ofRepository wakes the clusters that archive there, or follow what is archived there.
func (r *Reconciler) ofRepository(ctx context.Context, object client.Object) []reconcile.Request {
	clusters := &v1alpha1.PostgresClusterList{}
	if err := r.Client.List(ctx, clusters, client.InNamespace(object.GetNamespace())); err != nil {
		log.FromContext(ctx).Error(err, "Can't list the clusters of a repository")
		return nil
	}
	var requests []reconcile.Request
	for i := range clusters.Items {
		spec := &clusters.Items[i].Spec
		archives := spec.Archive != nil && spec.Archive.Repository.Name == object.GetName()
		if archives || spec.Standby != nil && spec.Standby.Source.Repository.Name == object.GetName() {
			requests = append(requests, request(object.GetNamespace(), clusters.Items[i].Name)...)
		}
	}
	return requests
}
