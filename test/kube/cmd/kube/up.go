package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"howdah.dev/test/kube/binaries"
	"howdah.dev/test/kube/cluster"
	"howdah.dev/test/kube/pki"
	"howdah.dev/test/kube/preflight"
	"howdah.dev/test/kube/s3"
	"howdah.dev/test/kube/topology"
)

func upCommand(options *options) *cobra.Command {
	var (
		shape      topology.Shape
		kubeconfig string
		servers    []string
	)
	command := &cobra.Command{
		Use:   "up",
		Short: "Start the cluster, from whatever state the machine is in",
		Long: `Start the cluster, and write a kubeconfig for it. What a killed run left is removed first; a cluster
that is up and well is left alone. The first run builds Kubernetes, which takes several minutes.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := options.begin(root)
			if err != nil {
				return err
			}
			if kubeconfig == "" {
				kubeconfig = s.defaultKubeconfig()
			}
			wanted, err := s.described(shape)
			if err != nil {
				return err
			}
			return s.up(cmd.Context(), wanted, servers, kubeconfig)
		},
	}
	command.Flags().IntVar(&shape.Workers, "workers", 3, "number of worker nodes")
	command.Flags().StringVar((*string)(&shape.IP), "ip", string(topology.IPv4), "addresses of nodes, pods and Services: IPv4, IPv6 or DualStack")
	command.Flags().StringVar(&shape.Kubernetes, "kubernetes", "", "version of Kubernetes: "+strings.Join(binaries.KubernetesVersions(), ", ")+" (default: the newest)")
	command.Flags().StringSliceVar(&servers, "s3", nil, "S3 servers to run beside the cluster: minio, versitygw")
	command.Flags().StringVar(&kubeconfig, "kubeconfig", "", "file to write the kubeconfig to (default: build/kubeconfig in the repository)")
	return command
}

func (s session) up(ctx context.Context, wanted *cluster.Cluster, servers []string, kubeconfig string) error {
	if err := checkServers(servers); err != nil {
		return err
	}
	unlock, err := wanted.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	c, err := s.running(ctx, wanted)
	if err != nil {
		return err
	}
	if c == nil {
		if err := s.boot(ctx, wanted); err != nil {
			return err
		}
		c = wanted
	}
	for _, server := range servers {
		if err := c.StartS3(ctx, server); err != nil {
			return err
		}
	}
	if err := copyKubeconfig(c, kubeconfig); err != nil {
		return err
	}
	s.report.Say("cluster %s is up: export KUBECONFIG=%s", s.name, kubeconfig)
	return nil
}

// running returns the cluster if it is up, well and of the wanted shape.
func (s session) running(ctx context.Context, wanted *cluster.Cluster) (*cluster.Cluster, error) {
	c, err := s.open()
	if errors.Is(err, cluster.ErrNotUp) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if trouble := c.Trouble(ctx); trouble != nil {
		s.report.Say("cluster %s is not well (%v): starting it anew", s.name, trouble)
		return nil, nil
	}
	if c.Shape != wanted.Shape {
		return nil, fmt.Errorf("cluster %s is up as %v, not as %v: run `kube down` first", s.name, c.Shape, wanted.Shape)
	}
	s.report.Say("cluster %s is already up and well", s.name)
	return c, nil
}

// boot starts a cluster on a machine that may hold remains of an earlier one.
func (s session) boot(ctx context.Context, c *cluster.Cluster) error {
	if !c.IsClean() {
		if err := s.report.Step(ctx, "remove what an earlier run left", c.Down); err != nil {
			return err
		}
	}
	if err := preflight.Check(ctx, s.cache, s.report); err != nil {
		return err
	}
	if err := c.Prepare(ctx); err != nil {
		return err
	}
	return c.Up(ctx)
}

// checkServers refuses a name that is no server before anything is done for the others.
func checkServers(names []string) error {
	for _, name := range names {
		if !slices.Contains(s3.Names(), name) {
			return fmt.Errorf("no S3 server %q: write %s", name, strings.Join(s3.Names(), " or "))
		}
	}
	return nil
}

func copyKubeconfig(c *cluster.Cluster, target string) error {
	content, err := os.ReadFile(c.AdminKubeconfig())
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	return pki.SaveKubeconfig(target, content)
}

func downCommand(options *options) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Remove the cluster and everything of it; the cache of programs and images stays",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := options.begin(root)
			if err != nil {
				return err
			}
			c, err := s.described(topology.Shape{Workers: 1, IP: topology.IPv4})
			if err != nil {
				return err
			}
			unlock, err := c.Lock(cmd.Context())
			if err != nil {
				return err
			}
			defer unlock()
			return s.report.Step(cmd.Context(), "remove cluster "+s.name, c.Down)
		},
	}
}

func metricsServerCommand(options *options) *cobra.Command {
	return &cobra.Command{
		Use:   "metrics-server",
		Short: "Give the cluster a metrics-server, which HorizontalPodAutoscalers need, building it if needed",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return onCluster(cmd.Context(), options, func(ctx context.Context, c *cluster.Cluster) error {
				return c.StartMetricsServer(ctx)
			})
		},
	}
}
