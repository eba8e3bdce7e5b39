// Command db-controller owns everything that a PostgresCluster consists of.
package main

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"howdah.dev/howdah/cmd/db-controller/internal/agents"
	"howdah.dev/howdah/cmd/db-controller/internal/cluster"
	"howdah.dev/howdah/pkg/manager"
)

const name = "db-controller"

// version is set by the linker.
var version = "dev"

func main() {
	manager.Program{
		Name: name, Short: "Keeps PostgresClusters as they are wanted", Version: version,
		Cached: cluster.CacheOptions(), PostgresImages: true, Setup: setup,
	}.Main()
}

func setup(_ context.Context, mgr ctrl.Manager, dependencies manager.Dependencies) error {
	if err := metrics.Registry.Register(cluster.Metrics(mgr.GetClient())); err != nil {
		return err
	}
	return manager.Register(mgr, cluster.New(dependencies, agents.New(dependencies.Now)))
}
