package node

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// PodProcesses lists the processes of a pod that runs on this node. kubelet keeps a folder for the logs of each pod, which
// has its UID; the pod's control group has it too.
func (n Node) PodProcesses(namespace, pod string) ([]int, error) {
	prefix := namespace + "_" + pod + "_"
	folders, err := filepath.Glob(n.Cluster.NodePath(n.Name, "pods", prefix+"*"))
	if err != nil {
		return nil, err
	}
	var all []int
	for _, folder := range folders { // a pod of that name that has gone may have left its folder
		pids, err := n.Cgroups.ProcessesIn(n.Group(), "pod"+strings.TrimPrefix(filepath.Base(folder), prefix))
		if err != nil {
			return nil, err
		}
		all = append(all, pids...)
	}
	return all, nil
}

// FirstOf picks the processes of a program whose parents don't run the same program: of a server that forks for each
// connection it is the one that forks.
func FirstOf(program string, pids []int) []int {
	runs := func(pid int) bool {
		name, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
		return err == nil && strings.TrimSpace(string(name)) == program
	}
	return slices.DeleteFunc(slices.Clone(pids), func(pid int) bool {
		fields, err := stat(pid)
		if err != nil || !runs(pid) {
			return true
		}
		parent, err := strconv.Atoi(fields[parentField])
		return err != nil || runs(parent)
	})
}
