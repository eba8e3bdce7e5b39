// Command db-controller owns everything that a PostgresCluster consists of.
package main

import (
	"context"
	"maps"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"howdah.dev/howdah/cmd/db-controller/internal/agentclient"
	"howdah.dev/howdah/cmd/db-controller/internal/cluster"
	"howdah.dev/howdah/cmd/db-controller/internal/revisions"
	"howdah.dev/howdah/pkg/manager"
)

const name = "db-controller"

// version is set by the linker.
var version = "dev"

func main() {
	manager.Program{
		Name: name, Short: "Manages PostgresClusters", Version: version,
		Cached: cached(), PostgresImages: true, Setup: setup,
	}.Main()
}

// cached is what is kept in memory of the kinds that others have objects of, too.
func cached() map[client.Object]cache.ByObject {
	options := cluster.CacheOptions()
	maps.Copy(options, revisions.CacheOptions())
	return options
}

func setup(_ context.Context, mgr ctrl.Manager, dependencies manager.Dependencies) error {
	if err := metrics.Registry.Register(cluster.Metrics(mgr.GetClient())); err != nil {
		return err
	}
	return manager.Register(mgr, cluster.New(dependencies, agentclient.New(dependencies.Now)), &revisions.Reconciler{Client: dependencies.Client})
}
