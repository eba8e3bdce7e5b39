package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"howdah.dev/test/kube/binaries"
	"howdah.dev/test/kube/cluster"
	"howdah.dev/test/kube/preflight"
	"howdah.dev/test/kube/topology"
)

func loadCommand(options *options) *cobra.Command {
	return &cobra.Command{
		Use:   "load ARCHIVE...",
		Short: "Put images (OCI archives) on every node, and on those of later clusters",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := options.begin(root)
			if err != nil {
				return err
			}
			return s.load(cmd.Context(), args)
		},
	}
}

// load fills the template, and the nodes if there are any.
func (s session) load(ctx context.Context, archives []string) error {
	c, err := s.open()
	if errors.Is(err, cluster.ErrNotUp) {
		if c, err = s.described(topology.Shape{Workers: 1, IP: topology.IPv4}); err != nil {
			return err
		}
		return c.LoadTemplate(ctx, archives)
	}
	if err != nil {
		return err
	}
	return c.Load(ctx, archives)
}

func imagesCommand(options *options) *cobra.Command {
	return &cobra.Command{
		Use:   "images [VERSION|pgbouncer...]",
		Short: "Build the images of PostgreSQL and PgBouncer from Debian packages, load them, and print their archives",
		RunE: func(cmd *cobra.Command, majors []string) error {
			s, err := options.begin(root)
			if err != nil {
				return err
			}
			archives, err := s.postgresImages(cmd.Context(), majors)
			if err != nil {
				return err
			}
			for _, archive := range archives {
				fmt.Println(archive)
			}
			return s.load(cmd.Context(), archives)
		},
	}
}

func assetsCommand(options *options) *cobra.Command {
	return &cobra.Command{
		Use:   "assets",
		Short: "Print the folder with etcd, kube-apiserver and kubectl (KUBEBUILDER_ASSETS), building them if needed",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := options.begin(anybody)
			if err != nil {
				return err
			}
			folder, err := s.builder().Ensure(cmd.Context(), binaries.ForTests()...)
			if err != nil {
				return err
			}
			fmt.Println(folder)
			return nil
		},
	}
}

func depsCommand(options *options) *cobra.Command {
	return &cobra.Command{
		Use:   "deps",
		Short: "Install the Debian packages that are missing (`up` does it too)",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := options.begin(root)
			if err != nil {
				return err
			}
			return preflight.EnsurePackages(cmd.Context(), s.report)
		},
	}
}

func registryCommand(options *options) *cobra.Command {
	return &cobra.Command{
		Use:   "registry",
		Short: "Print the address on this machine where the nodes look for images of a registry over plain HTTP; whoever wants one listens there",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return onCluster(cmd.Context(), options, func(_ context.Context, c *cluster.Cluster) error {
				fmt.Println(c.Registry())
				return nil
			})
		},
	}
}
