package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	hybrid = `30 23 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw
31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
32 30 0:28 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset
33 30 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
34 30 0:30 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
35 30 0:31 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd
36 30 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
`
	pure = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
)

func TestAHybridMachineIsUsedByItsControllers(t *testing.T) {
	system := parseMounts(hybrid)
	if system.IsUnified() {
		t.Fatal("taken for a machine with v2 only")
	}
	for controller, want := range map[string]string{
		"cpu":          "/sys/fs/cgroup/cpu,cpuacct",
		"cpuacct":      "/sys/fs/cgroup/cpu,cpuacct",
		"pids":         "/sys/fs/cgroup/pids",
		"name=systemd": "/sys/fs/cgroup/systemd",
		"":             "/sys/fs/cgroup/unified",
	} {
		if got := system.controllers[controller]; got != want {
			t.Errorf("%q is at %q, want %q", controller, got, want)
		}
	}
	if got := len(system.roots()); got != 6 {
		t.Errorf("%d mount points, want 6, one for cpu and cpuacct together: %v", got, system.roots())
	}
	if err := system.check(); err != nil {
		t.Error(err)
	}
}

func TestAPureMachineHasOneHierarchy(t *testing.T) {
	system := parseMounts(pure)
	if got := system.roots(); !system.IsUnified() || len(got) != 1 || got[0] != "/sys/fs/cgroup" {
		t.Errorf("got %v", got)
	}
}

func TestAMissingControllerIsNamed(t *testing.T) {
	without := strings.ReplaceAll(hybrid, "rw,pids", "rw,net_cls")
	if err := parseMounts(without).check(); err == nil || !strings.Contains(err.Error(), `"pids"`) {
		t.Errorf("got %v", err)
	}
	if err := parseMounts("").check(); err == nil {
		t.Error("a machine without cgroups passes")
	}
}

func TestTheProcessesOfAPodAreFoundWhereverItsGroupIs(t *testing.T) {
	root := t.TempDir()
	for path, pids := range map[string]string{
		"node/kubepods/burstable/pod1-2/container": "11\n12\n", "node/kubepods/burstable/pod1-2": "",
		"node/kubepods/pod3-4/container": "13\n", "other/kubepods/pod1-2/container": "14\n",
	} {
		folder := filepath.Join(root, path)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "cgroup.procs"), []byte(pids), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, system := range []System{{unified: root}, {controllers: map[string]string{"pids": root}}} {
		pids, err := system.ProcessesIn("node", "pod1-2")
		if err != nil || !slices.Equal(pids, []int{11, 12}) {
			t.Errorf("got %v, %v", pids, err)
		}
		if pids, err := system.ProcessesIn("gone", "pod1-2"); err != nil || len(pids) > 0 {
			t.Errorf("of a group that isn't there: %v, %v", pids, err)
		}
	}
}
