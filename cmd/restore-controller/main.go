// restore-controller brings clusters back to a point in time: it plans in the bucket, and one Job for each Restore works.
package main

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"howdah.dev/howdah/cmd/restore-controller/internal/restore"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/repostore"
)

// version is set by the linker.
var version = "dev"

func main() {
	manager.Program{
		Name: "restore-controller", Short: "Restores PostgresClusters to a point in time", Version: version,
		Cached: manager.OnlyOurs(&batchv1.Job{}, &corev1.Pod{}), PostgresImages: true, CloudIdentity: true, Setup: setup,
	}.Main()
}

func setup(ctx context.Context, mgr ctrl.Manager, dependencies manager.Dependencies) error {
	if err := metrics.Registry.Register(restore.Metrics(mgr.GetClient())); err != nil {
		return err
	}
	return manager.Register(mgr, restore.New(ctx, dependencies, repostore.Opening(dependencies.Grants)))
}
