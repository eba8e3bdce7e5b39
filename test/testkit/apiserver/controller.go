//go:build integration

package apiserver

import (
	"context"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"howdah.dev/howdah/pkg/manager"
)

// Run runs the controller that setup adds to a manager, and that looks at this namespace alone, until the function that it
// returns is called, or the test ends. The context of setup ends then. Stopping one and running another is what a restart is.
func Run(t *testing.T, namespace string, setup func(context.Context, ctrl.Manager) error, change ...func(*rest.Config, *ctrl.Options)) (stop func()) {
	t.Helper()
	skip := true // the same controller runs in other tests
	server, options := Config(), ctrl.Options{
		Scheme: manager.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		Controller: ctrlconfig.Controller{SkipNameValidation: &skip},
	}
	for _, do := range change {
		do(server, &options)
	}
	mgr, err := ctrl.NewManager(server, options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := setup(ctx, mgr); err != nil {
		cancel()
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}
