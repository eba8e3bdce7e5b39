package postgres

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// PostmasterPID is the content of postmaster.pid. While the server starts, the lines below the port
// may not be written yet.
type PostmasterPID struct {
	PID       int // negative for a single-user backend
	DataDir   string
	Started   time.Time
	Port      int
	SocketDir string
	Listen    string
	Status    string // "starting", "stopping", "ready", "standby" or empty
}

// ParsePostmasterPID reads postmaster.pid, half written ones too. Only the process id must be there.
func ParsePostmasterPID(content []byte) (PostmasterPID, error) {
	lines := strings.Split(string(content), "\n")
	line := func(i int) string {
		if i < len(lines) {
			return strings.TrimSpace(lines[i])
		}
		return ""
	}
	pid, err := strconv.Atoi(line(0))
	if err != nil || pid == 0 {
		return PostmasterPID{}, fmt.Errorf("%w postmaster.pid: first line %q is not a process ID", ErrSyntax, line(0))
	}
	p := PostmasterPID{PID: pid, DataDir: line(1), SocketDir: line(4), Listen: line(5), Status: line(7)}
	if started, err := strconv.ParseInt(line(2), 10, 64); err == nil {
		p.Started = time.Unix(started, 0).UTC()
	}
	p.Port, _ = strconv.Atoi(line(3)) // zero while it is not written
	return p, nil
}

// Accepting says that the server accepts connections: read-write or as a hot standby.
func (p PostmasterPID) Accepting() bool { return p.Status == "ready" || p.Status == "standby" }
