package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"howdah.dev/test/kube/command"
	"howdah.dev/test/kube/imagestore"
	"howdah.dev/test/kube/network"
	"howdah.dev/test/kube/node"
	"howdah.dev/test/kube/nodeinit"
)

// KillNode cuts a node's power.
func (c *Cluster) KillNode(ctx context.Context, name string) error {
	n, err := c.Node(name)
	if err != nil {
		return err
	}
	return n.Kill(ctx)
}

// StartNode starts a node that was killed, gives it the images that were loaded meanwhile, and returns when it
// is ready.
func (c *Cluster) StartNode(ctx context.Context, name string) error {
	n, err := c.Node(name)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := n.Start(ctx); err != nil {
		return err
	}
	if n.IsControlPlane() {
		if err := c.awaitAPIServer(ctx); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	if err := c.catchUp(ctx, n); err != nil {
		return err
	}
	return c.awaitNode(ctx, name, began)
}

// awaitNode waits for a sign of life that is younger than the start: the API server continues calling a node ready
// for a while after it died.
func (c *Cluster) awaitNode(ctx context.Context, name string, since time.Time) error {
	const lease = "jsonpath={.spec.renewTime}"
	const ready = `jsonpath={.status.conditions[?(@.type=="Ready")].status}`
	return command.Until(ctx, probeEvery, name+" to be ready", func(ctx context.Context) (bool, error) {
		renewed, err := c.kubectl(ctx, "-n", "kube-node-lease", "get", "lease", name, "-o", lease)
		if err != nil {
			return false, nil
		}
		at, err := time.Parse(time.RFC3339Nano, renewed)
		if err != nil || at.Before(since) {
			return false, nil
		}
		status, err := c.kubectl(ctx, "get", "node", name, "-o", ready)
		return err == nil && status == "True", nil
	})
}

// Freeze stops a node's processes where they are.
func (c *Cluster) Freeze(ctx context.Context, name string) error {
	n, err := c.Node(name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return n.Freeze(ctx)
}

// Thaw lets a frozen node continue, and gives it the images that were loaded meanwhile.
func (c *Cluster) Thaw(ctx context.Context, name string) error {
	n, err := c.Node(name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	if err := n.Thaw(ctx); err != nil {
		return err
	}
	return c.catchUp(ctx, n)
}

// SetLink cuts or mends a node's cable.
func (c *Cluster) SetLink(ctx context.Context, name string, up bool) error {
	if _, err := c.Node(name); err != nil {
		return err
	}
	return network.SetLink(ctx, c.Cluster, name, up)
}

// StopAPIServer kills the API server; it stays away until StartAPIServer.
func (c *Cluster) StopAPIServer(ctx context.Context) error {
	n, err := c.Node("cp")
	if err != nil {
		return err
	}
	return n.Ask(ctx, nodeinit.VerbStop, node.APIServer)
}

// StartAPIServer starts the API server and returns when it answers.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	n, err := c.Node("cp")
	if err != nil {
		return err
	}
	if err := n.Ask(ctx, nodeinit.VerbStart, node.APIServer); err != nil {
		return err
	}
	return c.awaitAPIServer(ctx)
}

// client speaks to the containerd of a node.
func (c *Cluster) client(n node.Node) (imagestore.Client, error) {
	socket, err := n.ContainerdSocket()
	return imagestore.Client{Bin: c.Bin, Socket: socket}, err
}

// Trouble returns what keeps the cluster from being up and well, or nil.
func (c *Cluster) Trouble(ctx context.Context) error {
	for _, n := range c.nodes() {
		if _, err := n.Init(); err != nil {
			return err
		}
		if c.Cgroups.IsFrozen(n.Group()) {
			return fmt.Errorf("%s is frozen", n.Name)
		}
		if !network.LinkIsUp(ctx, c.Cluster, n.Name) {
			return fmt.Errorf("the link of %s is cut", n.Name)
		}
	}
	if _, err := c.kubectl(ctx, "get", "--raw", "/readyz", "--request-timeout=5s"); err != nil {
		return errors.New("the API server doesn't respond")
	}
	if ready := c.readyNodes(ctx); ready != len(c.Nodes()) {
		return fmt.Errorf("%d of %d nodes are ready", ready, len(c.Nodes()))
	}
	_, err := c.kubectl(ctx, "-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=10s")
	if err != nil {
		return errors.New("DNS is not ready")
	}
	return nil
}
