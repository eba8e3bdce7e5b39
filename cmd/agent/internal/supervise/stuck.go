package supervise

import (
	"fmt"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/cmd/agent/internal/postmaster"
	"howdah.dev/howdah/pkg/agentapi"
)

// stuckRecovery is what is remembered of a replica that accepts no connections yet. Its recovery may take hours, and is left alone
// as long as it makes any progress; but one for which there is no WAL that makes it consistent waits for ever.
type stuckRecovery struct {
	looked, since time.Time
	at            postmaster.Recovery
	told          bool
}

const (
	stuckLook = time.Second
	stuckTold = 10 * time.Second
	// recoveryStuckTime is long: a clone costs more than a wait.
	recoveryStuckTime = time.Minute
)

// note says for how long nothing has moved. Only a wait counts in which a primary answers, and the WAL of which could come.
// What was received is counted once: a receiver that begins again begins with the whole segment.
func (s *stuckRecovery) note(now time.Time, at postmaster.Recovery, answers bool) time.Duration {
	s.looked = now
	still := answers && at.Asleep && at.Doing != "" && at.Doing == s.at.Doing && at.Received <= s.at.Received
	at.Received = max(at.Received, s.at.Received)
	s.at = at
	if !still || s.since.IsZero() {
		s.since = now
	}
	return now.Sub(s.since)
}

// isStuck says whether a replica's recovery stands still for so long that its copy is of no use.
func (s *server) isStuck(stuck *stuckRecovery) bool {
	now := time.Now()
	if now.Sub(stuck.looked) < stuckLook {
		return false
	}
	_, answers := s.election.Leader()
	still := stuck.note(now, s.postmaster.Recovery(), answers && s.election.Want().Role == elect.Follow)
	if tell := still >= stuckTold; tell != stuck.told {
		message := map[bool]string{true: fmt.Sprintf(
			"The recovery is stuck (%s) although the primary responds. If that lasts for %v, the data is cloned.", stuck.at.Doing, recoveryStuckTime)}[tell]
		s.set(func(status *agentapi.Status) { status.Message = message })
		stuck.told = tell
	}
	return still >= recoveryStuckTime
}

// abandon ends a recovery that stands still, so that the copy is replaced by a clone.
func (s *server) abandon(stuck stuckRecovery) error {
	s.Log.Warn("the recovery is stuck although the primary responds", "startup", stuck.at.Doing, "complaint", s.postmaster.Complaint())
	s.rejoin.useless(s.postmaster.Complaint())
	if err := s.end(); err != nil {
		s.Log.Warn("the replica did not shut down cleanly", "error", err)
	}
	return errRejoin
}
