package cluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"howdah.dev/test/kube/command"
	"howdah.dev/test/kube/node"
	"howdah.dev/test/kube/oci"
)

// loaded is the folder of the archives that this cluster was given. The template can't take its place: other clusters give
// it images of their own, under the same names.
func (c *Cluster) loaded() string { return filepath.Join(c.Dir(), "loaded") }

// keep copies archives for nodes that don't run now.
func (c *Cluster) keep(archives []string) error {
	if err := os.MkdirAll(c.loaded(), 0o755); err != nil {
		return err
	}
	for _, archive := range archives {
		images, err := oci.Read(archive)
		if err != nil {
			return err
		}
		if len(images) == 0 {
			return fmt.Errorf("%s holds no image", archive)
		}
		// By the image's name: a newer one takes the older one's place.
		name := strings.NewReplacer("/", "_", ":", "_").Replace(images[0].Name) + ".tar"
		if err := copyWhole(archive, filepath.Join(c.loaded(), name)); err != nil {
			return fmt.Errorf("keep %s: %w", archive, err)
		}
	}
	return nil
}

// copyWhole copies a file such that nobody sees half of it.
func copyWhole(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	unfinished, err := os.CreateTemp(filepath.Dir(to), "unfinished-")
	if err != nil {
		return err
	}
	defer os.Remove(unfinished.Name())
	if _, err := io.Copy(unfinished, in); err != nil {
		unfinished.Close()
		return err
	}
	if err := unfinished.Close(); err != nil {
		return err
	}
	return os.Rename(unfinished.Name(), to)
}

// catchUp gives a node what this cluster was given while it didn't run.
func (c *Cluster) catchUp(ctx context.Context, n node.Node) error {
	archives, err := filepath.Glob(filepath.Join(c.loaded(), "*.tar"))
	if err != nil || len(archives) == 0 {
		return err
	}
	client, err := c.client(n)
	if err != nil {
		return err
	}
	err = command.Until(ctx, probeEvery, "containerd of "+n.Name, func(ctx context.Context) (bool, error) { return client.Ready(ctx), nil })
	if err != nil {
		return err
	}
	for _, archive := range archives {
		new, err := client.Load(ctx, archive)
		if err != nil {
			return fmt.Errorf("%s: %w", n.Name, err)
		}
		if new {
			c.Report.Say("%s has caught up with %s", n.Name, filepath.Base(archive))
		}
	}
	return nil
}
