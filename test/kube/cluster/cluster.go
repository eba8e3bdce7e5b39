// Package cluster starts and stops whole test clusters.
package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"howdah.dev/test/kube/binaries"
	"howdah.dev/test/kube/cgroup"
	"howdah.dev/test/kube/command"
	"howdah.dev/test/kube/imagestore"
	"howdah.dev/test/kube/lockfile"
	"howdah.dev/test/kube/node"
	"howdah.dev/test/kube/progress"
	"howdah.dev/test/kube/topology"
)

// Cluster is a test cluster on this machine, whether it runs or not.
type Cluster struct {
	topology.Cluster
	Cgroups cgroup.System
	Builder binaries.Builder
	Report  *progress.Reporter
}

// ErrNotUp means that there is no cluster of that name.
var ErrNotUp = errors.New("the cluster is not up: run `kube up`")

// Open finds the cluster that was started under a name, or ErrNotUp.
func Open(name, cache string, builder binaries.Builder, report *progress.Reporter) (*Cluster, error) {
	found, err := topology.New(name, cache, topology.Shape{Workers: 1, IP: topology.IPv4})
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(found.Path("cluster.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotUp
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(content, &found); err != nil {
		return nil, fmt.Errorf("%s: %w", found.Path("cluster.json"), err)
	}
	return New(found, builder, report)
}

// New is a cluster that may not exist yet.
func New(described topology.Cluster, builder binaries.Builder, report *progress.Reporter) (*Cluster, error) {
	cgroups, err := cgroup.Detect()
	if err != nil {
		return nil, err
	}
	return &Cluster{Cluster: described, Cgroups: cgroups, Builder: builder, Report: report}, nil
}

// save notes the cluster's shape for later calls.
func (c *Cluster) save() error {
	content, err := json.MarshalIndent(c.Cluster, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(c.Path("cluster.json"), content, 0o644)
}

// programs returns the folder of all that runs on the nodes, which it builds if need be.
func (c *Cluster) programs(ctx context.Context) (string, error) {
	components, err := binaries.ForNodes(c.Kubernetes)
	if err != nil {
		return "", err
	}
	return c.Builder.Ensure(ctx, components...)
}

// nodes of the cluster.
func (c *Cluster) nodes() []node.Node {
	var nodes []node.Node
	for _, n := range c.Nodes() {
		nodes = append(nodes, node.Node{Node: n, Cluster: c.Cluster, Cgroups: c.Cgroups})
	}
	return nodes
}

// Node finds a node by its name.
func (c *Cluster) Node(name string) (node.Node, error) {
	found, err := c.Cluster.Node(name)
	return node.Node{Node: found, Cluster: c.Cluster, Cgroups: c.Cgroups}, err
}

func (c *Cluster) template() imagestore.Template {
	return imagestore.Template{Folder: filepath.Join(c.Cache, "template"), Bin: c.Bin}
}

// AdminKubeconfig is the kubeconfig that may do everything.
func (c *Cluster) AdminKubeconfig() string { return node.Kubeconfig(c.Cluster, "admin") }

// kubectl runs the cluster's own kubectl.
func (c *Cluster) kubectl(ctx context.Context, args ...string) (string, error) {
	return c.kubectlWith(ctx, command.Command{Args: args})
}

func (c *Cluster) kubectlWith(ctx context.Context, cmd command.Command) (string, error) {
	cmd.Args = append([]string{filepath.Join(c.Bin, "kubectl"), "--kubeconfig", c.AdminKubeconfig()}, cmd.Args...)
	return cmd.Output(ctx)
}

// Lock keeps other calls of this program away from the cluster while it changes as a whole.
func (c *Cluster) Lock(ctx context.Context) (unlock func(), err error) {
	return lockfile.Acquire(ctx, filepath.Join(c.Cache, "locks", c.Name), lockfile.Exclusive, func() {
		c.Report.Say("another call works on cluster %s: waiting for it to end …", c.Name)
	})
}
