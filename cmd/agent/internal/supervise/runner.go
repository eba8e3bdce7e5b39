package supervise

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// runner makes the server be what the election wants. It belongs to the goroutine of loop.
type runner struct {
	*shared
	restarts <-chan agentapi.RestartRequest
	newest   <-chan inputs
	inputs   inputs
	fencing  *fencing

	adopted    *adopted      // copy of the wanted data generation; nil: none yet
	archiving  *walArchiving // of the adopted copy
	conf       *configuration
	repair     *repair
	crashes    *crashes
	fallen     string    // how the server ended by itself, or did not start, while repairs are paused
	looked     time.Time // at a volume that had no whole copy when the agent started, the last time
	unaccepted inputs    // configuration that could not be accepted
	again      retry     // when that is tried again
	uncopied   string    // why the newest certificates were not put where PostgreSQL reads them; empty: they were
}

// newRunner makes the runner of an instance that is a member of the election until the context ends.
func newRunner(membership context.Context, s *Supervisor, in inputs, newest <-chan inputs) *runner {
	i, latest := s.instance, &latest{}
	latest.set(in)
	var election *election // before anything is published
	publisher := withPoolers{s.Publish(in.config, func() bool { return election.Leads() }), i.poolers}
	fencing := &fencing{instance: i, publisher: publisher, membership: membership}
	election = newElection(membership, i, in.config, fencing)
	r := &runner{
		shared: &shared{
			instance: i, election: election, latest: latest, publisher: publisher, slots: &slots{instance: i, latest: latest},
			progress: &progress{}, disk: newDiskSpace(i, latest), wakeups: newWakeups(),
		},
		restarts: s.restarts, newest: newest, inputs: in, fencing: fencing,
		conf: &configuration{instance: i, releases: &releases{instance: i}}, crashes: newCrashes(i.CrashPatience),
	}
	r.repair = &repair{instance: i, election: election, latest: latest, disk: r.disk, release: r.release}
	return r
}

// join makes the instance take part in the election, until its membership ends.
func (r *runner) join(membership context.Context) {
	r.setMember(r.election)
	r.watchOver()
	r.election.carryWords(membership)
	go r.election.Run(membership)
	<-r.election.Changed() // the first word of what is wanted
}

// watchOver starts the watchdog where there is anybody else who could be primary.
func (r *runner) watchOver() {
	if r.latest.elects() {
		r.fencing.watch()
	}
}

// How a server ended, other than by itself.
var (
	errStopped = errors.New("stopped")          // the agent was told to end
	errRestart = errors.New("restarted")        // to be started again at once
	errChanged = errors.New("wanted otherwise") // the election wants something else
	errRejoin  = errors.New("it can't follow")  // the copy has to be made fit, or anew
)

const (
	startPoll  = 20 * time.Millisecond
	loopTick   = time.Second
	longLife   = time.Minute // a server that ran so long has not failed to start
	maxBackOff = 30 * time.Second
)

// loop does what the election wants, again and again until ctx ends. It returns nil after a clean shutdown.
func (r *runner) loop(ctx context.Context) error {
	for {
		if ctx.Err() != nil {
			return r.leave(nil)
		}
		began := time.Now()
		err := r.once(ctx, r.election.Want())
		r.publisher.Yield() // who takes over meanwhile has the clients, and nobody puts this pod back but a start as the primary
		switch {
		case errors.Is(err, errStopped):
			return r.leave(errors.Unwrap(err))
		case errors.Is(err, errRestart), errors.Is(err, errChanged), errors.Is(err, errRejoin):
			r.crashes.failures = 0
			continue
		}
		if time.Since(began) > longLife {
			r.crashes.failures = 0
		}
		r.crashes.failures++
		r.down(err)
		if r.latest.repairsPaused() != "" && !r.crashes.blameless {
			r.fallen = sentence(err)
			continue
		}
		r.crashes.blameless = false
		r.election.report(func(server *elect.Server) { server.Mode, server.Hopeless = elect.Down, r.crashes.hopeless() })
		if !r.backOff(ctx) {
			return r.leave(nil)
		}
	}
}

func (r *runner) once(ctx context.Context, want elect.Want) error {
	if is, err := r.held(ctx, want); is {
		return err
	}
	switch want.Role {
	case elect.Lead:
		return r.lead(ctx)
	case elect.Follow:
		return r.follow(ctx, want)
	}
	return r.rest(ctx, want.Why)
}

