// Package node starts, kills, freezes and enters the nodes of a test cluster.
//
// A node is a process with its own network, mount, PID, host name and IPC namespaces and its own control group; it
// runs the node's containerd and kubelet. Killing that process is a power cut.
package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"howdah.dev/test/kube/cgroup"
	"howdah.dev/test/kube/command"
	"howdah.dev/test/kube/network"
	"howdah.dev/test/kube/nodeinit"
	"howdah.dev/test/kube/topology"
)

// InitVerb is the hidden verb under which this program is the first process of a node.
const InitVerb = "node-init"

// Node is a node of a cluster on this machine.
type Node struct {
	topology.Node
	Cluster topology.Cluster
	Cgroups cgroup.System
}

// Group is the node's control group.
func (n Node) Group() string { return n.Cluster.Prefixed(n.Name) }

func (n Node) handleFile() string { return n.Cluster.NodePath(n.Name, "init.pid") }

// ContainerdSocket is where the machine reaches the node's containerd, whose socket lies in the node's own view of
// the filesystem.
func (n Node) ContainerdSocket() (string, error) {
	handle, err := n.Init()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("/proc/%d/root/run/containerd/containerd.sock", handle.PID), nil
}

// ErrDown means that a node doesn't run.
var ErrDown = errors.New("node is down")

// Init returns the node's first process, or ErrDown.
func (n Node) Init() (Handle, error) {
	handle, err := LoadHandle(n.handleFile())
	if err != nil {
		return Handle{}, err
	}
	if !handle.Alive() {
		return Handle{}, fmt.Errorf("%s: %w", n.Name, ErrDown)
	}
	return handle, nil
}

// Start switches a node on; one that runs is left alone.
func (n Node) Start(ctx context.Context) error {
	if _, err := n.Init(); !errors.Is(err, ErrDown) {
		return err
	}
	if err := n.clean(ctx); err != nil {
		return err
	}
	if err := n.Cgroups.Create(n.Group()); err != nil {
		return fmt.Errorf("control group of %s: %w", n.Name, err)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log := n.Cluster.NodePath(n.Name, "log", "init.log")
	handle, err := Spawn(n.Group(), log, isolated, nil, self, InitVerb, n.Cluster.NodePath(n.Name, "init.json"))
	if err != nil {
		return err
	}
	return handle.Save(n.handleFile())
}

// Kill cuts the node's power and returns when nothing of it is left but its disk.
func (n Node) Kill(ctx context.Context) error {
	handle, err := LoadHandle(n.handleFile())
	if err != nil {
		return err
	}
	if err := handle.Kill(); err != nil {
		return fmt.Errorf("kill %s: %w", n.Name, err)
	}
	return n.clean(ctx)
}

// clean ends every process that is still in the node's groups or network, whoever lost track of it, and removes
// the groups and the network of its pods.
func (n Node) clean(ctx context.Context) error {
	if err := Clean(ctx, n.Cgroups, n.Group()); err != nil {
		return err
	}
	if _, err := os.Stat(network.NamespacePath(n.Group())); err != nil {
		return nil // it has never had one
	}
	return network.Unplug(ctx, n.Group())
}

// Clean ends all processes of a control group and of the network namespace of the same name, and removes the group.
func Clean(ctx context.Context, cgroups cgroup.System, group string) error {
	return command.Until(ctx, 20*time.Millisecond, "the processes of "+group+" to end", func(ctx context.Context) (bool, error) {
		pids, err := leftovers(ctx, cgroups, group)
		if err != nil {
			return false, err
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		// A frozen process dies only when it is thawed; the group may also be gone already.
		_ = cgroups.Thaw(ctx, group)
		if len(pids) > 0 {
			return false, nil
		}
		err = cgroups.Remove(group)
		if errors.Is(err, syscall.EBUSY) {
			return false, nil // the dead leave a moment after their last sign of life
		}
		return true, err
	})
}

func leftovers(ctx context.Context, cgroups cgroup.System, group string) ([]int, error) {
	pids, err := cgroups.Processes(group)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(network.NamespacePath(group)); err != nil {
		return pids, nil
	}
	more, err := network.Processes(ctx, group)
	return append(pids, more...), err
}

// Freeze stops the node in the middle of whatever it does: it neither answers nor dies.
func (n Node) Freeze(ctx context.Context) error {
	if _, err := n.Init(); err != nil {
		return err
	}
	return n.Cgroups.Freeze(ctx, n.Group())
}

// Thaw lets a frozen node continue as if nothing had been.
func (n Node) Thaw(ctx context.Context) error {
	if _, err := n.Init(); err != nil {
		return err
	}
	return n.Cgroups.Thaw(ctx, n.Group())
}

// Ask has the node's first process start or stop one of its programs.
func (n Node) Ask(ctx context.Context, verb, process string) error {
	if _, err := n.Init(); err != nil {
		return err
	}
	return nodeinit.Ask(ctx, n.Cluster.NodePath(n.Name, "init.sock"), nodeinit.Request{Verb: verb, Process: process})
}

// EnterArgs is the command line that runs a command inside of the node.
func (n Node) EnterArgs(args ...string) ([]string, error) {
	handle, err := n.Init()
	if err != nil {
		return nil, err
	}
	enter := []string{"nsenter", "-t", fmt.Sprint(handle.PID), "-m", "-n", "-p", "-u", "-i", "--"}
	return append(enter, args...), nil
}
