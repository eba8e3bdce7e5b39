// Command db-controller owns everything that a PostgresCluster is made of.
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"

	"howdah.dev/howdah/cmd/db-controller/internal/agents"
	"howdah.dev/howdah/cmd/db-controller/internal/cluster"
	"howdah.dev/howdah/pkg/manager"
)

const name = "db-controller"

// version is set by the build.
var version = "development"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	options, agentImage, pairs := manager.Options{}, "", []string{}
	flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
	options.AddFlags(flags)
	flags.StringVar(&agentImage, "agent-image", "", "image of the agent that is copied into database pods and Jobs")
	flags.StringSliceVar(&pairs, "postgres-images", nil, "images of PostgreSQL by major version, as in 17=IMAGE,18=IMAGE")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if agentImage == "" {
		return fmt.Errorf("--agent-image is missing")
	}
	images, err := manager.ParseImages(pairs)
	if err != nil {
		return err
	}
	mgr, err := manager.New(name, options, cluster.CacheOptions())
	if err != nil {
		return err
	}
	reconciler := &cluster.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder(name),
		Agents: agents.New(time.Now), Now: time.Now, AgentImage: agentImage, Images: images,
	}
	if err := reconciler.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up controller: %w", err)
	}
	ctrl.Log.Info("Starting", "version", version)
	return mgr.Start(ctrl.SetupSignalHandler())
}
