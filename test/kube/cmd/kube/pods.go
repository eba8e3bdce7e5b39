package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"howdah.dev/test/kube/cluster"
	"howdah.dev/test/kube/network"
)

func signalCommand(options *options) *cobra.Command {
	var program string
	command := &cobra.Command{
		Use:   "signal NAMESPACE/POD SIGNAL",
		Short: "Send a signal (KILL, STOP, CONT, …) to every process of a pod; needs no API server",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			signal := unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(args[1]), "SIG"))
			if signal == 0 {
				return fmt.Errorf("%q is not a signal: write KILL, STOP, CONT or another one", args[1])
			}
			return onCluster(cmd.Context(), options, func(_ context.Context, c *cluster.Cluster) error {
				return c.Signal(args[0], program, signal)
			})
		},
	}
	command.Flags().StringVar(&program, "program", "", "only to the first process of this program, as postgres: the one that forked the others")
	return command
}

func netnsCommand(options *options) *cobra.Command {
	return nodeCommand(options, "netns", "Print the file of a node's network namespace, for a client that connects from inside of it",
		func(_ context.Context, c *cluster.Cluster, name string) error {
			node, err := c.Node(name)
			if err == nil {
				fmt.Println(network.NamespacePath(node.Group()))
			}
			return err
		})
}

func tagCommand(options *options) *cobra.Command {
	return &cobra.Command{
		Use:   "tag IMAGE NAME",
		Short: "Give an image that is on the nodes another name, on every one that runs",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return onCluster(cmd.Context(), options, func(ctx context.Context, c *cluster.Cluster) error {
				return c.Tag(ctx, args[0], args[1])
			})
		},
	}
}
