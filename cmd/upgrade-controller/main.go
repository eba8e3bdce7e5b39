// upgrade-controller takes PostgresClusters to a higher major version: one Job that checks, one that upgrades.
package main

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"howdah.dev/howdah/cmd/upgrade-controller/internal/upgrade"
	"howdah.dev/howdah/pkg/manager"
)

// version is set by the linker.
var version = "dev"

func main() {
	manager.Program{
		Name: "upgrade-controller", Short: "Runs major upgrades", Version: version,
		Cached: manager.OnlyOurs(&batchv1.Job{}, &corev1.Pod{}), PostgresImages: true, Setup: setup,
	}.Main()
}

func setup(_ context.Context, mgr ctrl.Manager, dependencies manager.Dependencies) error {
	if err := metrics.Registry.Register(upgrade.Metrics(mgr.GetClient())); err != nil {
		return err
	}
	return manager.Register(mgr, upgrade.New(dependencies), &upgrade.Policy{Dependencies: dependencies})
}
