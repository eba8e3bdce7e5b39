// Package preflight says in one sentence what a machine lacks for a test cluster, before anything is done on it.
package preflight

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"howdah.dev/test/kube/cgroup"
	"howdah.dev/test/kube/progress"
)

// What a cluster of four nodes, its builds and its images need.
const (
	needMemoryMiB = 4 << 10
	needDiskMiB   = 10 << 10
)

// ErrNotRoot is returned to anybody else.
var ErrNotRoot = errors.New("this needs root, for namespaces, control groups and mounts: run it with sudo")

// Machine is what the checks look at.
type Machine struct {
	UserID      int
	Meminfo     string // /proc/meminfo
	Filesystems string // /proc/filesystems
	DiskMiB     uint64 // free below the cache folder
	Cgroups     error  // why control groups can't be used
	Bridge      bool   // whether the kernel filters bridged packets
}

// Check looks at the machine, installs packages that are missing, and returns the first thing that is wrong.
func Check(ctx context.Context, cache string, report *progress.Reporter) error {
	machine, err := look(cache)
	if err != nil {
		return err
	}
	if err := machine.Verdict(); err != nil {
		return err
	}
	if err := EnsurePackages(ctx, report); err != nil {
		return err
	}
	loadModules(ctx)
	if machine, err = look(cache); err != nil {
		return err
	}
	if err := machine.KernelVerdict(); err != nil {
		return err
	}
	return raiseLimits()
}

// Verdict returns the first thing that nothing can be done about.
func (m Machine) Verdict() error {
	if m.UserID != 0 {
		return ErrNotRoot
	}
	if m.Cgroups != nil {
		return m.Cgroups
	}
	if memory := memoryMiB(m.Meminfo); memory < needMemoryMiB {
		return fmt.Errorf("only %d MiB of memory are available: a cluster needs %d MiB", memory, needMemoryMiB)
	}
	if m.DiskMiB < needDiskMiB {
		return fmt.Errorf("only %d MiB of disk are free at the cache folder: a cluster needs %d MiB; free some, or say with --cache where there is more", m.DiskMiB, needDiskMiB)
	}
	return nil
}

// KernelVerdict returns the first thing that the kernel lacks, once its modules were loaded.
func (m Machine) KernelVerdict() error {
	if !strings.Contains(m.Filesystems, "\toverlay\n") {
		return errors.New("the kernel has no overlay filesystem, which containers need: load the module overlay")
	}
	if !m.Bridge {
		return errors.New("the kernel doesn't filter bridged packets, which Services need: load the module br_netfilter")
	}
	return nil
}

func look(cache string) (Machine, error) {
	meminfo, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return Machine{}, err
	}
	filesystems, err := os.ReadFile("/proc/filesystems")
	if err != nil {
		return Machine{}, err
	}
	disk, err := freeMiB(cache)
	if err != nil {
		return Machine{}, err
	}
	_, cgroups := cgroup.Detect()
	_, bridge := os.Stat("/proc/sys/net/bridge/bridge-nf-call-iptables")
	return Machine{
		UserID:      os.Geteuid(),
		Meminfo:     string(meminfo),
		Filesystems: string(filesystems),
		DiskMiB:     disk,
		Cgroups:     cgroups,
		Bridge:      bridge == nil,
	}, nil
}

// freeMiB measures where the folder is, or would be.
func freeMiB(folder string) (uint64, error) {
	for {
		var stat unix.Statfs_t
		err := unix.Statfs(folder, &stat)
		if err == nil {
			return stat.Bavail * uint64(stat.Bsize) >> 20, nil
		}
		if !errors.Is(err, unix.ENOENT) {
			return 0, fmt.Errorf("free space of %s: %w", folder, err)
		}
		folder = filepath.Dir(folder)
	}
}

// memoryMiB reads MemAvailable, which counts in KiB.
func memoryMiB(meminfo string) int {
	for line := range strings.Lines(meminfo) {
		var available int
		if _, err := fmt.Sscanf(line, "MemAvailable: %d kB", &available); err == nil {
			return available >> 10
		}
	}
	return 0
}
