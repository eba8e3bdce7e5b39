package postmaster

import (
	"fmt"
	"os"
	"regexp"
	"syscall"
	"time"

	"howdah.dev/howdah/pkg/postgres"
)

// A shutdown waits until every client of replication has confirmed all WAL, or has said nothing for wal_sender_timeout, a minute by
// default. The replicas of a cluster must get all of it. Others, such as a client of logical decoding, lose nothing when they are
// disconnected before: they continue from their slot, at this server or at the next primary.
const (
	receiverTime  = 2 * time.Second // how long a shutdown waits for others
	receiverAgain = time.Second     // the first signal may find one that can't send its last message
)

var sending = regexp.MustCompile(`\bwalsender (\S+) `)

// endReceivers disconnects the clients of replication that hold up a shutdown and are none of the cluster's replicas.
func (s *Server) endReceivers() {
	for wait := receiverTime; ; wait = receiverAgain {
		select {
		case <-s.done:
			return
		case <-time.After(wait):
		}
		for _, p := range childrenOf(s.PID()) {
			title, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
			if err != nil || !serves(string(title)) {
				continue
			}
			if syscall.Kill(p.pid, syscall.SIGTERM) == nil && s.spec.Log != nil {
				s.spec.Log.Info("a client of replication that held up the shutdown is disconnected", "process", p.pid)
			}
		}
	}
}

// serves says whether a process with this title sends WAL to somebody else than a replica of the cluster.
func serves(title string) bool {
	match := sending.FindStringSubmatch(title)
	return match != nil && match[1] != postgres.RoleReplication
}
