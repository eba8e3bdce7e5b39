package main

import (
	"context"
	"fmt"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"howdah.dev/test/kube/cluster"
)

// action is a verb on one node of the running cluster.
type action func(ctx context.Context, c *cluster.Cluster, node string) error

// nodeCommand makes the command of a verb with a node as its only argument.
func nodeCommand(options *options, verb, short string, act action) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " NODE",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return onCluster(cmd.Context(), options, func(ctx context.Context, c *cluster.Cluster) error {
				return act(ctx, c, args[0])
			})
		},
	}
}

// onCluster calls act with the running cluster.
func onCluster(ctx context.Context, options *options, act func(context.Context, *cluster.Cluster) error) error {
	s, err := options.begin(root)
	if err != nil {
		return err
	}
	c, err := s.open()
	if err != nil {
		return err
	}
	return act(ctx, c)
}

func killCommand(options *options) *cobra.Command {
	return nodeCommand(options, "kill-node", "Cut a node's power: everything on it dies at once",
		func(ctx context.Context, c *cluster.Cluster, node string) error { return c.KillNode(ctx, node) })
}

func startCommand(options *options) *cobra.Command {
	return nodeCommand(options, "start-node", "Start a killed node, and wait until it is ready",
		func(ctx context.Context, c *cluster.Cluster, node string) error { return c.StartNode(ctx, node) })
}

func freezeCommand(options *options) *cobra.Command {
	return nodeCommand(options, "freeze", "Stop every process of a node where it is",
		func(ctx context.Context, c *cluster.Cluster, node string) error { return c.Freeze(ctx, node) })
}

func thawCommand(options *options) *cobra.Command {
	return nodeCommand(options, "thaw", "Let a frozen node continue",
		func(ctx context.Context, c *cluster.Cluster, node string) error { return c.Thaw(ctx, node) })
}

func linkCommand(options *options) *cobra.Command {
	return &cobra.Command{
		Use:       "link NODE down|up",
		Short:     "Cut or mend a node's network cable",
		Args:      cobra.ExactArgs(2),
		ValidArgs: []string{"down", "up"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[1] != "up" && args[1] != "down" {
				return fmt.Errorf("%q: write down to cut the link, up to mend it", args[1])
			}
			return onCluster(cmd.Context(), options, func(ctx context.Context, c *cluster.Cluster) error {
				return c.SetLink(ctx, args[0], args[1] == "up")
			})
		},
	}
}

func apiServerCommand(options *options) *cobra.Command {
	return &cobra.Command{
		Use:   "apiserver stop|start",
		Short: "Kill the API server, or start it and wait until it answers",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return onCluster(cmd.Context(), options, func(ctx context.Context, c *cluster.Cluster) error {
				switch args[0] {
				case "stop":
					return c.StopAPIServer(ctx)
				case "start":
					return c.StartAPIServer(ctx)
				}
				return fmt.Errorf("%q: write stop or start", args[0])
			})
		},
	}
}

func execCommand(options *options) *cobra.Command {
	command := &cobra.Command{
		Use:   "exec NODE COMMAND [ARGUMENT...]",
		Short: "Run a command inside of a node's namespaces",
		Args:  cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return onCluster(cmd.Context(), options, func(_ context.Context, c *cluster.Cluster) error {
				return enter(c, args[0], args[1:])
			})
		},
	}
	command.Flags().SetInterspersed(false)
	return command
}

// enter becomes the command, so that its exit code, signals and terminal are its own.
func enter(c *cluster.Cluster, name string, args []string) error {
	node, err := c.Node(name)
	if err != nil {
		return err
	}
	line, err := node.EnterArgs(args...)
	if err != nil {
		return err
	}
	const program = "/usr/bin/nsenter"
	if err := os.Setenv("PATH", c.Bin+":"+os.Getenv("PATH")); err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", program, syscall.Exec(program, line, os.Environ()))
}

func statusCommand(options *options) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Say what runs and what doesn't; ends with an error when the cluster isn't well",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return onCluster(cmd.Context(), options, func(ctx context.Context, c *cluster.Cluster) error {
				c.PrintStatus(ctx, os.Stdout)
				return c.Trouble(ctx)
			})
		},
	}
}
