// Command kube starts and stops a real Kubernetes of several nodes inside this machine, for tests.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"howdah.dev/test/kube/node"
	"howdah.dev/test/kube/nodeinit"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := newRoot().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "kube:", err)
		os.Exit(1)
	}
}

func newRoot() *cobra.Command {
	options := &options{}
	root := &cobra.Command{
		Use:           "kube",
		Short:         "A real Kubernetes of several nodes inside this machine, for tests",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	options.addTo(root)
	root.AddCommand(
		upCommand(options), downCommand(options), statusCommand(options),
		loadCommand(options), imagesCommand(options), assetsCommand(options), depsCommand(options),
		killCommand(options), startCommand(options), freezeCommand(options), thawCommand(options),
		linkCommand(options), apiServerCommand(options), execCommand(options),
		signalCommand(options), netnsCommand(options), tagCommand(options), registryCommand(options),
		s3Command(options), metricsServerCommand(options), initCommand(),
	)
	return root
}

// initCommand is not for people: the first process of a node runs it.
func initCommand() *cobra.Command {
	return &cobra.Command{
		Use:    node.InitVerb + " CONFIG",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE:   func(_ *cobra.Command, args []string) error { return nodeinit.Main(args[0]) },
	}
}
