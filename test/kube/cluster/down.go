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
	return removeMountPoints(node.HostFolders())
}

// removeMountPoints removes the empty folders that nodes mount on, unless a node of another cluster does so now:
// removing a folder takes away, in every namespace, what is mounted on it.
func removeMountPoints(folders []string) error {
	used, err := mountedAnywhere()
	if err != nil {
		return err
	}
	for _, folder := range folders {
		if !used[folder] {
			_ = syscall.Rmdir(folder) // not empty means that it isn't ours
		}
	}
	return nil
}

// mountedAnywhere lists the mount points of all processes of the machine.
func mountedAnywhere() (map[string]bool, error) {
	processes, err := filepath.Glob("/proc/[0-9]*/mountinfo")
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for _, file := range processes {
		content, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended
		}
		for _, point := range mountPoints(string(content)) {
			used[point] = true
		}
	}
	return used, nil
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
	for _, point := range mountPoints(mountinfo) {
		if strings.HasPrefix(point, folder+"/") {
			below = append(below, point)
		}
	}
	return below
}

// mountPoints lists the mount points of a mountinfo file in the order of mounting.
func mountPoints(mountinfo string) []string {
	var points []string
	for line := range strings.Lines(mountinfo) {
		if fields := strings.Fields(line); len(fields) > 4 {
			points = append(points, fields[4])
		}
	}
	return points
}
