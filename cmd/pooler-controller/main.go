// pooler-controller runs PgBouncer in front of PostgresClusters.
package main

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"howdah.dev/howdah/cmd/pooler-controller/internal/pooler"
	"howdah.dev/howdah/pkg/manager"
)

// version is set by the linker.
var version = "dev"

func main() {
	manager.Program{
		Name: "pooler-controller", Short: "Runs PgBouncer in front of PostgresClusters", Version: version,
		Cached: manager.OnlyOurs(&appsv1.Deployment{}, &corev1.Pod{}, &corev1.ConfigMap{}, &corev1.Service{}, &corev1.ServiceAccount{},
			&rbacv1.Role{}, &rbacv1.RoleBinding{}, &policyv1.PodDisruptionBudget{}),
		PgBouncerImage: true, Setup: setup,
	}.Main()
}

func setup(_ context.Context, mgr ctrl.Manager, dependencies manager.Dependencies) error {
	if err := metrics.Registry.Register(pooler.Metrics(mgr.GetClient())); err != nil {
		return err
	}
	return manager.Register(mgr, pooler.New(dependencies))
}
