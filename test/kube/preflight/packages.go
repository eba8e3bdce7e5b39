package preflight

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"howdah.dev/test/kube/command"
	"howdah.dev/test/kube/progress"
)

// packages of Debian by a file that each brings.
var packages = map[string]string{
	"runc":                        "runc",
	"containernetworking-plugins": "/usr/lib/cni/bridge",
	"nftables":                    "nft",
	"iptables":                    "iptables",
	"iproute2":                    "ip",
	"conntrack":                   "conntrack",
	"debootstrap":                 "debootstrap",
	"util-linux":                  "nsenter",
	"procps":                      "sysctl",
	"kmod":                        "modprobe",
	"ca-certificates":             "/etc/ssl/certs/ca-certificates.crt",
}

// sbin is where programs for root are, which a user's PATH may lack.
const sbin = ":/usr/local/sbin:/usr/sbin:/sbin"

// EnsurePackages installs the Debian packages that are missing.
func EnsurePackages(ctx context.Context, report *progress.Reporter) error {
	if err := os.Setenv("PATH", os.Getenv("PATH")+sbin); err != nil {
		return err
	}
	missing := missingPackages(present)
	if len(missing) == 0 {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("missing on this machine: %s; there is no apt-get here, so install them yourself", strings.Join(missing, ", "))
	}
	return report.Step(ctx, "install "+strings.Join(missing, ", "), func(ctx context.Context) error {
		return install(ctx, missing)
	})
}

// install updates the package lists only when they don't do: that takes longer than the packages.
func install(ctx context.Context, names []string) error {
	apt := func(args ...string) error {
		_, err := command.Command{
			Args: append([]string{"apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=300"}, args...),
			Env:  []string{"DEBIAN_FRONTEND=noninteractive"},
		}.Output(ctx)
		return err
	}
	installation := append([]string{"install", "--no-install-recommends"}, names...)
	if err := apt(installation...); err == nil {
		return nil
	}
	if err := apt("update"); err != nil {
		return err
	}
	return apt(installation...)
}

func missingPackages(present func(file string) bool) []string {
	var missing []string
	for name, file := range packages {
		if !present(file) {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	return missing
}

func present(file string) bool {
	if filepath.IsAbs(file) {
		_, err := os.Stat(file)
		return err == nil
	}
	_, err := exec.LookPath(file)
	return err == nil
}

// loadModules loads what may be built into the kernel as well; whether it is there is checked afterwards.
func loadModules(ctx context.Context) {
	for _, module := range []string{"overlay", "br_netfilter", "nf_conntrack", "veth", "bridge", "nf_tables"} {
		_ = command.Run(ctx, "modprobe", "-q", module)
	}
}

// watches is how many inotify instances the nodes' kubelets, containerds and pods need together.
const watches = 1024

// raiseLimits raises a limit that belongs to the machine, and that four nodes share.
func raiseLimits() error {
	const file = "/proc/sys/fs/inotify/max_user_instances"
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var now int
	if _, err := fmt.Sscan(string(content), &now); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if now >= watches {
		return nil
	}
	err = os.WriteFile(file, []byte(fmt.Sprint(watches)), 0o644)
	if errors.Is(err, os.ErrPermission) {
		return nil // a container's root may not; the usual 128 do for a small cluster
	}
	return err
}
