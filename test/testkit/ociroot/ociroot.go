// Package ociroot makes the root of a file system of one of the test bed's images, for programs that this machine's Debian
// doesn't have.
package ociroot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// manifest is of an OCI image, as far as it is needed: its layers, and of an index its manifests.
type manifest struct {
	Manifests, Layers []struct{ Digest string }
}

// Unpack unpacks the layers of an OCI archive.
func Unpack(ctx context.Context, archive, root string) error {
	blobs := root + ".oci"
	defer os.RemoveAll(blobs)
	if err := errors.Join(os.RemoveAll(root), os.MkdirAll(root, 0o755), os.MkdirAll(blobs, 0o755)); err != nil {
		return err
	}
	if err := untar(ctx, archive, blobs); err != nil {
		return err
	}
	var index, image manifest
	if err := readJSON(filepath.Join(blobs, "index.json"), &index); err != nil {
		return err
	}
	if len(index.Manifests) == 0 {
		return fmt.Errorf("%s holds no image", archive)
	}
	if err := readJSON(blob(blobs, index.Manifests[0].Digest), &image); err != nil {
		return err
	}
	for _, layer := range image.Layers {
		if err := untar(ctx, blob(blobs, layer.Digest), root); err != nil {
			return err
		}
	}
	return nil
}

func blob(folder, digest string) string {
	return filepath.Join(folder, "blobs", strings.Replace(digest, ":", "/", 1))
}

func untar(ctx context.Context, archive, to string) error {
	out, err := exec.CommandContext(ctx, "tar", "--extract", "--file="+archive, "--directory="+to, "--numeric-owner", "--same-owner").CombinedOutput()
	if err != nil {
		return fmt.Errorf("unpack %s: %w: %s", archive, err, out)
	}
	return nil
}

func readJSON(path string, into any) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(content, into)
}

// Share makes folders of this machine be seen in a root, under their own names. Call it where mounts are one's own.
func Share(root string, folders ...string) error {
	for _, folder := range folders {
		inside := filepath.Join(root, folder)
		if err := os.MkdirAll(inside, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(folder, inside, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("mount %s: %w", inside, err)
		}
	}
	return nil
}
