// Package cgroup gives each node a control group of its own, on a machine with cgroup v1, v1 and v2 together, or v2.
package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// System is the machine's cgroup setup: one mounted hierarchy on pure v2, one per controller on v1.
type System struct {
	unified     string            // mount point of v2 when it is the only one
	controllers map[string]string // v1 controller or "name=…" or "" (v2 beside v1) → mount point
}

// required are the controllers that kubelet and runc can't do without.
var required = []string{"cpu", "cpuset", "memory", "pids"}

// Detect reads the machine's setup.
func Detect() (System, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return System{}, err
	}
	system := parseMounts(string(mounts))
	return system, system.check()
}

// parseMounts finds the cgroup mounts of a mountinfo file.
func parseMounts(mountinfo string) System {
	system := System{controllers: map[string]string{}}
	unified := ""
	for line := range strings.Lines(mountinfo) {
		mount, filesystem, ok := strings.Cut(strings.TrimSpace(line), " - ")
		where, what := strings.Fields(mount), strings.Fields(filesystem)
		if !ok || len(where) < 5 || len(what) < 3 {
			continue
		}
		switch what[0] {
		case "cgroup2":
			unified = where[4]
		case "cgroup":
			for option := range strings.SplitSeq(what[2], ",") {
				if option != "rw" && option != "ro" && !strings.HasPrefix(option, "release_agent") {
					system.controllers[option] = where[4]
				}
			}
		}
	}
	if len(system.controllers) == 0 {
		system.unified = unified
	} else if unified != "" {
		system.controllers[""] = unified
	}
	return system
}

func (s System) check() error {
	if s.unified != "" {
		available, err := os.ReadFile(filepath.Join(s.unified, "cgroup.controllers"))
		if err != nil {
			return fmt.Errorf("cgroup v2 is mounted at %s but can't be read: %w", s.unified, err)
		}
		return lacking(strings.Fields(string(available)))
	}
	have := make([]string, 0, len(s.controllers))
	for controller := range s.controllers {
		have = append(have, controller)
	}
	return lacking(have)
}

func lacking(have []string) error {
	for _, controller := range required {
		if !slices.Contains(have, controller) {
			return fmt.Errorf("the cgroup controller %q is missing: mount cgroups at /sys/fs/cgroup with cpu, cpuset, memory and pids", controller)
		}
	}
	return nil
}

// IsUnified tells whether the machine has cgroup v2 only.
func (s System) IsUnified() bool { return s.unified != "" }

// roots are the distinct mount points.
func (s System) roots() []string {
	if s.IsUnified() {
		return []string{s.unified}
	}
	var roots []string
	for _, root := range s.controllers {
		if !slices.Contains(roots, root) {
			roots = append(roots, root)
		}
	}
	slices.Sort(roots)
	return roots
}

// system is the leaf below a group that holds the node's own processes on v2, where a group with controllers for
// its children may have no processes itself.
const systemLeaf = "system"

// Create makes the group, ready for kubelet to make pods' groups in it.
func (s System) Create(group string) error {
	if s.IsUnified() {
		return s.createUnified(group)
	}
	for _, root := range s.roots() {
		if err := os.MkdirAll(filepath.Join(root, group), 0o755); err != nil {
			return err
		}
	}
	// A new cpuset of v1 is empty, and takes no process before it is filled.
	cpuset := s.controllers["cpuset"]
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		if err := copyFile(filepath.Join(cpuset, file), filepath.Join(cpuset, group, file)); err != nil {
			return err
		}
	}
	return nil
}

func (s System) createUnified(group string) error {
	if err := s.delegate(s.unified); err != nil {
		return err
	}
	path := filepath.Join(s.unified, group)
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	if err := s.delegate(path); err != nil {
		return err
	}
	return os.MkdirAll(filepath.Join(path, systemLeaf), 0o755)
}

// delegate switches every controller on for a group's children. One that can't be is an error only if nothing works
// without it: some depend on what else runs on the machine.
func (s System) delegate(path string) error {
	available, err := os.ReadFile(filepath.Join(path, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for _, controller := range strings.Fields(string(available)) {
		err := s.switchOn(path, controller)
		if err != nil && slices.Contains(required, controller) {
			return fmt.Errorf("controller %s: %w", controller, err)
		}
	}
	return nil
}

func (s System) switchOn(path, controller string) error {
	control := filepath.Join(path, "cgroup.subtree_control")
	err := write(control, "+"+controller)
	if !errors.Is(err, syscall.EBUSY) {
		return err
	}
	// Inside of a container the root that is seen here is a group like any other: it has to be empty first.
	if err := s.moveAside(path); err != nil {
		return err
	}
	return write(control, "+"+controller)
}

func (s System) moveAside(path string) error {
	leaf := filepath.Join(path, "howdah-outside")
	if err := os.MkdirAll(leaf, 0o755); err != nil {
		return err
	}
	pids, err := pidsOf(path)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		// A process that has ended meanwhile, or a kernel thread, can't move and needn't.
		_ = write(filepath.Join(leaf, "cgroup.procs"), strconv.Itoa(pid))
	}
	return nil
}

// Enter puts a process into the group; 0 is the caller.
func (s System) Enter(group string, pid int) error {
	if s.IsUnified() {
		return write(filepath.Join(s.unified, group, systemLeaf, "cgroup.procs"), strconv.Itoa(pid))
	}
	for _, root := range s.roots() {
		if err := write(filepath.Join(root, group, "cgroup.procs"), strconv.Itoa(pid)); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return write(to, strings.TrimSpace(string(content)))
}

// write writes to a kernel file, which exists already and wants its value in one piece.
func write(path, value string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(value)
	return errors.Join(err, file.Close())
}
