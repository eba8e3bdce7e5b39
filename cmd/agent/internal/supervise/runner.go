package supervise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/archive"
	"howdah.dev/howdah/cmd/agent/internal/postmaster"
	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/agentapi"
)

// runner keeps the server of one adopted generation running. Its fields belong to the goroutine of loop.
type runner struct {
	*Supervisor
	adopted   adopted
	newest    <-chan inputs
	inputs    inputs
	archiver  *archive.Archiver
	publisher Publisher
	// credentials wakes who keeps the roles when a password has changed.
	credentials chan struct{}

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
	// settle ends what attends to the running server, and waits for it; nil before one ran.
	settle func()
}

// How a server's life ended, other than by itself.
var (
	errStopped = errors.New("stopped")   // the agent was told to end
	errRestart = errors.New("restarted") // to be started again at once
)

const (
	startPoll  = 50 * time.Millisecond
	loopTick   = time.Second
	longLife   = time.Minute // a server that ran so long has not failed to start
	maxBackOff = 30 * time.Second
)

// loop starts the server again and again until ctx ends. It returns nil after a clean shutdown.
func (r *runner) loop(ctx context.Context) error {
	r.good = r.loadGood()
	for {
		began := time.Now()
		err := r.live(ctx)
		switch {
		case errors.Is(err, errStopped):
			return errors.Unwrap(err)
		case errors.Is(err, errRestart):
			r.failures = 0
			continue
		}
		if time.Since(began) > longLife {
			r.failures = 0
		}
		r.failures++
		r.down(err)
		if !r.backOff(ctx) {
			return nil
		}
	}
}

// stopped is errStopped with how the shutdown ended.
type stopped struct{ err error }

func (s stopped) Error() string        { return errStopped.Error() }
func (s stopped) Is(target error) bool { return target == errStopped }
func (s stopped) Unwrap() error        { return s.err }

// live is one life of the server, from its start to its end.
func (r *runner) live(ctx context.Context) error {
	if err := r.choose(ctx); err != nil {
		return err
	}
	server, err := r.start(ctx)
	if err != nil {
		return err
	}
	r.up(server)
	epoch, end := context.WithCancel(ctx)
	attended := make(chan struct{})
	go func() {
		defer close(attended)
		r.attend(epoch)
	}()
	r.settle = func() {
		end()
		<-attended
	}
	defer r.settle()
	return r.oversee(ctx, server)
}

// choose takes the wanted configuration if the server can start with it, else the one that it started with last.
func (r *runner) choose(ctx context.Context) error {
	wanted := r.inputs.config
	files, err := settings.Render(wanted, r.adopted.generation.MajorVersion, r.adopted.paths, settings.Standing{})
	if err == nil && r.refused == wanted.Hash() {
		err = fmt.Errorf("%w: %s", settings.ErrRefused, r.refusedFor)
	} else if err == nil {
		err = r.check(ctx, files, wanted)
	}
	if err == nil {
		r.take(wanted, files)
		return r.files.Write(r.adopted.paths)
	}
	if !isRefusal(err) {
		return fmt.Errorf("the configuration can't be checked: %w", err)
	}
	r.refuse(wanted, err)
	if r.good == nil {
		return fmt.Errorf("the configuration is not valid: %w", err)
	}
	files, err = settings.Render(*r.good, r.adopted.generation.MajorVersion, r.adopted.paths, settings.Standing{})
	if err != nil {
		return err
	}
	r.take(*r.good, files)
	return r.files.Write(r.adopted.paths)
}

func (r *runner) check(ctx context.Context, files settings.Files, config agentapi.Config) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return settings.Check(ctx, files, r.adopted.paths, settings.Target{
		BinDir: r.adopted.binDir, PGData: r.adopted.pgdata, Scratch: filepath.Join(r.RunDir, "check"), MemoryBytes: config.MemoryBytes,
	})
}

// take makes a configuration the one in effect.
func (r *runner) take(config agentapi.Config, files settings.Files) {
	r.effect, r.files = config, files
	isWanted := config.Hash() == r.inputs.config.Hash()
	if isWanted {
		r.refused, r.refusedFor, r.unchecked = "", "", false
	}
	r.set(func(status *agentapi.Status) {
		status.ConfigHash = config.Hash()
		if isWanted {
			status.ConfigError, status.ConfigErrorHash = "", ""
		}
	})
}

