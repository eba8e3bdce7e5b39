package standbyjob

import (
	"fmt"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// seen is what a look has found.
type seen struct {
	// connected: the server answers, so the data is consistent. The rest of what it says is known then.
	connected bool
	// replayed is at least that; positioned: it was, in this life of the worker, exactly that, as the server has said.
	replayed   postgres.LSN
	positioned bool
	committed  time.Time // of the last transaction that was replayed; zero: none was
	paused     bool
	writes     bool // it is no standby any more
	// complaint is what the server said when it ended by itself; empty: it runs.
	complaint string
	// diverged: the server has said that the newest timeline left its own before the position that it has replayed.
	diverged bool

	// tip of the archive, and why it can't be read. tipKnown: it was read in this life of the worker.
	tip      tip
	tipKnown bool
	tipError string
	// served and lacked are segments: what the server got last, and what it asked for in vain since. lackedSince is when that was seen first.
	served, lacked postgres.Segment
	lackedSince    time.Time
	// trouble is why a request of the server waits.
	trouble string
	// movedTo is a younger lineage of the source that is written by now.
	movedTo string
}

// inFlight is how long a segment may be missing although a later one is there: the source pushes several at a time.
const inFlight = time.Minute

// missing says whether the archive has a gap where the server wants to continue.
func (s seen) missing(now time.Time) bool {
	return s.lacked != (postgres.Segment{}) && s.tip.beyond(s.lacked) && now.Sub(s.lackedSince) >= inFlight
}

// problems keep a standby from following.
func (s seen) problems(now time.Time) (found []agentapi.StandbyProblem) {
	add := func(reason, format string, args ...any) {
		found = append(found, agentapi.StandbyProblem{Reason: reason, Message: fmt.Sprintf(format, args...)})
	}
	const again = "Set spec.standby.reinit: FromNewerBackup to have it replaced by a newer backup, or delete this PostgresCluster and create it again"
	if s.diverged {
		add(agentapi.StandbyDiverged, "The source has failed over to a server that lacks some of the WAL that it had archived, and that was replayed here (up to LSN %s). %s. "+
			"If the source is lost, and this data is the best there is, set spec.standby.promote: Immediately.", s.replayed, again)
	}
	if s.missing(now) {
		add(agentapi.StandbyWALMissing, "Segment %s is not in the archive, although later ones are: retention may have deleted it. %s. "+
			"If the source is lost, set spec.standby.promote: Immediately to continue without what comes after LSN %s.", s.lacked, again, s.replayed)
	}
	if s.movedTo != "" {
		add(agentapi.StandbySourceMoved, "The source archives to lineage %s by now. After a Restore in place, set spec.standby.source.repository.lineage: %[1]s to follow it there. "+
			"After a major Upgrade, delete this PostgresCluster and create it again, with the new spec.version.", s.movedTo)
	}
	switch {
	case s.trouble != "":
		add(agentapi.StandbyNotFollowing, "%s", s.trouble)
	case s.tipError != "":
		add(agentapi.StandbyNotFollowing, "%s", s.tipError)
	case s.complaint != "":
		add(agentapi.StandbyNotFollowing, "PostgreSQL does not replay WAL, and is started again: %s", s.complaint)
	case s.paused:
		add(agentapi.StandbyNotFollowing, "Replay is paused. Run SELECT pg_wal_replay_resume() in the pod of the init Job.")
	}
	return found
}

// obstacle is why a promotion at the end of the archive can't be completed now; nil: all that the archive had when it was asked for its end is
// replayed.
func (s seen) obstacle(target target, targetError string, now time.Time) []agentapi.StandbyProblem {
	const unless = "The promotion waits. To promote without the rest, set spec.standby.promote: Immediately."
	found := s.problems(now)
	switch {
	case targetError != "":
		found = append(found, agentapi.StandbyProblem{Reason: agentapi.StandbyNotFollowing, Message: "The end of the archive isn't known: " + targetError + ". " + unless})
	case !s.connected:
		found = append(found, agentapi.StandbyProblem{Reason: agentapi.StandbyNotFollowing, Message: "The data isn't consistent yet, and is still being replayed. " + unless})
	case s.diverged || s.missing(now) || !target.reached(s.replayed, s.lacked):
		found = append(found, agentapi.StandbyProblem{Reason: agentapi.StandbyNotFollowing, Message: fmt.Sprintf("The archive continues to LSN %s, and WAL is replayed up to %s. %s", target.end, s.replayed, unless)})
	default:
		return nil
	}
	return found
}
