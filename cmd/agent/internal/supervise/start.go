package supervise

import (
	"context"
	"errors"
	"fmt"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/cmd/agent/internal/member"
	"howdah.dev/howdah/cmd/agent/internal/postmaster"
	"howdah.dev/howdah/pkg/agentapi"
)

// start starts the server and returns when it accepts connections. An error is its end.
func (s *server) start(ctx context.Context) error {
	s.archiver.SetPrimary(s.as == primaryMode)
	s.set(func(status *agentapi.Status) {
		status.State, status.Role, status.Closed = agentapi.StateStarting, "", ""
	})
	s.election.report(func(server *elect.Server) { *server = elect.Server{Mode: elect.Starting} })
	var err error
	s.postmaster, err = postmaster.Start(postmaster.Spec{
		BinDir: s.copy.binDir, PGData: s.copy.pgdata, Args: s.conf.files.Arguments(s.copy.paths),
		Socket: s.socket(), Lock: s.copy.lock, Log: s.Log, LDAPConfFile: s.copy.paths.LDAPConfFile,
		Literals: func() bool { return s.latest.config().LogLiterals },
	})
	if err != nil {
		return err
	}
	s.Log.Info("started PostgreSQL", "pid", s.postmaster.PID(), "config", s.conf.effect.Hash())
	defer s.waiting()() // recovery takes as long as it takes
	return s.awaitStart(ctx)
}

// awaitStart returns when the server accepts connections.
func (s *server) awaitStart(ctx context.Context) error {
	tick := time.NewTicker(startPoll)
	defer tick.Stop()
	recovery := stuckRecovery{}
	for {
		select {
		case <-tick.C:
			if s.postmaster.Accepting() {
				return nil
			}
			if s.as == primaryMode && s.crashes.hopeless() && s.election.replaceable() && !s.latest.paused() {
				return s.despair()
			}
			if s.as == replicaMode && s.isStuck(&recovery) && s.latest.repairsPaused() == "" {
				return s.abandon(recovery)
			}
		case <-s.postmaster.Done():
			return s.notStarted()
		case <-s.election.Changed():
			if err := s.reconsider(); err != nil {
				return err
			}
		case <-ctx.Done():
			return s.stop()
		}
	}
}

// reconsider ends a start that is not wanted any more.
func (s *server) reconsider() error {
	want := s.election.Want()
	switch {
	case s.as == primaryMode && want.Role != elect.Lead:
		s.crashes.patience *= 4 // the next try may take longer: it begins from the start
		s.kill()
		return errChanged
	case s.as == replicaMode && want.Role == elect.Stop:
		s.kill()
		return errChanged
	case s.as == replicaMode && want.Role == elect.Follow:
		return s.followOther(want)
	}
	return nil
}

// despair ends a start that takes too long while others could take over. Should nobody do so, the next try may take longer.
func (s *server) despair() error {
	s.crashes.patience = 4 * max(s.crashes.patience, s.crashes.least)
	s.kill()
	return errors.New("PostgreSQL did not come up again in time")
}

// notStarted blames the configuration if it is a new one, or a replica's copy.
func (s *server) notStarted() error {
	complaint := s.postmaster.Complaint()
	if complaint == "" {
		complaint = fmt.Sprint(s.postmaster.Ended())
	}
	err := errors.Join(fmt.Errorf("PostgreSQL does not start: %s", complaint), s.postmaster.CleanUp())
	if s.as == primaryMode && s.election.Want().Role != elect.Lead {
		return errChanged // it was killed
	}
	switch refused, mayHelp := s.conf.blame(s.latest.config(), complaint); {
	case refused:
		s.crashes.failures, s.crashes.blameless = 0, true
	case !mayHelp && s.as == replicaMode:
		s.rejoin.failed(complaint)
	}
	return err
}

// up notes that the server accepts connections.
func (s *server) up() {
	s.conf.keepGood()
	s.holdBack("")
	left, messages := s.maintainer(s.copy).Pending() // shown with the first word that the server runs
	changed := s.set(func(status *agentapi.Status) {
		status.Maintenance, status.MaintenanceMessages = left, messages
		status.State, status.Message, status.StartedAt = agentapi.StateRunning, "", time.Now().UTC().Truncate(time.Second)
		status.PendingRestart, status.Rejoin = nil, nil
		if s.as == primaryMode && s.conf.replication.Closed {
			status.Closed = recoveredMessage
		}
	})
	s.crashes.up(s.as)
	if s.as == primaryMode {
		s.election.report(func(server *elect.Server) { *server = elect.Server{Mode: elect.Primary, Sync: elect.Sync{Quorum: -1}} }) // until it is known since when
	} else {
		member.Stay(s.election.Member)
		s.election.report(func(server *elect.Server) { *server = elect.Server{Mode: elect.Replica} })
	}
	if changed {
		s.Log.Info("PostgreSQL accepts connections", "pid", s.postmaster.PID())
	}
}