// refuse notes why the wanted configuration is not in effect.
func (r *runner) refuse(config agentapi.Config, err error) {
	if r.refused != config.Hash() {
		r.Log.Error("the configuration is refused; the one before stays", "hash", config.Hash(), "error", err)
	}
	r.refused, r.refusedFor = config.Hash(), sentence(err)
	r.set(func(status *agentapi.Status) { status.ConfigError, status.ConfigErrorHash = r.refusedFor, r.refused })
}

// start starts the server and returns when it takes connections.
func (r *runner) start(ctx context.Context) (*postmaster.Server, error) {
	r.set(func(status *agentapi.Status) { status.State, status.Role = agentapi.StateStarting, "" })
	server, err := postmaster.Start(postmaster.Spec{
		BinDir: r.adopted.binDir, PGData: r.adopted.pgdata, Args: r.files.Arguments(r.adopted.paths),
		Lock: r.adopted.lock, Log: r.Log,
	})
	if err != nil {
		return nil, err
	}
	r.Log.Info("started PostgreSQL", "pid", server.PID(), "config", r.effect.Hash())
	defer r.waiting()() // recovery takes as long as it takes
	tick := time.NewTicker(startPoll)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if server.Accepting() {
				return server, nil
			}
		case <-server.Done():
			return nil, r.notStarted(server)
		case <-ctx.Done():
			return nil, r.stop(server)
		}
	}
}

// notStarted blames the configuration if it is a new one; the next try is with the one before. If that fails as well,
// it was something else, and the new one may be tried again.
func (r *runner) notStarted(server *postmaster.Server) error {
	complaint := server.Complaint()
	if complaint == "" {
		complaint = fmt.Sprint(server.Ended())
	}
	err := errors.Join(fmt.Errorf("PostgreSQL does not start: %s", complaint), server.CleanUp())
	wanted := r.inputs.config
	switch {
	case r.good == nil || sameSettings(*r.good, wanted):
	case r.effect.Hash() == wanted.Hash():
		r.refuse(wanted, fmt.Errorf("%w: %s", settings.ErrRefused, complaint))
		r.failures = 0
	default:
		r.refused = "" // so that it is tried again
	}
	return err
}

// sameSettings says whether two configurations are one to PostgreSQL.
func sameSettings(a, b agentapi.Config) bool {
	return serverPart(a).Hash() == serverPart(b).Hash()
}

func serverPart(c agentapi.Config) agentapi.Config {
	return agentapi.Config{Parameters: c.Parameters, MemoryBytes: c.MemoryBytes, CPUMillis: c.CPUMillis, SuperuserAccess: c.SuperuserAccess}
}

