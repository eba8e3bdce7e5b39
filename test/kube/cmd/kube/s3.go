package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"howdah.dev/test/kube/cluster"
	"howdah.dev/test/kube/s3"
)

func s3Command(options *options) *cobra.Command {
	command := &cobra.Command{
		Use:   "s3",
		Short: "Start, kill and describe the S3 servers: " + strings.Join(s3.Names(), ", "),
	}
	command.AddCommand(
		nodeless(options, "start NAME", "Start an S3 server, building it if needed, and wait until it has its bucket",
			startServer),
		nodeless(options, "stop NAME", "Kill an S3 server; its data stays",
			func(ctx context.Context, c *cluster.Cluster, name string) error { return c.StopS3(ctx, name) }),
		nodeless(options, "env NAME", "Print what a client needs, as KEY=value",
			func(_ context.Context, c *cluster.Cluster, name string) error {
				environment, err := c.S3Environment(name)
				if err == nil {
					fmt.Println(strings.Join(environment, "\n"))
				}
				return err
			}),
		programCommand(options),
	)
	return command
}

// programCommand serves those who run a server of their own, such as the benchmarks.
func programCommand(options *options) *cobra.Command {
	return &cobra.Command{
		Use:   "program NAME",
		Short: "Print where the program of an S3 server is, building it if needed",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := options.begin(anybody)
			if err != nil {
				return err
			}
			component, err := s3.Program(args[0])
			if err != nil {
				return err
			}
			folder, err := s.builder().Ensure(cmd.Context(), component)
			if err == nil {
				fmt.Println(filepath.Join(folder, args[0]))
			}
			return err
		},
	}
}

func startServer(ctx context.Context, c *cluster.Cluster, name string) error {
	unlock, err := c.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return c.StartS3(ctx, name)
}

// nodeless makes the command of a verb with the name of a server as its only argument.
func nodeless(options *options, use, short string, act action) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return onCluster(cmd.Context(), options, func(ctx context.Context, c *cluster.Cluster) error {
				return act(ctx, c, args[0])
			})
		},
	}
}
