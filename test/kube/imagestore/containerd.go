// Package imagestore puts images into containerds: into the template that every new node is a copy of, and into
// nodes that run.
package imagestore

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"howdah.dev/test/kube/command"
	"howdah.dev/test/kube/oci"
)

// namespace is where Kubernetes looks for images.
const namespace = "k8s.io"

// Client speaks to one containerd.
type Client struct {
	Bin    string // folder with ctr
	Socket string
}

func (c Client) ctr(ctx context.Context, args ...string) (string, error) {
	return command.Output(ctx, append([]string{filepath.Join(c.Bin, "ctr"), "-a", c.Socket, "-n", namespace}, args...)...)
}

// Ready tells whether containerd answers.
func (c Client) Ready(ctx context.Context) bool {
	_, err := c.ctr(ctx, "version")
	return err == nil
}

// Images returns the digest of each image by name.
func (c Client) Images(ctx context.Context) (map[string]string, error) {
	out, err := c.ctr(ctx, "images", "ls")
	if err != nil {
		return nil, err
	}
	return parseImages(out), nil
}

// parseImages reads the table REF TYPE DIGEST ….
func parseImages(table string) map[string]string {
	images := map[string]string{}
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) >= 3 && strings.HasPrefix(fields[2], "sha256:") {
			images[fields[0]] = fields[2]
		}
	}
	return images
}

// Import unpacks an archive.
func (c Client) Import(ctx context.Context, archive string) error {
	_, err := c.ctr(ctx, "images", "import", "--local", archive) // three times as fast as through the transfer service
	return err
}

// Tag gives an image another name; one that has it already is left alone.
func (c Client) Tag(ctx context.Context, image, name string) error {
	_, err := c.ctr(ctx, "images", "tag", "--force", image, name)
	return err
}

// Load imports an archive unless containerd has all of its images, and says whether it had to.
func (c Client) Load(ctx context.Context, archive string) (bool, error) {
	wanted, err := oci.Read(archive)
	if err != nil {
		return false, err
	}
	have, err := c.Images(ctx)
	if err != nil {
		return false, err
	}
	if hasAll(have, wanted) {
		return false, nil
	}
	if err := c.forget(ctx, have, wanted); err != nil {
		return false, err
	}
	if err := c.Import(ctx, archive); err != nil {
		return false, fmt.Errorf("import %s: %w", filepath.Base(archive), err)
	}
	return true, nil
}

// forget takes the names of older images away. Kubernetes' part of containerd finds an image for a volume by its id, and notes
// the id of an image that is new, but not that of another one which an old name is given to.
func (c Client) forget(ctx context.Context, have map[string]string, wanted []oci.Image) error {
	for _, image := range wanted {
		if old := have[image.Name]; old == "" || old == image.Digest {
			continue
		}
		if _, err := c.ctr(ctx, "images", "rm", image.Name); err != nil {
			return fmt.Errorf("forget the older %s: %w", image.Name, err)
		}
	}
	return nil
}

func hasAll(have map[string]string, wanted []oci.Image) bool {
	for _, image := range wanted {
		if have[image.Name] != image.Digest {
			return false
		}
	}
	return true
}
