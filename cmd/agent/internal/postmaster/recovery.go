package postmaster

import (
	"fmt"
	"os"
	"regexp"
	"strings"

	"howdah.dev/howdah/pkg/postgres"
)

// Recovery is what can be seen from outside of a replica that accepts no connections yet. Its zero value says that nothing can.
type Recovery struct {
	// Doing is what the process that replays calls itself, with the segment that it is at.
	Doing string
	// Received is how far WAL came from the primary, where it is being received.
	Received postgres.LSN
	// Asleep: that process waits, and not for a restore_command.
	Asleep bool
}

var (
	replaying = regexp.MustCompile(`\bstartup +((?:recovering|waiting for) [0-9A-F]{24})`)
	receiving = regexp.MustCompile(`\bwalreceiver +streaming ([0-9A-F]+/[0-9A-F]+)`)
)

// Recovery looks at the server's processes.
func (s *Server) Recovery() Recovery {
	found := Recovery{}
	for _, p := range childrenOf(s.PID()) {
		title, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
		if err != nil {
			continue // it has just ended
		}
		found.see(strings.TrimRight(string(title), "\x00 "), p)
	}
	return found
}

func (r *Recovery) see(title string, p process) {
	if match := replaying.FindStringSubmatch(title); match != nil {
		r.Doing, r.Asleep = match[1], p.state == "S" && len(childrenOf(p.pid)) == 0
	}
	if match := receiving.FindStringSubmatch(title); match != nil {
		r.Received, _ = postgres.ParseLSN(match[1]) // 0 if it is none
	}
}
