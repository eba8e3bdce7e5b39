package postmaster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// AdoptOrphans makes this process the parent of the orphans among its descendants, as process 1 of a container is
// anyway.
func AdoptOrphans() error {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// Reap takes the exit status of orphans that were adopted, until ctx ends. Children of our own are waited for by who
// started them, and so are never zombies for long: it takes only those that are still there at a second look.
func Reap(ctx context.Context) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	defer signal.Stop(ended)
	seen := map[int]bool{}
	for {
		again := time.After(time.Hour)
		if len(seen) > 0 {
			again = time.After(time.Second)
		}
		select {
		case <-ctx.Done():
			return
		case <-ended:
			// Orphans become ours at the death of their parent, before or after this signal.
			seen[0] = true
			continue
		case <-again:
		}
		seen = reapSeen(seen)
	}
}

// reapSeen takes the zombies that were seen before and returns the others.
func reapSeen(seen map[int]bool) map[int]bool {
	next := map[int]bool{}
	for _, p := range children() {
		switch {
		case p.state != "Z":
		case seen[p.pid]:
			var status syscall.WaitStatus
			_, _ = syscall.Wait4(p.pid, &status, syscall.WNOHANG, nil) // only to be rid of it
		default:
			next[p.pid] = true
		}
	}
	return next
}

type process struct {
	pid   int
	state string
}

// children lists our child processes, adopted ones too.
func children() []process { return childrenOf(os.Getpid()) }

func childrenOf(parent int) []process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var found []process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		state, of, err := readStat(pid)
		if err == nil && of == parent {
			found = append(found, process{pid: pid, state: state})
		}
	}
	return found
}

// readStat reads state and parent of a process; the command's name before them may hold anything.
func readStat(pid int) (state string, parent int, err error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0, err
	}
	fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
	if len(fields) < 2 {
		return "", 0, errors.New("short /proc stat")
	}
	parent, err = strconv.Atoi(fields[1])
	return fields[0], parent, err
}

// orphansIn lists our living children that work in a data directory.
func orphansIn(pgdata string) ([]int, error) {
	var found []int
	for _, p := range children() {
		if p.state != "Z" && worksIn(p.pid, pgdata) {
			found = append(found, p.pid)
		}
	}
	return found, nil
}

// worksIn says whether the process has its working directory there, as every process of a server has.
func worksIn(pid int, pgdata string) bool {
	cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	if err != nil {
		return false
	}
	real, err := filepath.EvalSymlinks(pgdata)
	return err == nil && cwd == real
}