// stopped is errStopped with how the shutdown ended.
type stopped struct{ err error }

func (s stopped) Error() string        { return errStopped.Error() }
func (s stopped) Is(target error) bool { return target == errStopped }
func (s stopped) Unwrap() error        { return s.err }

// leave ends the part in the election, with the server down.
func (r *runner) leave(err error) error {
	r.election.report(func(server *elect.Server) { server.Mode = elect.Down })
	r.election.Leave()
	select {
	case <-r.election.Left():
	case <-time.After(r.grace.leave()):
		r.Log.Warn("the lease was not released in time; it expires")
	}
	return err
}

// rest waits, without a server, until something else is wanted.
func (r *runner) rest(ctx context.Context, why string) error {
	state := agentapi.StateStarting
	if want := r.election.Want(); want.Role == elect.Stop && want.Why != "" {
		state = agentapi.StateStopped // it is fenced
	}
	return r.restAs(ctx, state, r.withLoss(why))
}

// withLoss adds to why an instance rests that it has data which can't be started without its WAL: nobody else would say it of an instance that was primary last.
func (r *runner) withLoss(why string) string {
	if r.adopted != nil || r.election.Self.Whole {
		return why
	}
	if _, err := r.Volume.Resolve(r.inputs.config.DataGeneration); errors.Is(err, generation.ErrNoWAL) {
		return strings.TrimSpace(why + " " + sentence(err))
	}
	return why
}

// restAs rests with a state to show.
func (r *runner) restAs(ctx context.Context, state agentapi.State, why string) error {
	r.election.report(func(server *elect.Server) { server.Mode = elect.Down })
	r.set(func(status *agentapi.Status) { status.State, status.Role, status.Message = state, "", why })
	tick := time.NewTicker(loopTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return stopped{}
		case <-r.election.Changed():
			return errChanged
		case in := <-r.newest:
			r.receive(ctx, in)
		case <-tick.C:
			r.retryTLS()
			r.receiveAgain(ctx)
			r.lookAgain(ctx)
		}
		r.beat()
	}
}

// restFor rests for a while.
func (r *runner) restFor(ctx context.Context, d time.Duration, why string) error {
	limited, cancel := context.WithTimeout(ctx, max(d, time.Millisecond))
	defer cancel()
	return changed(ctx, r.rest(limited, why))
}

// changed: a rest that is over is none that was ended by the pod's end.
func changed(ctx context.Context, err error) error {
	if errors.Is(err, errChanged) || ctx.Err() != nil {
		return err
	}
	return errChanged
}

// adopt opens the copy that is to be run, unless it is open.
func (r *runner) adopt(ctx context.Context) error {
	wanted := r.inputs.config.DataGeneration
	g, err := r.Volume.Resolve(wanted)
	if err != nil {
		return fmt.Errorf("data generation %q can't be adopted: %w", wanted, err)
	}
	if r.adopted != nil && r.adopted.generation.ID == g.ID {
		return nil
	}
	r.release()
	r.disk.giveReserve() // certificates and settings are written before the server starts
	if r.adopted, err = r.open(ctx, g, r.inputs.config.MajorVersion); err != nil {
		r.adopted = nil
		return err
	}
	if r.archiving, err = openArchiving(r.instance, r.adopted, r.inputs.config); err != nil {
		r.release()
		return err
	}
	r.conf.of(r.adopted)
	r.fencing.of(r.adopted.pgdata)
	return nil
}

// release gives the adopted copy back.
func (r *runner) release() {
	if r.adopted == nil {
		return
	}
	if r.archiving != nil {
		r.archiving.close()
		r.archiving = nil
	}
	r.adopted.lock.Close()
	r.adopted = nil
}

