package supervise

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"

	"howdah.dev/howdah/cmd/agent/internal/archive"
	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/cmd/agent/internal/postmaster"
	"howdah.dev/howdah/pkg/agentapi"
)

// mode is how a server is started, or what it is by now.
type mode int

const (
	primaryMode mode = iota
	replicaMode
)

// server is PostgreSQL on a copy of the data, from its start to its end. It belongs to the goroutine of loop, as do conf, rejoin and
// crashes, which outlive it.
type server struct {
	*shared
	copy     *adopted
	archiver *archive.Archiver
	conf     *configuration
	rejoin   *rejoin
	crashes  *crashes

	as         mode // what it is by now
	postmaster *postmaster.Server
	health     *health
	replicas   *replicas // of a primary
	entrance   entrance  // of a primary
	stragglers bool      // clients that want a primary may still come to this replica
	// settle stops the services, and waits for it; nil: they have not been started.
	settle func()
}

// startServices begins what runs beside the running server.
func (s *server) startServices(ctx context.Context) {
	epoch, end := context.WithCancel(ctx)
	ended := make(chan struct{})
	s.health = newHealth(s.instance)
	go s.health.knock(epoch)
	run := s.services()
	go func() {
		defer close(ended)
		run(epoch)
	}()
	s.settle = func() {
		end()
		<-ended
	}
}

// services of a server that is what this one is now. They are given what they work on, which is none of the loop's.
func (s *server) services() func(context.Context) {
	if s.as == replicaMode {
		services := &replicaServices{shared: s.shared, copy: s.copy, archiver: s.archiver}
		if s.stragglers {
			services.lead = leadAway
		}
		return services.run
	}
	return (&primaryServices{shared: s.shared, copy: s.copy, archiver: s.archiver, replicas: s.replicas}).run
}

// lookAfter does what is due every now and then.
func (s *server) lookAfter(ctx context.Context) error {
	if s.conf.unchecked {
		s.conf.apply(ctx, s.postmaster, s.latest.config())
	}
	if reason := s.health.sick(s.postmaster); reason != "" {
		if s.as == primaryMode || !heldUp(s, "PostgreSQL is not restarted, though "+reason+".") {
			return s.putDown(reason)
		}
		return nil
	}
	s.keepReadOnly()
	s.keepStandbySlots()
	return s.checkUp(ctx)
}

// obey makes a running server what is wanted now. An error is its end.
func (s *server) obey(ctx context.Context) error {
	want := s.election.Want()
	switch {
	case want.Role == elect.Lead && s.as == replicaMode:
		return s.promote(ctx)
	case want.Role == elect.Lead:
		s.applySync(ctx, want.Sync)
	case want.Role == elect.Stop && want.Orderly, s.as == replicaMode && want.Role == elect.Stop:
		return s.handOver(ctx)
	case s.as == primaryMode:
		s.kill()
		return errChanged
	case want.Role == elect.Follow:
		if err := s.followOther(want); err != nil {
			return unled(s, err)
		}
	}
	return nil
}

// unled ends a replica that can't be told whom to follow: its configuration can't be written. It is started once that is possible again.
func unled(s *server, err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		s.disk.giveReserve()
	}
	s.kill()
	return err
}

// keepReadOnly has clients of a running server only read while the volume is full, and lets them write again once it isn't.
// Sessions continue: what they begin from now on is read-only, unless they say otherwise, as who makes room has to. Subscriptions don't ask whether
// they may write; see holdSubscriptions.
func (s *server) keepReadOnly() {
	full := s.disk.full()
	if s.conf.replication.ReadOnly == full {
		return
	}
	replication := s.conf.replication
	replication.ReadOnly = full
	if err := s.conf.rewrite(s.postmaster, replication); err != nil {
		s.Log.Error("can't switch clients between read-only and read-write", "readOnly", full, "error", err)
		return
	}
	s.conf.replication = replication
	s.Log.Warn("changed whether clients may write", "readOnly", full)
}

// putDown kills a server that lets nobody in. It is started again in place: nothing is lost by that.
func (s *server) putDown(reason string) error {
	s.Log.Error("PostgreSQL is killed", "reason", reason)
	if s.as == primaryMode {
		s.crashes.primary()
	}
	s.kill()
	return fmt.Errorf("PostgreSQL was killed: %s", reason)
}

// ended is the end of a server that nobody asked for, unless it was killed because it had to stop.
func (s *server) ended() error {
	// Its processes hold the shared memory, and would not let the next server start.
	err := errors.Join(fmt.Errorf("PostgreSQL ended unexpectedly: %w", orNil(s.postmaster.Ended())), s.postmaster.CleanUp())
	switch {
	case s.as != primaryMode:
		return err
	case s.election.Want().Role != elect.Lead:
		return errChanged
	case s.conf.effect.Synchronous != nil && lostProcess(s.postmaster.Ended()) && s.latest.repairsPaused() == "": // it would continue by itself, but for restart_after_crash
		s.Log.Error("a process of PostgreSQL has crashed, and PostgreSQL is restarted", "error", err)
		return errRestart
	}
	s.crashes.primary()
	return err
}

// lostProcess says whether a postmaster has ended because one of its processes crashed; see restart_after_crash. It was not killed itself.
func lostProcess(ended error) bool {
	exit := &exec.ExitError{}
	return errors.As(ended, &exit) && exit.ExitCode() == 1
}

func orNil(err error) error {
	if err == nil {
		return errors.New("somebody shut it down")
	}
	return err
}

// restart ends the server so that it is started again.
func (s *server) restart(ctx context.Context) error {
	defer s.waiting()()
	s.Log.Info("restarting PostgreSQL for changed parameters", "config", s.conf.effect.Hash())
	if s.as == primaryMode {
		s.checkpoint(ctx)
	}
	if ctx.Err() != nil {
		return s.stop()
	}
	if err := s.end(); err != nil {
		s.Log.Warn("PostgreSQL did not shut down cleanly", "error", err)
	}
	if ctx.Err() != nil { // the pod ended meanwhile; the server did first
		finishArchive(s)
		return stopped{s.postmaster.Ended()}
	}
	return errRestart
}

// kill ends the server at once.
func (s *server) kill() {
	s.publisher.Yield()
	postmaster.KillAll(s.copy.pgdata)
	s.set(func(status *agentapi.Status) { status.State, status.Role = agentapi.StateStopped, "" })
	// What waits for the disk can't be killed before that answers. But it has the signal, and ends before it does anything else: it
	// neither acknowledges a commit nor sends WAL.
	s.election.report(func(server *elect.Server) { server.Mode = elect.Down })
	defer s.waiting()()
	if err := s.postmaster.CleanUp(); err != nil {
		s.Log.Error("some processes of PostgreSQL do not end", "error", err)
	}
}
