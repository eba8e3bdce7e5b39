package supervise

import (
	"context"
	"errors"
	"fmt"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/archive"
	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/cmd/agent/internal/member"
	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/agentapi"
)

// runner makes the server be what the election wants. Its fields belong to the goroutine of loop.
type runner struct {
	*Supervisor
	member    *member.Member
	facts     facts
	life      context.Context // of the part in the election, which outlives the server
	guarded   bool            // the watchdog runs
	unsynced  bool            // whom commits wait for could not be changed yet
	wanted    string          // data generation
	adopted   *adopted        // copy of it; nil: none yet
	newest    <-chan inputs
	inputs    inputs
	archiver  *archive.Archiver // of the adopted copy
	unsocket  func()            // ends its socket
	publisher Publisher
	// credentials wakes who keeps the roles when a password has changed.
	credentials chan struct{}
	// declarations wakes who keeps what is declared when that, or a password in it, has changed.
	declarations chan struct{}

	// replication is whom the server follows, or who follows it.
	replication settings.Replication
	// effect is the configuration that the server has, or is started with; files are made of it.
	effect agentapi.Config
	files  settings.Files
	// good is the configuration that a server came up with last.
	good *agentapi.Config
	// refused is the wanted configuration that was refused, by its hash, and why.
	refused    string
	refusedFor string
	unchecked  bool // the wanted configuration could not be checked; try again
	failures   int  // of the server, one after another
	fall       fall
	rejoin     rejoin
	room       room
	// settle stops the services of the running server, and waits for it; nil before one ran.
	settle func()
}

// How a server's life ended, other than by itself.
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
		err := r.once(ctx, r.member.Want())
		r.publisher.Yield() // who takes over meanwhile has the clients, and nobody puts this pod back but a start as the primary
		switch {
		case errors.Is(err, errStopped):
			return r.leave(errors.Unwrap(err))
		case errors.Is(err, errRestart), errors.Is(err, errChanged), errors.Is(err, errRejoin):
			r.failures = 0
			continue
		}
		if time.Since(began) > longLife {
			r.failures = 0
		}
		r.failures++
		r.down(err)
		r.report(func(server *elect.Server) { server.Mode, server.Hopeless = elect.Down, r.hopeless() })
		if !r.backOff(ctx) {
			return r.leave(nil)
		}
	}
}

func (r *runner) once(ctx context.Context, want elect.Want) error {
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

// leaveTime is how long the lease may take to be given up when the pod ends.
const leaveTime = 10 * time.Second

// leave ends the part in the election, with the server down.
func (r *runner) leave(err error) error {
	r.report(func(server *elect.Server) { server.Mode = elect.Down })
	r.member.Leave()
	select {
	case <-r.member.Left():
	case <-time.After(leaveTime):
		r.Log.Warn("the lease was not given up in time; it runs out")
	}
	return err
}

// rest waits, without a server, until something else is wanted.
func (r *runner) rest(ctx context.Context, why string) error {
	r.report(func(server *elect.Server) { server.Mode = elect.Down })
	r.set(func(status *agentapi.Status) {
		status.State, status.Role, status.Message = agentapi.StateStarting, "", why
	})
	tick := time.NewTicker(loopTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return stopped{}
		case <-r.member.Changed():
			return errChanged
		case in := <-r.newest:
			r.receive(in)
		case <-tick.C:
		}
		r.beat()
	}
}

// adopt opens the copy that is to be run, unless it is open.
func (r *runner) adopt(ctx context.Context) error {
	g, err := r.Volume.Resolve(r.wanted)
	if err != nil {
		return fmt.Errorf("data generation %q can't be adopted: %w", r.wanted, err)
	}
	if r.adopted != nil && r.adopted.generation.ID == g.ID {
		return nil
	}
	r.release()
	if r.adopted, err = r.open(ctx, g, r.inputs.config.MajorVersion); err != nil {
		r.adopted = nil
		return err
	}
	if err := r.openArchive(); err != nil {
		return err
	}
	r.good = r.loadGood()
	return nil
}

// release gives the adopted copy back.
func (r *runner) release() {
	if r.adopted == nil {
		return
	}
	if r.archiver != nil {
		r.setArchiver(nil)
		r.unsocket()
		r.archiver.Close()
		r.archiver = nil
	}
	r.adopted.lock.Close()
	r.adopted = nil
}

// lead runs the server as the primary. A copy that was a replica's is started as one and promoted: the same timeline must
// not go on twice.
func (r *runner) lead(ctx context.Context) error {
	if err := r.adopt(ctx); err != nil {
		return r.unable(ctx, err)
	}
	r.replication = r.primaryReplication(r.member.Want())
	if r.isStandby() {
		return r.live(ctx, replicaMode)
	}
	if !r.member.Guard() {
		return errChanged
	}
	r.retry()
	return r.live(ctx, primaryMode)
}

// unable shows why there is nothing to start, and waits a moment: restarting the pod would not help.
func (r *runner) unable(ctx context.Context, err error) error {
	r.fail(r.wanted, err)
	select {
	case <-ctx.Done():
		return stopped{}
	case in := <-r.newest:
		r.receive(in)
	case <-r.member.Changed():
	case <-time.After(5 * time.Second):
	}
	r.beat()
	return errChanged
}

// mode is how a server is started.
type mode int

const (
	primaryMode mode = iota
	replicaMode
)

// live is one life of the server, from its start to its end.
func (r *runner) live(ctx context.Context, as mode) error {
	r.makeRoom()
	r.replication.ReadOnly = r.room.full()
	if err := r.choose(ctx); err != nil {
		return err
	}
	r.archiver.SetPrimary(as == primaryMode)
	server, err := r.start(ctx, as)
	if err != nil {
		return err
	}
	r.up(server, as)
	r.startServices(ctx, as)
	defer func() { r.settle() }()
	return r.oversee(ctx, server, as)
}

// startServices begins what goes on beside a running server.
func (r *runner) startServices(ctx context.Context, as mode) {
	epoch, end := context.WithCancel(ctx)
	ended := make(chan struct{})
	r.facts.mu.Lock()
	r.facts.health = health{answered: time.Now()}
	r.facts.mu.Unlock()
	go func() {
		defer close(ended)
		go r.knock(epoch)
		if as == primaryMode {
			r.runServices(epoch)
		} else {
			r.runReplicaServices(epoch)
		}
	}()
	r.settle = func() {
		end()
		<-ended
	}
}
