package supervise

import (
	"fmt"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/cmd/agent/internal/postmaster"
	"howdah.dev/howdah/pkg/agentapi"
)

// standstill is what is remembered of a replica that takes no connections yet. Its recovery may take hours, and is left alone
// as long as it makes any way; but one for which there is no WAL that makes it consistent waits for ever.
type standstill struct {
	looked, since time.Time
	at            postmaster.Recovery
	told          bool
}

const (
	standstillLook = time.Second
	standstillTold = 10 * time.Second
	// standstillTime is long: a clone costs more than a wait.
	standstillTime = time.Minute
)

// note says for how long nothing has moved. Only a wait counts in which a primary answers, and the WAL of which could come.
// What was received is counted once: a receiver that begins again begins with the whole segment.
func (s *standstill) note(now time.Time, at postmaster.Recovery, answers bool) time.Duration {
	s.looked = now
	still := answers && at.Asleep && at.Doing != "" && at.Doing == s.at.Doing && at.Received <= s.at.Received
	at.Received = max(at.Received, s.at.Received)
	s.at = at
	if !still || s.since.IsZero() {
		s.since = now
	}
	return now.Sub(s.since)
}

// stands says whether a replica's recovery stands still for so long that its copy is of no use.
func (r *runner) stands(s *standstill, server *postmaster.Server) bool {
	now := time.Now()
	if now.Sub(s.looked) < standstillLook {
		return false
	}
	_, answers := r.member.Leader()
	still := s.note(now, server.Recovery(), answers && r.member.Want().Role == elect.Follow)
	if tell := still >= standstillTold; tell != s.told {
		message := map[bool]string{true: fmt.Sprintf(
			"The recovery stands still (%s) though the primary answers. If that lasts for %v, the data is cloned.", s.at.Doing, standstillTime)}[tell]
		r.set(func(status *agentapi.Status) { status.Message = message })
		s.told = tell
	}
	return still >= standstillTime
}

// abandon ends a recovery that stands still, so that the copy is replaced by a clone.
func (r *runner) abandon(server *postmaster.Server, as mode, s standstill) error {
	r.Log.Warn("the recovery stands still, though the primary answers", "startup", s.at.Doing, "complaint", server.Complaint())
	r.rejoin.next = byClone
	r.rejoin.message = server.Complaint()
	if err := r.end(server, as); err != nil {
		r.Log.Warn("the replica did not shut down cleanly", "error", err)
	}
	return errRejoin
}