// up notes that the server takes connections.
func (r *runner) up(server *postmaster.Server) {
	r.keepGood()
	left, messages := r.maintainer().Pending() // shown with the first word that the server runs
	changed := r.set(func(status *agentapi.Status) {
		status.Maintenance, status.MaintenanceMessages = left, messages
		status.State, status.Message, status.StartedAt = agentapi.StateRunning, "", time.Now().UTC().Truncate(time.Second)
		status.PendingRestart = nil
	})
	r.mu.Lock()
	r.cameUp = true
	r.mu.Unlock()
	if changed {
		r.Log.Info("PostgreSQL takes connections", "pid", server.PID())
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
	if r.failures <= 1 { // a crash, or a new configuration that failed: at once
		return ctx.Err() == nil
	}
	timer := time.After(min(maxBackOff, time.Second<<min(r.failures-2, 10)))
	tick := time.NewTicker(loopTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer:
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

// oversee attends to the running server until its end.
func (r *runner) oversee(ctx context.Context, server *postmaster.Server) error {
	tick := time.NewTicker(loopTick)
	defer tick.Stop()
	for {
		r.beat()
		select {
		case <-server.Done():
			// Its processes hold the shared memory, and would not let the next server start.
			return errors.Join(fmt.Errorf("PostgreSQL ended by itself: %w", orNil(server.Ended())), server.CleanUp())
		case <-ctx.Done():
			return r.stop(server)
		case in := <-r.newest:
			r.renew(ctx, server, in)
		case request := <-r.restarts:
			// It may have waited while the server was restarted for another one.
			if r.restartWanted(request) && r.mayRestart(ctx) {
				return r.restart(ctx, server)
			}
		case <-tick.C:
			if r.unchecked {
				r.configure(ctx, server)
			}
		}
	}
}

func orNil(err error) error {
	if err == nil {
		return errors.New("somebody shut it down")
	}
	return err
}

// stopMargin is kept of the grace period for an immediate shutdown and what comes after it.
const stopMargin = 5 * time.Second

// stop ends the server because the pod ends. No client is sent here any more before the sessions are closed.
func (r *runner) stop(server *postmaster.Server) error {
	defer r.waiting()()
	err := r.end(server)
	r.set(func(status *agentapi.Status) { status.State = agentapi.StateStopped })
	if err != nil {
		r.Log.Error("PostgreSQL has been stopped, but not cleanly", "error", err)
	} else {
		r.Log.Info("PostgreSQL has been stopped")
	}
	return stopped{err}
}

const withdrawTime = 2 * time.Second

// end ends the server in order, as far as the grace period allows.
func (r *runner) end(server *postmaster.Server) error {
	patience, cancel := context.Background(), context.CancelFunc(func() {})
	if r.Grace > 0 {
		patience, cancel = context.WithTimeout(patience, max(r.Grace-stopMargin, r.Grace/2))
	}
	defer cancel()
	r.set(func(status *agentapi.Status) { status.State, status.Role = agentapi.StateStopping, "" })
	r.archiver.Stopping(true)
	defer r.archiver.Stopping(false)
	if r.settle != nil {
		r.settle()
	}
	r.probe.Close()
	withdraw, cancelWithdraw := context.WithTimeout(patience, withdrawTime)
	defer cancelWithdraw()
	r.publisher.Withdraw(withdraw)
	return server.Stop(patience)
}

// mayRestart looks once more whether the server would come back.
func (r *runner) mayRestart(ctx context.Context) bool {
	err := r.check(ctx, r.files, r.effect)
	if err == nil {
		return true
	}
	r.Log.Error("PostgreSQL is not restarted: it would not start", "error", err)
	r.set(func(status *agentapi.Status) { status.Message = "the restart was refused: " + sentence(err) })
	return false
}

// restart ends the server so that it is started again. A checkpoint before shortens the time that it is away.
func (r *runner) restart(ctx context.Context, server *postmaster.Server) error {
	defer r.waiting()()
	r.Log.Info("restarting PostgreSQL for changed parameters", "config", r.effect.Hash())
	err := r.server.With(ctx, "postgres", func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "CHECKPOINT")
		return err
	})
	if err != nil {
		r.Log.Warn("no checkpoint before the restart", "error", err)
	}
	if ctx.Err() != nil {
		return r.stop(server)
	}
	if err := r.end(server); err != nil {
		r.Log.Warn("PostgreSQL did not shut down cleanly", "error", err)
	}
	if ctx.Err() != nil { // the pod ended meanwhile; the server did first
		return stopped{server.Ended()}
	}
	return errRestart
}

const goodFile = "good.json"

// keepGood keeps the configuration that a server came up with, for the day that another one doesn't.
func (r *runner) keepGood() {
	config := r.effect
	if r.good != nil && r.good.Hash() == config.Hash() {
		return
	}
	r.good = &config
	content, err := json.Marshal(config)
	if err == nil {
		err = writeFile(filepath.Join(r.adopted.paths.Dir, goodFile), content)
	}
	if err != nil {
		r.Log.Error("the working configuration can't be kept", "error", err)
	}
}

func (r *runner) loadGood() *agentapi.Config {
	content, err := os.ReadFile(filepath.Join(r.adopted.paths.Dir, goodFile))
	if err != nil {
		return nil
	}
	config := &agentapi.Config{}
	if err := json.Unmarshal(content, config); err != nil {
		return nil
	}
	return config
}
