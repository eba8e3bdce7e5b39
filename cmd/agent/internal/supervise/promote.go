package supervise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/cmd/agent/internal/postmaster"
	"howdah.dev/howdah/cmd/agent/internal/replicate"
	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

const (
	// promoteTime is for how long a promotion may replay nothing. How long it takes is not bounded: WAL is received faster than one process replays
	// it, and a server that is killed meanwhile begins again from its last restartpoint.
	promoteTime = time.Minute
	// promotingAfter is how long a promotion takes until the status says so.
	promotingAfter = 2 * time.Second
)

const promotingMessage = "This instance is being promoted, and first replays the WAL that it has received."

// promote makes the running replica the primary. Where commits are to wait they do from the first one on, as a replica waits for somebody before.
func (s *server) promote(ctx context.Context) error {
	began := time.Now()
	want := s.election.Want()
	if !s.election.Guard() {
		return nil // no more
	}
	s.election.report(func(server *elect.Server) { server.Mode = elect.Starting })
	s.endReading()
	synced := synchronousNames(want.Sync) == s.conf.replication.Synchronous
	slots := s.memberSlots()
	if !synced || s.conf.replication.FromArchive || slots != s.conf.replication.StandbySlots {
		s.conf.replication.FromArchive, s.conf.replication.StandbySlots = false, slots
		if !synced {
			s.conf.replication.Synchronous = synchronousNames(want.Sync)
			s.election.told(want.Sync)
		}
		if err := s.conf.reloadReplication(ctx, s.postmaster); err != nil {
			return s.unpromoted(err)
		}
	}
	s.settle()
	found, err := replayAll(ctx, s, want)
	switch {
	case err != nil:
		return s.unpromoted(err)
	case found.Timeline > 0: // a promotion was interrupted; the election finds a later timeline
		s.election.report(func(server *elect.Server) { server.Mode, server.Position = elect.Replica, found })
		s.startServices(ctx)
		return nil
	}
	s.promoted(began)
	s.archiver.SetPrimary(true)
	s.startServices(ctx)
	s.applySync(ctx, s.election.Want().Sync)
	return nil
}

// replayAll returns once the server is a primary, for which it replays all that it has, or where it is if it is on the wanted timeline already.
func replayAll(ctx context.Context, s *server, want elect.Want) (reached agentapi.Position, err error) {
	defer s.waiting()()
	limited, replayed, end := whileReplaying(ctx, s.postmaster, cmp.Or(s.PromotePatience, promoteTime))
	defer s.clearMessage(promotingMessage)
	defer end()
	defer time.AfterFunc(promotingAfter, func() { tellPromotion(limited, s.State) }).Stop()
	found, err := s.chooseTimeline(limited, want.Timeline, replayed)
	if err == nil && want.Timeline > 0 && found.Timeline >= want.Timeline {
		return found, nil
	}
	if err == nil {
		err = replicate.Promote(limited, s.probe.Ask, replayed)
	}
	if err == nil && want.Sync.Quorum > 0 { // the Lease says that commits wait, so no client comes before they do
		err = s.awaitWaitingCommits(limited)
	}
	if err != nil {
		err = errors.Join(err, context.Cause(limited))
	}
	return agentapi.Position{}, err
}

// tellPromotion publishes what a promotion is waited for, as long as ctx has not ended.
func tellPromotion(ctx context.Context, state *State) {
	state.set(func(status *agentapi.Status) {
		if ctx.Err() == nil {
			status.Message = promotingMessage
		}
	})
}

// whileReplaying is a context that ends when replayed was told nothing new for so long. A single record may take longer, such as the end of a large
// table; then the process that replays is at work.
func whileReplaying(ctx context.Context, server *postmaster.Server, patience time.Duration) (_ context.Context, replayed func(postgres.LSN), end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	moved := make(chan struct{}, 1)
	go func() {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-moved:
			case <-timer.C:
				if at := server.Recovery(); at.Doing == "" || at.Asleep {
					cancel(fmt.Errorf("nothing was replayed for %s", patience))
					return
				}
			}
			timer.Reset(patience)
		}
	}()
	var last postgres.LSN
	replayed = func(at postgres.LSN) {
		if at != last {
			last = at
			wake(moved)
		}
	}
	return ctx, replayed, func() { cancel(nil) }
}

// chooseTimeline has the promotion begin the timeline that nobody else may begin, once the replica knows where it is.
func (s *server) chooseTimeline(ctx context.Context, wanted int64, replayed func(postgres.LSN)) (found agentapi.Position, err error) {
	for wanted > 0 {
		at, err := s.position(ctx)
		if err != nil {
			return found, err
		}
		replayed(at.Replayed)
		if found = positionOf(at); found.Timeline > 0 {
			return found, replicate.SkipTimelines(s.copy.pgdata, found.Timeline, wanted)
		}
		select {
		case <-ctx.Done():
			return found, ctx.Err()
		case <-time.After(startPoll):
		}
	}
	return found, nil
}

// promoted lets the clients in first, and the rest follows.
func (s *server) promoted(began time.Time) {
	s.as = primaryMode
	s.election.report(func(server *elect.Server) { *server = elect.Server{Mode: elect.Primary, Sync: elect.Sync{Quorum: -1}} }) // until it is known since when
	s.publisher.Set(true)
	s.publisher.Role(rolePrimary, false)
	s.conf.replication.Upstream = nil
	took := time.Since(began)
	left, messages := s.maintainer(s.copy).Pending() // by what it was told as a replica
	s.set(func(status *agentapi.Status) {
		status.Role, status.Replication = rolePrimary, nil
		status.Maintenance, status.MaintenanceMessages = left, messages
	})
	s.mu.Lock()
	s.promotedAt, s.promotionTook = began.UTC(), took
	s.mu.Unlock()
	*s.rejoin = rejoin{}
	s.Log.Info("promoted to primary", "took", took.Round(time.Millisecond).String())
}

// unpromoted ends a server that is neither replica nor primary for sure. It is started again as what is wanted then.
func (s *server) unpromoted(err error) error {
	s.Log.Error("the promotion failed", "error", err)
	s.kill()
	return errChanged
}

// applySync makes commits of the primary wait for whom the election says. If it fails it is tried again: the election goes
// on asking.
func (s *server) applySync(ctx context.Context, sync elect.Sync) {
	before := s.conf.replication
	replication := settings.Replication{Pod: s.Pod, Synchronous: synchronousNames(sync), StandbySlots: before.StandbySlots, VolumeBytes: before.VolumeBytes, WALVolumeBytes: before.WALVolumeBytes, ReadOnly: before.ReadOnly, Closed: before.Closed}
	if sameReplication(replication, before) {
		return
	}
	s.conf.replication = replication
	if err := s.conf.reloadReplication(ctx, s.postmaster); err != nil {
		s.conf.replication = before
		s.Log.Warn("synchronous_standby_names can't be changed yet", "error", err)
		return
	}
	s.Log.Info("changed whom commits wait for", "synchronous_standby_names", replication.Synchronous)
	s.election.changed(sync)
}
