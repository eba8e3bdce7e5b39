package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"howdah.dev/test/kube/network"
	"howdah.dev/test/kube/node"
)

// Down removes everything of the cluster from the machine, in whatever state it is: processes, control groups,
// namespaces, mounts and files. What was never there is fine.
func (c *Cluster) Down(ctx context.Context) error {
	if err := c.endProcesses(ctx); err != nil {
		return err
	}
	if err := network.Down(ctx, c.Cluster); err != nil {
		return err
	}
	if err := unmountBelow(c.Dir()); err != nil {
		return err
	}
	if err := removeAll(c.Dir()); err != nil {
		return err
	}
	return c.removeHostFolders()
}

// removeHostFolders removes the empty folders that nodes mount on, unless another cluster is there: removing a folder
// takes away, in every namespace, what is mounted on it.
func (c *Cluster) removeHostFolders() error {
	others, err := os.ReadDir(filepath.Dir(c.Dir()))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if len(others) > 0 {
		return nil
	}
	for _, folder := range node.HostFolders() {
		_ = syscall.Rmdir(folder) // not empty: it isn't ours
	}
	return nil
}

// endProcesses goes by what the machine has, not by what the cluster's files say: those may be lost.
func (c *Cluster) endProcesses(ctx context.Context) error {
	groups := append(c.Cgroups.Groups(c.Prefixed("")), network.Namespaces(c.Cluster)...)
	var all errgroup.Group
	for _, group := range groups {
		all.Go(func() error { return node.Clean(ctx, c.Cgroups, group) })
	}
	return all.Wait()
}

// IsClean tells whether Down has nothing to do.
func (c *Cluster) IsClean() bool {
	if _, err := os.Stat(c.Dir()); err == nil {
		return false
	}
	return len(c.Cgroups.Groups(c.Prefixed(""))) == 0 && len(network.Namespaces(c.Cluster)) == 0
}

// removeAll removes the cluster's folder, one goroutine for each node: hard links by the ten thousand take a while.
func removeAll(folder string) error {
	nodes, _ := os.ReadDir(folder + "/nodes")
	var all errgroup.Group
	for _, entry := range nodes {
		all.Go(func() error { return os.RemoveAll(folder + "/nodes/" + entry.Name()) })
	}
	return errors.Join(all.Wait(), os.RemoveAll(folder))
}

// unmountBelow removes what is mounted below a folder in the machine's own view, the deepest first.
func unmountBelow(folder string) error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	below := mountsBelow(string(mounts), folder)
	for i := len(below) - 1; i >= 0; i-- {
		if err := unix.Unmount(below[i], unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("unmount %s: %w", below[i], err)
		}
	}
	return nil
}

// mountsBelow lists the mount points of a mountinfo file below a folder, in the order of mounting.
func mountsBelow(mountinfo, folder string) []string {
	var below []string
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) > 4 && strings.HasPrefix(fields[4], folder+"/") {
			below = append(below, fields[4])
		}
	}
	return below
}
