package nodeinit

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"howdah.dev/test/kube/cgroup"
)

// Main is the whole life of a node. It returns only when the node can't start.
func Main(configFile string) error {
	content, err := os.ReadFile(configFile)
	if err != nil {
		return err
	}
	var config Config
	if err := json.Unmarshal(content, &config); err != nil {
		return fmt.Errorf("%s: %w", configFile, err)
	}
	if err := enterCgroup(config.Cgroup); err != nil {
		return err
	}
	if err := mountAll(config); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(config.Hostname)); err != nil {
		return fmt.Errorf("set host name: %w", err)
	}
	if err := os.Setenv("PATH", config.Path); err != nil {
		return err
	}
	return supervise(context.Background(), config)
}

func enterCgroup(group string) error {
	system, err := cgroup.Detect()
	if err != nil {
		return err
	}
	return system.Enter(group, 0)
}

// mountAll makes the node's view of the machine's filesystem. Nothing of it is seen outside.
func mountAll(config Config) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	// Within the node mounts propagate: volumes that kubelet mounts have to appear in containers.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share mounts: %w", err)
	}
	for _, bind := range config.Binds {
		if err := place(bind.From, bind.To, "", unix.MS_BIND); err != nil {
			return err
		}
	}
	for _, folder := range config.Tmpfs {
		if err := place("tmpfs", folder, "tmpfs", 0); err != nil {
			return err
		}
	}
	return nil
}

// place mounts on a folder, and makes that a place in which further mounts propagate.
func place(from, to, filesystem string, flags uintptr) error {
	if err := os.MkdirAll(filepath.Clean(to), 0o755); err != nil {
		return err
	}
	if err := unix.Mount(from, to, filesystem, flags, ""); err != nil {
		return fmt.Errorf("mount %s on %s: %w", from, to, err)
	}
	if err := unix.Mount("", to, "", unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share %s: %w", to, err)
	}
	return nil
}
