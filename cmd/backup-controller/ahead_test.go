//go:build e2e

package main

import (
	"os"
	"testing"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"howdah.dev/howdah/cmd/backup-controller/internal/queue"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/repostore"
	"howdah.dev/howdah/pkg/workload"
)

// TestTheControllerRunsAheadOfItsTime is the controller itself, for one namespace and with a clock that is ahead. A test of what
// happens after weeks builds this binary and runs it, so the program that is installed needs no other clock.
func TestTheControllerRunsAheadOfItsTime(t *testing.T) {
	ahead, err := time.ParseDuration(os.Getenv("HOWDAH_TEST_AHEAD"))
	if err != nil {
		t.Skip("a test in test/e2e runs it")
	}
	mgr, err := manager.New(name, manager.Options{
		MetricsAddress: "0", ProbeAddress: "0", Namespaces: []string{os.Getenv("HOWDAH_TEST_NAMESPACE")}, LogLevel: "info", LogFormat: "console",
	}, cached())
	if err != nil {
		t.Fatal(err)
	}
	dependencies := manager.NewDependencies(mgr, name, manager.Settings{Agent: workload.Agent{Image: os.Getenv("HOWDAH_TEST_AGENT")}})
	dependencies.Now = func() time.Time { return time.Now().Add(ahead) }
	ctx := ctrl.SetupSignalHandler()
	if err := setup(ctx, mgr, dependencies, repostore.Opening(nil), queue.Limits{}); err != nil {
		t.Fatal(err)
	}
	if err := mgr.Start(ctx); err != nil {
		t.Fatal(err)
	}
}
