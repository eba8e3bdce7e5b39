package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// runner is who servers and tools run as: PostgreSQL refuses root.
type runner struct {
	uid, gid int
	root     string // where its programs are, if not here
}

// findRunner is the user postgres for root, and the caller for everybody else.
func findRunner() (runner, error) {
	lookup := user.Current
	if os.Geteuid() == 0 {
		lookup = func() (*user.User, error) { return user.Lookup("postgres") }
	}
	found, err := lookup()
	if err != nil {
		return runner{}, err
	}
	uid, errUID := strconv.Atoi(found.Uid)
	gid, errGID := strconv.Atoi(found.Gid)
	return runner{uid: uid, gid: gid}, errors.Join(errUID, errGID)
}

// command is a program that runs as the runner, in a group of processes of its own.
func (r runner) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Chroot: r.root}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(r.uid), Gid: uint32(r.gid)}
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	return cmd
}

// run runs a program to its end; what it says stands in the error.
func (r runner) run(ctx context.Context, program string, args ...string) error {
	out, err := r.command(ctx, program, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(program), err, out)
	}
	return nil
}

// output is what a program prints.
func (r runner) output(ctx context.Context, program string, args ...string) ([]byte, error) {
	return r.command(ctx, program, args...).Output()
}

// folderFor makes a folder that the runner may write to.
func (r runner) folderFor(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	return os.Chown(path, r.uid, r.gid)
}

// ensurePrograms installs pgBackRest where it is asked for and missing.
func ensurePrograms(ctx context.Context, tools []string) error {
	if _, err := os.Stat(restProgram); err == nil || !slices.Contains(tools, toolPgBackRest) {
		return nil
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("%s is missing, and only root can install it", toolPgBackRest)
	}
	fmt.Println("installing " + toolPgBackRest)
	for _, args := range [][]string{{"update", "-q"}, {"install", "-y", "-q", "--no-install-recommends", toolPgBackRest}} {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w: %s", args[0], err, out)
		}
	}
	return nil
}

// processorTime is what the machine's processors did, in ticks, all of them together.
type processorTime struct {
	total  int64
	idle   int64 // also while something waited for a disk
	stolen int64 // by other machines on the same host: it makes every wall time longer, and nobody here sees who took it
}

// Places of columns after the first word of /proc/stat.
const (
	cpuIdle   = 3
	cpuWait   = 4
	cpuStolen = 7
	cpuKinds  = 8 // what follows is counted among these already
)

// readProcessorTime returns nothing where there is no /proc: it only says more.
func readProcessorTime() (t processorTime) {
	content, _ := os.ReadFile("/proc/stat")
	first, _, _ := strings.Cut(string(content), "\n")
	for place, field := range strings.Fields(strings.TrimPrefix(first, "cpu")) {
		ticks, _ := strconv.ParseInt(field, 10, 64) // the kernel writes numbers
		switch {
		case place >= cpuKinds:
			continue
		case place == cpuIdle || place == cpuWait:
			t.idle += ticks
		case place == cpuStolen:
			t.stolen += ticks
		}
		t.total += ticks
	}
	return t
}

func (t processorTime) since(before processorTime) processorTime {
	return processorTime{total: t.total - before.total, idle: t.idle - before.idle, stolen: t.stolen - before.stolen}
}

func (t processorTime) idleShare() float64 { return float64(t.idle) / float64(max(1, t.total)) }

func (t processorTime) stolenShare() float64 { return float64(t.stolen) / float64(max(1, t.total)) }
