package supervise

import (
	"context"
	"errors"
	"fmt"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/cmd/agent/internal/postmaster"
	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/agentapi"
)

// start starts the server and returns when it accepts connections.
func (r *runner) start(ctx context.Context, as mode) (*postmaster.Server, error) {
	r.set(func(status *agentapi.Status) { status.State, status.Role = agentapi.StateStarting, "" })
	r.report(func(server *elect.Server) { *server = elect.Server{Mode: elect.Starting} })
	server, err := postmaster.Start(postmaster.Spec{
		BinDir: r.adopted.binDir, PGData: r.adopted.pgdata, Args: r.files.Arguments(r.adopted.paths),
		Socket: r.socket(), Lock: r.adopted.lock, Log: r.Log,
	})
	if err != nil {
		return nil, err
	}
	r.Log.Info("started PostgreSQL", "pid", server.PID(), "config", r.effect.Hash())
	defer r.waiting()() // recovery takes as long as it takes
	tick := time.NewTicker(startPoll)
	defer tick.Stop()
	still := stuckRecovery{}
	for {
		select {
		case <-tick.C:
			if server.Accepting() {
				return server, nil
			}
			if as == primaryMode && r.hopeless() && r.replaceable() {
				return nil, r.despair(server)
			}
			if as == replicaMode && r.isStuck(&still, server) {
				return nil, r.abandon(server, as, still)
			}
		case <-server.Done():
			return nil, r.notStarted(server, as)
		case <-r.member.Changed():
			if err := r.reconsider(server, as); err != nil {
				return nil, err
			}
		case <-ctx.Done():
			return nil, r.stop(server, as)
		}
	}
}

// reconsider ends a start that is not wanted any more.
func (r *runner) reconsider(server *postmaster.Server, as mode) error {
	want := r.member.Want()
	switch {
	case as == primaryMode && want.Role != elect.Lead:
		r.fall.patience *= 4 // the next try may take longer: it begins from the start
		r.kill(server)
		return errChanged
	case as == replicaMode && want.Role == elect.Stop:
		r.kill(server)
		return errChanged
	case as == replicaMode && want.Role == elect.Follow:
		return r.followOther(server, want)
	}
	return nil
}

// fall is what is remembered of a primary that ended by itself.
type fall struct {
	at       time.Time // since when it is down; zero: it isn't
	last     time.Time // when it fell the time before
	again    bool      // soon after
	patience time.Duration
}

// firstPatience is how long a primary that fell may take to come back before a replica is to take over.
const firstPatience = 3 * time.Second

func (r *runner) fell() {
	now := time.Now()
	r.fall.again = !r.fall.last.IsZero() && now.Sub(r.fall.last) < longLife
	r.fall.at, r.fall.last = now, now
}

// hopeless: a primary that fell has not come back soon, or falls again and again.
func (r *runner) hopeless() bool {
	patience := max(r.fall.patience, firstPatience)
	return !r.fall.at.IsZero() && (r.fall.again || r.failures > 1 || time.Since(r.fall.at) > patience)
}

// replaceable: there is somebody who may take over.
func (r *runner) replaceable() bool {
	election := r.member.Status()
	return election != nil && len(election.Members) > 0
}

// despair ends a start that takes too long while others could take over. Should nobody do so, the next try may take longer.
func (r *runner) despair(server *postmaster.Server) error {
	r.fall.patience = 4 * max(r.fall.patience, firstPatience)
	r.kill(server)
	return errors.New("PostgreSQL did not come up again in time")
}

// retry is the moment between two tries of a primary.
func (r *runner) retry() {
	if r.hopeless() {
		r.fall.at, r.fall.again = time.Now(), false
	}
}

// notStarted blames the configuration if it is a new one; the next try is with the one before. If that fails as well,
// it was something else, and the new one may be tried again.
func (r *runner) notStarted(server *postmaster.Server, as mode) error {
	complaint := server.Complaint()
	if complaint == "" {
		complaint = fmt.Sprint(server.Ended())
	}
	err := errors.Join(fmt.Errorf("PostgreSQL does not start: %s", complaint), server.CleanUp())
	if as == primaryMode && r.member.Want().Role != elect.Lead {
		return errChanged // it was killed
	}
	wanted := r.inputs.config
	switch {
	case r.good == nil || sameSettings(*r.good, wanted):
		if as == replicaMode {
			r.rejoin.failed(complaint)
		}
	case r.effect.Hash() == wanted.Hash():
		r.refuse(wanted, fmt.Errorf("%w: %s", settings.ErrRefused, complaint))
		r.failures = 0
	default:
		r.refused = "" // so that it is tried again
	}
	return err
}

