// drill-controller rehearses failures of running PostgresClusters, and measures what clients notice.
package main

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"howdah.dev/howdah/cmd/drill-controller/internal/drillschedule"
	"howdah.dev/howdah/cmd/drill-controller/internal/failoverdrill"
	"howdah.dev/howdah/pkg/manager"
)

// version is set by the linker.
var version = "dev"

func main() {
	manager.Program{
		Name: "drill-controller", Short: "Rehearses failures of running PostgresClusters", Version: version,
		Cached: manager.OnlyOurs(&batchv1.Job{}, &corev1.Pod{}), Setup: setup,
	}.Main()
}

func setup(_ context.Context, mgr ctrl.Manager, dependencies manager.Dependencies) error {
	if err := metrics.Registry.Register(failoverdrill.Metrics(mgr.GetClient())); err != nil {
		return err
	}
	if err := metrics.Registry.Register(drillschedule.Metrics(mgr.GetClient())); err != nil {
		return err
	}
	return manager.Register(mgr, failoverdrill.New(dependencies), drillschedule.New(dependencies))
}
