package cluster

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"howdah.dev/test/kube/node"
)

// Signal sends a signal to every process of a pod (NAMESPACE/NAME), or only to the first process of one program in it.
// It asks no API server, so that it works while there is none.
func (c *Cluster) Signal(pod, program string, signal syscall.Signal) error {
	namespace, name, found := strings.Cut(pod, "/")
	if !found {
		return fmt.Errorf("%q: write NAMESPACE/POD", pod)
	}
	var all []int
	for _, n := range c.nodes() {
		pids, err := n.PodProcesses(namespace, name)
		if err != nil {
			return err
		}
		all = append(all, pids...)
	}
	if program != "" {
		all = node.FirstOf(program, all)
	}
	if len(all) == 0 {
		return fmt.Errorf("no process of %s %s runs on any node", pod, program)
	}
	return sendAll(all, signal)
}

// sendAll sends a signal to processes; those that end meanwhile are fine.
func sendAll(pids []int, signal syscall.Signal) error {
	var errs []error
	for _, pid := range pids {
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, fmt.Errorf("signal process %d: %w", pid, err))
		}
	}
	return errors.Join(errs...)
}