// up notes that the server accepts connections.
func (r *runner) up(server *postmaster.Server, as mode) {
	r.keepGood()
	left, messages := r.maintainer().Pending() // shown with the first word that the server runs
	changed := r.set(func(status *agentapi.Status) {
		status.Maintenance, status.MaintenanceMessages = left, messages
		status.State, status.Message, status.StartedAt = agentapi.StateRunning, "", time.Now().UTC().Truncate(time.Second)
		status.PendingRestart, status.Rejoin = nil, nil
	})
	if as == primaryMode {
		r.fall = fall{last: r.fall.last, patience: r.fall.patience}
		r.report(func(server *elect.Server) { *server = elect.Server{Mode: elect.Primary, Sync: elect.Sync{Quorum: -1}} }) // until it is known since when
	} else {
		r.fall = fall{}
		r.report(func(server *elect.Server) { *server = elect.Server{Mode: elect.Replica} })
	}
	if changed {
		r.Log.Info("PostgreSQL accepts connections", "pid", server.PID())
	}
}

// down notes that the server ended, or did not start, though nobody asked for it.
func (r *runner) down(err error) {
	state := agentapi.StateStopped
	if r.failures > 1 {
		state = agentapi.StateFailed
	}
	before := r.Status().Message
	r.set(func(status *agentapi.Status) { status.State, status.Role, status.Message = state, "", sentence(err) })
	if sentence(err) != before {
		r.Log.Error("PostgreSQL is down", "failures", r.failures, "error", err)
	}
}

// backOff waits before the next start, longer with each failure, or until there is something new to start with. It says
// false when ctx has ended.
func (r *runner) backOff(ctx context.Context) bool {
	if r.failures <= 1 && !r.hopeless() { // a crash, or a new configuration that failed: at once
		return ctx.Err() == nil
	}
	timer := time.After(min(maxBackOff, time.Second<<min(max(r.failures-2, 0), 10)))
	tick := time.NewTicker(loopTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer:
			return true
		case <-r.member.Changed():
			return true
		case in := <-r.newest:
			r.beat()
			if r.receive(in) {
				return true
			}
		case <-tick.C:
			r.beat()
		}
	}
}

// oversee supervises the running server until its end.
func (r *runner) oversee(ctx context.Context, server *postmaster.Server, as mode) (err error) {
	tick := time.NewTicker(loopTick)
	defer tick.Stop()
	if as, err = r.obey(ctx, server, as); err != nil { // what was wanted while it started
		return err
	}
	for {
		r.beat()
		select {
		case <-server.Done():
			return r.ended(server, as)
		case <-ctx.Done():
			return r.stop(server, as)
		case <-r.member.Changed():
			if as, err = r.obey(ctx, server, as); err != nil {
				return err
			}
		case in := <-r.newest:
			r.renew(ctx, server, in)
		case request := <-r.restarts:
			// It may have waited while the server was restarted for another one.
			if r.restartWanted(request) && r.mayRestart(ctx) {
				return r.restart(ctx, server, as)
			}
		case <-tick.C:
			if r.unchecked {
				r.configure(ctx, server)
			}
			if reason := r.sick(server); reason != "" {
				return r.putDown(server, as, reason)
			}
			r.keepReadOnly(server)
			if err := r.checkUp(ctx, server, as); err != nil {
				return err
			}
		}
	}
}

// putDown kills a server that lets nobody in. It is started again in place: nothing is lost by that.
func (r *runner) putDown(server *postmaster.Server, as mode, reason string) error {
	r.Log.Error("PostgreSQL is killed", "reason", reason)
	if as == primaryMode {
		r.fell()
	}
	r.kill(server)
	return fmt.Errorf("PostgreSQL was killed: %s", reason)
}

// ended is the end of a server that nobody asked for, unless it was killed because it had to stop.
func (r *runner) ended(server *postmaster.Server, as mode) error {
	// Its processes hold the shared memory, and would not let the next server start.
	err := errors.Join(fmt.Errorf("PostgreSQL ended by itself: %w", orNil(server.Ended())), server.CleanUp())
	if as == primaryMode {
		if r.member.Want().Role != elect.Lead {
			return errChanged
		}
		r.fell()
	}
	return err
}

func orNil(err error) error {
	if err == nil {
		return errors.New("somebody shut it down")
	}
	return err
}

// obey makes a running server what is wanted now. An error is the end of this life of it.
func (r *runner) obey(ctx context.Context, server *postmaster.Server, as mode) (mode, error) {
	want := r.member.Want()
	switch {
	case want.Role == elect.Lead && as == replicaMode:
		return r.promote(ctx, server)
	case want.Role == elect.Lead:
		r.applySync(ctx, server, want.Sync)
	case want.Role == elect.Stop && want.Orderly, as == replicaMode && want.Role == elect.Stop:
		return as, r.handOver(ctx, server, as)
	case as == primaryMode:
		r.kill(server)
		return as, errChanged
	case want.Role == elect.Follow:
		return as, r.followOther(server, want)
	}
	return as, nil
}
