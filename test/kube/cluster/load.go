package cluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"howdah.dev/test/kube/node"
)

// LoadTemplate gives archives to the clusters that come later.
func (c *Cluster) LoadTemplate(ctx context.Context, archives []string) error {
	if c.Bin == "" {
		bin, err := c.programs(ctx)
		if err != nil {
			return err
		}
		c.Bin = bin
	}
	return c.template().Load(ctx, archives...)
}

// Load gives archives to every node that runs, and keeps them for the others; the template gets them, too, for the clusters that
// come later.
func (c *Cluster) Load(ctx context.Context, archives []string) error {
	if err := c.keep(archives); err != nil {
		return err
	}
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return c.LoadTemplate(ctx, archives) })
	for _, n := range c.nodes() {
		all.Go(func() error { return c.loadNode(ctx, n, archives) })
	}
	if err := all.Wait(); err != nil {
		return err
	}
	c.Report.Say("loaded %s", names(archives))
	return nil
}

func (c *Cluster) loadNode(ctx context.Context, n node.Node, archives []string) error {
	client, err := c.client(n)
	if errors.Is(err, node.ErrDown) || c.Cgroups.IsFrozen(n.Group()) {
		c.Report.Say("%s is not running: it catches up when it does", n.Name)
		return nil
	}
	if err != nil {
		return err
	}
	for _, archive := range archives {
		absolute, err := filepath.Abs(archive)
		if err != nil {
			return err
		}
		if _, err := client.Load(ctx, absolute); err != nil {
			return fmt.Errorf("%s: %w", n.Name, err)
		}
	}
	return nil
}

// Tag gives an image another name on every node that runs.
func (c *Cluster) Tag(ctx context.Context, image, name string) error {
	all, ctx := errgroup.WithContext(ctx)
	for _, n := range c.nodes() {
		all.Go(func() error {
			client, err := c.client(n)
			if errors.Is(err, node.ErrDown) {
				return nil
			}
			if err != nil {
				return err
			}
			return client.Tag(ctx, image, name)
		})
	}
	return all.Wait()
}

func names(archives []string) string {
	text := ""
	for i, archive := range archives {
		if i > 0 {
			text += ", "
		}
		text += filepath.Base(archive)
	}
	return text
}
