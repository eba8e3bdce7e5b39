package supervise

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/archive"
	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/cmd/agent/internal/replicate"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// stop ends the server because the pod ends. No client is sent here any more before the sessions are closed.
func (s *server) stop() error {
	defer s.waiting()()
	s.election.Leave()
	deserted := false
	if s.as == primaryMode && s.latest.elects() {
		s.checkpoint(context.Background())
		deserted = isDeserted(context.Background(), s)
	}
	if s.as == replicaMode && s.latest.replicasLast() && !delayed(s.latest.config(), s.Pod) {
		awaitRest(context.Background(), s)
	}
	err := s.endOf(deserted)
	s.set(func(status *agentapi.Status) { status.State = agentapi.StateStopped })
	if err != nil {
		s.Log.Error("PostgreSQL has been stopped, but not cleanly", "error", err)
	} else {
		s.Log.Info("PostgreSQL has been stopped")
	}
	finishArchive(s)
	return stopped{err}
}

// finishArchive archives what the server had to end without, and says what only the volume has. Where all instances end at once, nobody else has
// it, and whoever deletes the cluster has to know. The lease is given up meanwhile.
func finishArchive(s *server) {
	s.election.Leave()
	if s.as != primaryMode || s.latest.config().Archive == nil {
		return
	}
	control, err := postgres.ReadControlData(context.Background(), postgres.Exec, s.copy.binDir, s.copy.pgdata)
	if err != nil || control.State != postgres.StateShutDown {
		s.Log.Warn("whether all WAL is archived is not known", "state", control.State, "error", err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.grace.finish())
	defer cancel()
	how := agentapi.Shutdown{Instance: s.Pod, DataGeneration: s.copy.generation.DataGeneration()}
	if how.Unarchived, err = s.archiver.Finish(ctx, control); err != nil {
		how.Error = archive.Explain(err)
		s.Log.Warn("not all WAL is archived", "files", len(how.Unarchived), "error", err)
	}
	how.Unarchived = how.Unarchived[:min(len(how.Unarchived), namedFiles)]
	if err != nil && len(how.Unarchived) == 0 {
		return // nothing is known
	}
	saying, end := context.WithTimeout(context.Background(), withdrawTime)
	defer end()
	s.publisher.Ended(saying, how)
}

// namedFiles is how many files of WAL are named that are not archived.
const namedFiles = 8

// isDeserted says whether no replica is left to take over, after the election was told which. Where all pods end at once they are gone by now.
// Replicas that end after it stay connected until they have everything, and take over nothing.
func isDeserted(ctx context.Context, s *server) bool {
	connected, err := s.replicas.tell(ctx)
	return err == nil && connected == 0 || s.latest.replicasLast()
}

// noteDeserted has nobody waited for, and clients told at once that there is no primary, rather than when a connection to this pod hangs.
func noteDeserted(ctx context.Context, s *server) {
	s.withdraw(ctx)
	s.election.report(func(server *elect.Server) { server.Deserted = true })
}

// awaitRest waits until the primary has ended and all that it has sent is replayed here, as far as the grace period and the limit for the
// replay allow. The checkpoint of its shutdown is then the last one of this replica as well, by which anybody can tell that it has everything.
func awaitRest(ctx context.Context, s *server) {
	ctx, cancel := context.WithTimeout(ctx, s.grace.rest())
	defer cancel()
	tick := time.NewTicker(startPoll)
	defer tick.Stop()
	streamed := time.Now()
	for {
		var p replicate.Position
		err := s.probe.Ask(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
			p, err = replicate.LocalPosition(ctx, conn)
			return err
		})
		if err != nil || p.Streaming {
			streamed = time.Now()
		} else if p.Settled && p.Replayed >= p.LSN {
			s.Log.Info("the primary has ended, and this replica has all of its WAL")
			return
		} else if time.Since(streamed) > s.latest.replayLimit() {
			s.Log.Warn("this replica ends without having replayed all of its WAL")
			return
		}
		select {
		case <-tick.C:
		case <-s.postmaster.Done():
			return
		case <-ctx.Done():
			s.Log.Warn("this replica ends before its primary, or without the last of its WAL", "error", err)
			return
		}
	}
}

// handOver ends the server because the election wants that: the replicas get everything before.
func (s *server) handOver(ctx context.Context) error {
	defer s.waiting()()
	if s.as == primaryMode {
		s.checkpoint(ctx)
	}
	patience, cancel := patience(s)
	defer cancel()
	s.warnPoolers(patience)
	if takenBack(patience, s) {
		awaitChange(ctx, s.election)
		return s.obey(ctx)
	}
	if err := shutDown(patience, s); err != nil {
		s.Log.Warn("PostgreSQL did not shut down cleanly", "error", err)
	}
	if ctx.Err() != nil {
		finishArchive(s)
		return stopped{s.postmaster.Ended()}
	}
	return errChanged
}

const withdrawTime = 2 * time.Second

// end ends the server in order, as far as the grace period allows.
func (s *server) end() error { return s.endOf(false) }

// endOf ends a server that may have no replica which takes over. Its poolers are told before: they pause for as long as it still is the primary.
func (s *server) endOf(deserted bool) error {
	patience, cancel := patience(s)
	defer cancel()
	s.warnPoolers(patience)
	if deserted {
		noteDeserted(patience, s)
	}
	return shutDown(patience, s)
}

// patience is for how long a server may take to end.
func patience(s *server) (context.Context, context.CancelFunc) {
	if s.Grace <= 0 {
		return context.WithCancel(context.Background())
	}
	return context.WithTimeout(context.Background(), s.grace.shutdown())
}

// shutDown ends a server whose poolers were told.
func shutDown(patience context.Context, s *server) error {
	s.set(func(status *agentapi.Status) { status.State, status.Role = agentapi.StateStopping, "" })
	s.election.report(func(server *elect.Server) { server.Mode = elect.Starting })
	s.disk.giveReserve()
	hurry := s.archiver.Stopping
	if s.latest.elects() && !s.election.deserted() {
		hurry = s.archiver.GivingUp // the others have the WAL, and wait
	}
	hurry(true)
	defer hurry(false)
	if s.settle != nil {
		s.settle()
	}
	s.probe.Close()
	if s.as == primaryMode && !s.latest.elects() {
		s.withdraw(patience)
	} else {
		s.publisher.Yield()
	}
	s.forgetAbsent()
	err := s.postmaster.Stop(patience)
	var timeline int64
	var end uint64
	if err == nil && s.as == primaryMode {
		timeline, end = s.copy.lastLSN()
	}
	s.election.report(func(server *elect.Server) {
		server.Mode, server.End, server.Position.Timeline = elect.Down, end, timeline
	})
	return err
}

// withdraw sends clients here no more, if the API server hears it in time.
func (s *server) withdraw(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, withdrawTime)
	defer cancel()
	s.publisher.Withdraw(ctx)
}

// lastLSN is where the checkpoint of a clean shutdown begins, the last record of all; 0: there was none.
func (a *adopted) lastLSN() (timeline int64, lsn uint64) {
	control, err := postgres.ReadControlData(context.Background(), postgres.Exec, a.binDir, a.pgdata)
	if err != nil || control.State != postgres.StateShutDown {
		return 0, 0
	}
	return int64(control.Timeline), uint64(control.Checkpoint)
}

// checkpoint while clients still write shortens the time that the server is away.
func (s *server) checkpoint(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.grace.checkpoint())
	defer cancel()
	err := s.server.With(ctx, "postgres", func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "CHECKPOINT")
		return err
	})
	if err != nil {
		s.Log.Warn("no checkpoint before the shutdown", "error", err)
	}
}
