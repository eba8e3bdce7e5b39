package supervise

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/cmd/agent/internal/replicate"
	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/agentapi"
)

// promoteTime is how long a promotion may take. What is left to replay at its end is little: the replica has followed.
const promoteTime = time.Minute

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
	limited, cancel := context.WithTimeout(ctx, promoteTime)
	defer cancel()
	if found, err := s.chooseTimeline(limited, want.Timeline); err != nil {
		return s.unpromoted(err)
	} else if want.Timeline > 0 && found.Timeline >= want.Timeline { // a promotion was interrupted; the election finds a later one
		s.election.report(func(server *elect.Server) { server.Mode, server.Position = elect.Replica, found })
		s.startServices(ctx)
		return nil
	}
	err := s.probe.Ask(limited, func(ctx context.Context, conn *pgx.Conn) error { return replicate.Promote(ctx, conn) })
	if err == nil && want.Sync.Quorum > 0 { // the Lease says that commits wait, so no client comes before they do
		err = s.awaitWaitingCommits(limited)
	}
	if err != nil {
		return s.unpromoted(err)
	}
	s.promoted(began)
	s.archiver.SetPrimary(true)
	s.startServices(ctx)
	s.applySync(ctx, s.election.Want().Sync)
	return nil
}

// chooseTimeline has the promotion begin the timeline that nobody else may begin, once the replica knows where it is.
func (s *server) chooseTimeline(ctx context.Context, wanted int64) (found agentapi.Position, err error) {
	for wanted > 0 {
		if found, err = s.locate(ctx); err != nil {
			return found, err
		}
		if found.Timeline > 0 {
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
	replication := settings.Replication{Pod: s.Pod, Synchronous: synchronousNames(sync), StandbySlots: before.StandbySlots, VolumeBytes: before.VolumeBytes, ReadOnly: before.ReadOnly, Closed: before.Closed}
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