// lead runs the server as the primary. A copy that was a replica's is started as one and promoted: the same timeline must
// not continue twice.
func (r *runner) lead(ctx context.Context) error {
	if err := r.adopt(ctx); err != nil {
		return r.unable(ctx, err)
	}
	r.reinits.settle(r.adopted.generation, true)
	want := r.election.Want()
	r.election.told(want.Sync)
	closed := r.conf.replication.Closed
	r.conf.replication = settings.Replication{
		Pod: r.Pod, Synchronous: synchronousNames(want.Sync), StandbySlots: r.memberSlots(),
		VolumeBytes: volumeBytes(string(r.Volume)), WALVolumeBytes: r.walVolumeBytes(), ReadOnly: r.disk.full(),
	}
	standby, err := r.wasStandby(ctx)
	if err != nil {
		return r.unable(ctx, err)
	}
	if standby {
		return r.live(ctx, r.newServer(replicaMode))
	}
	crashed := r.crashed(ctx)
	if err := r.reverted(ctx); err != nil { // after an orderly shutdown as well: a snapshot of that may be what was put back
		return r.unable(ctx, err)
	}
	if !r.election.Guard() {
		return errChanged
	}
	r.crashes.retry()
	r.conf.replication.Closed = want.Sync.Quorum > 0 && (closed || crashed)
	return r.live(ctx, r.newServer(primaryMode))
}

// wasStandby says whether the last server on the adopted copy was a replica, and marks one whose promotion was killed.
func (r *runner) wasStandby(ctx context.Context) (bool, error) {
	if standby, err := settings.IsStandby(r.adopted.pgdata); standby || err != nil {
		return standby, err
	}
	control, err := postgres.ReadControlData(ctx, postgres.Exec, r.adopted.binDir, r.adopted.pgdata)
	if err != nil || !inRecovery(control) {
		return false, err
	}
	r.Log.Warn("a promotion was interrupted; starting as a replica to begin another timeline", "copy", r.adopted.generation.ID, "state", control.State)
	return true, settings.MarkStandby(r.adopted.pgdata)
}

// unable shows why there is nothing to start, and waits a moment: restarting the pod would not help.
func (r *runner) unable(ctx context.Context, err error) error {
	r.fail(r.inputs.config.DataGeneration, err)
	r.election.report(func(server *elect.Server) { server.Mode, server.Hopeless = elect.Down, true }) // somebody else may have a copy that can be opened
	select {
	case <-ctx.Done():
		return stopped{}
	case in := <-r.newest:
		r.receive(ctx, in)
	case <-r.election.Changed():
	case <-time.After(5 * time.Second):
	}
	r.beat()
	return errChanged
}

// newServer is one on the adopted copy.
func (r *runner) newServer(as mode) *server {
	return &server{
		shared: r.shared, copy: r.adopted, archiver: r.archiving.archiver, conf: r.conf, rejoin: &r.repair.rejoin, crashes: r.crashes, as: as,
		entrance: entrance{shared: r.shared},
		replicas: &replicas{
			instance: r.instance, copy: r.adopted, election: r.election, latest: r.latest, archiver: r.archiving.archiver, slots: r.slots,
		},
	}
}

// live supervises a server from its start to its end.
func (r *runner) live(ctx context.Context, s *server) error {
	r.disk.giveReserve()
	r.conf.replication.ReadOnly = r.disk.full()
	r.writeLDAPPassword()
	if err := r.conf.choose(ctx, r.inputs.config); err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	s.up()
	s.conf.lower(ctx, s.postmaster)
	s.startServices(ctx)
	defer func() {
		s.settle()
		r.faults.ended()
	}()
	if s.as == primaryMode && r.conf.replication.Closed {
		admitted, end := context.WithCancel(ctx)
		defer end()
		s.entrance.close(admitted)
	}
	return r.oversee(ctx, s)
}

// oversee supervises the running server until its end.
func (r *runner) oversee(ctx context.Context, s *server) error {
	tick := time.NewTicker(loopTick)
	defer tick.Stop()
	if err := s.obey(ctx); err != nil { // what was wanted while it started
		return err
	}
	for {
		r.beat()
		select {
		case <-s.postmaster.Done():
			return s.ended()
		case <-ctx.Done():
			return s.stop()
		case <-s.entrance.safe:
			s.admit(ctx)
		case <-r.election.Changed():
			if err := s.obey(ctx); err != nil {
				return err
			}
		case in := <-r.newest:
			r.renew(ctx, s, in)
		case order := <-r.faults.orders:
			r.faults.cause(order, s.as, s.postmaster)
		case request := <-r.restarts:
			// It may have waited while the server was restarted for another one.
			if r.restartWanted(request) && r.conf.mayRestart(ctx) {
				return s.restart(ctx)
			}
		case <-tick.C:
			if r.retryTLS() {
				r.reload(s)
			}
			if r.again.due(time.Now()) {
				r.renew(ctx, s, r.unaccepted)
			}
			if err := s.lookAfter(ctx); err != nil {
				return err
			}
		}
	}
}
