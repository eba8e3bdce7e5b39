// Command db-controller owns everything that a PostgresCluster consists of.
package main

import (
	"context"
	"maps"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"howdah.dev/howdah/cmd/db-controller/internal/agentclient"
	"howdah.dev/howdah/cmd/db-controller/internal/cluster"
	"howdah.dev/howdah/cmd/db-controller/internal/revisions"
	"howdah.dev/howdah/cmd/db-controller/internal/rollout"
	"howdah.dev/howdah/pkg/manager"
)

const name = "db-controller"

// version is set by the linker.
var version = "dev"

func main() {
	rollouts := rollout.Settings{}
	manager.Program{
		Name: name, Short: "Manages PostgresClusters", Version: version,
		Cached: cached(), PostgresImages: true,
		Flags: func(flags *pflag.FlagSet) {
			flags.IntVar(&rollouts.MaxConcurrent, "max-concurrent-rollouts", 0, "to how many clusters changes that take down instances are rolled out at a time; 0 means unlimited")
			flags.StringSliceVar(&rollouts.CanaryNamespaces, "canary-namespaces", nil, "namespaces whose canaries run in a new image before the clusters of all namespaces")
		},
		Setup: func(_ context.Context, mgr ctrl.Manager, dependencies manager.Dependencies) error {
			return setup(mgr, dependencies, rollouts)
		},
	}.Main()
}

// cached is what is kept in memory of the kinds that others have objects of, too.
func cached() map[client.Object]cache.ByObject {
	options := cluster.CacheOptions()
	maps.Copy(options, revisions.CacheOptions())
	return options
}

func setup(mgr ctrl.Manager, dependencies manager.Dependencies, rollouts rollout.Settings) error {
	clusters := cluster.New(dependencies, agentclient.New(dependencies.Now), rollouts)
	for _, collector := range []prometheus.Collector{cluster.Metrics(mgr.GetClient()), clusters.RolloutMetrics()} {
		if err := metrics.Registry.Register(collector); err != nil {
			return err
		}
	}
	return manager.Register(mgr, clusters, &revisions.Reconciler{Client: dependencies.Client})
}
