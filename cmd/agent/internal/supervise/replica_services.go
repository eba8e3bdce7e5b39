package supervise

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/archive"
	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/replicate"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

const (
	oldCopyAge = time.Hour       // that a copy is kept after it was replaced
	assessTime = 2 * time.Second // that a replica may make no progress until it is asked why
	// archivePatience is how long a replica that makes no progress waits for an archive that can't be asked.
	archivePatience = 10 * time.Second
)

// replicaServices run beside a replica, in goroutines of their own, on what they were given when they started.
type replicaServices struct {
	*shared
	copy     *adopted
	archiver *archive.Archiver
	// lead is after which times clients that came are still to be led away.
	lead  []time.Duration
	pause pause
	late  late
}

// run does what a running replica needs beside its supervision, until ctx ends.
func (s *replicaServices) run(ctx context.Context) {
	s.learn(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { newDeepChecks(s.shared, s.copy, false).run(ctx) })
	beside.Go(func() { s.countSessions(ctx) })
	defer beside.Wait()
	began := time.Now()
	var kept, facts time.Time
	for turn := 0; ; turn++ {
		if turn == 1 { // mostly the pod is Ready by now, so that the -ro Service takes it in once, instead of as one that isn't first
			s.publisher.Role(roleReplica, s.late.is)
		}
		s.lookForDelay(turn > 0)
		leader, answers := s.election.Leader()
		if err := s.look(ctx, leader, answers); err != nil && ctx.Err() == nil {
			s.Log.Debug("the replica doesn't say where it is", "error", err)
		}
		if answers && time.Since(kept) >= slotInterval && s.slots.keep(ctx, s.needed(leader)) == nil {
			kept = time.Now()
			s.dropFormerSlots(ctx)
			s.tidy()
		}
		if time.Since(facts) >= factsInterval {
			s.learn(ctx)
			facts = time.Now()
		}
		s.leadAway(ctx, time.Since(began))
		pause := replicaTick
		if s.election.Want().Leader.Name == "" {
			pause /= 5 // somebody is about to take over
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// look tells the election where the replica is, and notes whether it makes any progress.
func (s *replicaServices) look(ctx context.Context, leader agentapi.FollowAnswer, answers bool) error {
	var found replicate.Position
	err := s.ask(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		found, err = replicate.LocalPosition(ctx, conn)
		return err
	})
	if err != nil {
		return err
	}
	position := positionOf(found)
	s.election.report(func(server *elect.Server) {
		if server.Mode == elect.Replica {
			server.Position = position
		}
	})
	s.progress.note(found, answers, s.archiver.Fetching(), s.late.is)
	if found.Streaming {
		s.reinits.settle(s.copy.generation, false)
	}
	s.lookForPause(ctx, found)
	if found.Streaming && s.progress.endReading(s.archiver) {
		s.Log.Info(readsNoMore)
	}
	if answers && s.progress.idleFor(assessTime) {
		s.assess(ctx, found)
	}
	if answers && s.late.is {
		s.lookForFork(ctx, found)
	}
	if answers {
		s.archiver.Confirmed(leader.ArchivedWAL, leader.Archives)
	}
	if left := leader.Maintenance; answers && left != nil {
		complete := int64(found.Timeline) == leader.Timeline && uint64(found.LSN) >= leader.LSN
		if err := s.maintainer(s.copy).Told(left.Work, complete); err != nil {
			s.Log.Warn("maintenance that the primary has yet to do can't be recorded", "error", err)
		}
	}
	s.publishLag(found, leader, answers)
	return nil
}

const readsNoMore = "the replica reads the archive no more"

// publishLag publishes how far the replica lags. The primary's word is a second old at most, so a replica may be ahead of it.
func (s *replicaServices) publishLag(found replicate.Position, leader agentapi.FollowAnswer, answers bool) {
	lag, overdue := int64(0), (*int64)(nil)
	delay := delayOf(s.latest.config(), s.Pod, s.election.Want())
	if answers && delay == 0 {
		lag = int64(lacks(uint64(found.Replayed), leader.LSN))
	}
	if answers && leader.DueLSN > 0 && delay == 0 {
		overdue = new(int64(lacks(uint64(found.Replayed), leader.DueLSN)))
	}
	since := s.progress.lagging(lag, answers)
	s.set(func(status *agentapi.Status) {
		status.Replication = &agentapi.ReplicationStatus{
			Streaming: found.Streaming, ReceivedLSN: found.LSN.String(), ReplayedLSN: found.Replayed.String(),
			LagBytes: lag, LagSeconds: since.Seconds(), OverdueBytes: overdue, FromArchive: s.progress.readsFor(s.election.Want()),
			DelaySeconds: min(delay, found.DelaySeconds), ReplayPaused: delay > 0 && found.Paused,
		}
	})
}

// assess finds out what a replica that makes no progress needs.
func (s *replicaServices) assess(ctx context.Context, found replicate.Position) {
	want := s.election.Want()
	if !found.Settled || want.Leader.Name == "" {
		return
	}
	asking, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	remedy, history, err := s.replicateInstance(s.copy.generation.MajorVersion, s.copy.binDir, s.copy.paths).Assess(asking, *s.upstream(s.latest.config(), want.Leader), found)
	if err != nil {
		s.Log.Debug("what the replica needs can't be found out", "error", err)
		return
	}
	needs := map[replicate.Remedy]method{replicate.ByRewind: byRewind, replicate.ByClone: byClone}[remedy]
	if needs == byClone && s.archiveHelps(ctx, want, history, found.LSN) {
		needs = asItIs
	}
	s.progress.need(needs)
}

// archiveHelps has a replica whose WAL was removed from the primary read the archive, and says false if that is of no use: the
// replica is cloned only then. It has a restore_command only as long as it reads: PostgreSQL would call it several times in every
// promotion.
func (s *replicaServices) archiveHelps(ctx context.Context, want elect.Want, history postgres.TimelineHistory, lsn postgres.LSN) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	offers, err := s.archiver.Offers(ctx, history, lsn)
	if err == nil && offers {
		err = s.archiver.Supply(history, generation.WAL(s.Volume).Beside(s.copy.generation.ID, "fetched"))
	}
	if err != nil {
		s.Log.Debug("the archive can't be asked for the WAL that the primary no longer has", "error", err)
		return !s.progress.idleFor(archivePatience)
	}
	if offers && s.progress.read(want) {
		s.Log.Info("the primary no longer has the WAL that this replica needs; it is read from the archive", "leader", want.Leader.Name, "from", lsn)
	}
	return offers
}

// needed is what WAL the others need by the word of the primary, which itself needs what it has not written.
func (s *replicaServices) needed(leader agentapi.FollowAnswer) map[string]uint64 {
	positions := maps.Clone(leader.Slots)
	if positions == nil {
		positions = map[string]uint64{}
	}
	positions[s.election.Want().Leader.Name] = leader.LSN
	return positions
}

// tidy removes copies of the data that were replaced long ago, beside a replica that follows and a primary: an instance may take over soon after
// it was cloned, and lead for years.
func (s *shared) tidy() {
	current, err := s.Volume.Current()
	if err != nil || s.reinits.running() || s.latest.keepsReplaced(s.disk.scarce()) { // the copy that was replaced stays until the new one streams
		return
	}
	age := oldCopyAge
	if s.disk.scarce() {
		age = 0
	}
	removed, err := s.Volume.RemoveOldCopies(current, age, time.Now())
	if err != nil {
		s.Log.Warn("old copies can't be removed", "error", err)
	}
	if len(removed) > 0 {
		s.Log.Info("removed copies that were replaced", "copies", removed)
	}
}
