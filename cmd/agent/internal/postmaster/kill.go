package postmaster

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"howdah.dev/howdah/pkg/postgres"
)

// fenceTime is what a server gets to send its last WAL to replicas before it is killed.
const fenceTime = 300 * time.Millisecond

// Fence ends the server on a data directory that may accept no more writes: fast, and then at once. Clients lose their
// sessions first, and what was acknowledged to them reaches the replicas if these can be reached at all.
func Fence(pgdata string) {
	content, err := os.ReadFile(filepath.Join(pgdata, "postmaster.pid"))
	if err == nil {
		if pid, err := postgres.ParsePostmasterPID(content); err == nil && worksIn(pid.PID, pgdata) {
			_ = syscall.Kill(pid.PID, syscall.SIGINT) // what doesn't listen is killed
			for deadline := time.Now().Add(fenceTime); time.Now().Before(deadline) && worksIn(pid.PID, pgdata); {
				time.Sleep(5 * time.Millisecond)
			}
		}
	}
	KillAll(pgdata)
}

// inContainer says whether this process is a child of the agent in a container that has its processes for itself, and so
// may kill all that it can reach: neither the first process nor itself. It is never so for root, or on a machine of which
// the agent is not the first process.
func inContainer() bool {
	if os.Getuid() == 0 || os.Getppid() != 1 {
		return false
	}
	first, err := os.Readlink("/proc/1/exe")
	if err != nil {
		return false
	}
	self, err := os.Readlink("/proc/self/exe")
	return err == nil && first == self
}

// KillAll kills every process that works in a data directory, whoever's child it is, and returns when none is left or they
// can't be killed. It needs nothing of the server's own: a frozen postmaster is killed too. What waits for a disk that doesn't respond is
// left, but has the signal: it ends before it does anything else.
func KillAll(pgdata string) {
	if inContainer() {
		// One call ends them all. Looking for them first takes long enough for a session to acknowledge some rows more,
		// where the machine stood still and all of it continues at once.
		_ = syscall.Kill(-1, syscall.SIGKILL)
	}
	real, err := filepath.EvalSymlinks(pgdata)
	if err != nil { // the disk: where the folder is, is known all the same
		real = pgdata
	}
	for range 500 { // a process that waits for its disk ends when the disk answers
		left := 0
		entries, _ := os.ReadDir("/proc")
		for _, entry := range entries {
			pid, err := strconv.Atoi(entry.Name())
			if err != nil {
				continue
			}
			if cwd, err := os.Readlink("/proc/" + entry.Name() + "/cwd"); err == nil && cwd == real {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may be gone by itself
				left++
			}
		}
		if left == 0 {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}
