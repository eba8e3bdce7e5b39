package cluster

import (
	"context"
	"fmt"
	"io"

	"howdah.dev/test/kube/network"
	"howdah.dev/test/kube/node"
)

// PrintStatus writes what a person wants to know at a glance.
func (c *Cluster) PrintStatus(ctx context.Context, out io.Writer) {
	for _, n := range c.nodes() {
		fmt.Fprintf(out, "%-4s %-14s %-8s link %s\n", n.Name, n.IP(), c.power(n), c.link(ctx, n))
	}
	c.printS3(out)
	for _, what := range []string{"nodes", "pods"} {
		listing, err := c.kubectl(ctx, "get", what, "-A", "-o", "wide", "--request-timeout=5s")
		if err != nil {
			fmt.Fprintf(out, "\nthe API server doesn't respond\n")
			return
		}
		fmt.Fprintf(out, "\n%s", listing)
	}
}

func (c *Cluster) power(n node.Node) string {
	if _, err := n.Init(); err != nil {
		return "down"
	}
	if c.Cgroups.IsFrozen(n.Group()) {
		return "frozen"
	}
	return "running"
}

func (c *Cluster) link(ctx context.Context, n node.Node) string {
	if network.LinkIsUp(ctx, c.Cluster, n.Name) {
		return "up"
	}
	return "down"
}
