// Package supervise is `agent run`: it makes PostgreSQL be what the election wants, primary or replica, on a copy of the wanted
// data generation and with the wanted configuration, and stops it in order.
//
// One goroutine decides everything about the server: the loop of a runner. Only it touches the runner, the server that it runs, and
// their configuration, archiving, rejoin and crashes. Services run beside a server in goroutines of their own, on what they are given
// when they start: a copy of the data, which does not change while a server runs on it, and shared, which is safe for any goroutine.
package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/archive"
	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/cmd/agent/internal/member"
	"howdah.dev/howdah/cmd/agent/internal/routing"
	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/cmd/agent/internal/watchdog"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/objstore"
)

// Paths are where things are; DefaultPaths in a pod.
type Paths struct {
	Volume       generation.Volume
	RunDir       string
	SocketDir    string
	ConfigFile   string
	TLSDir       string
	PeerTLSDir   string
	AppDir       string
	SuperuserDir string
	RolesFile    string
	WAL          string // program of archive_command
	Port         int    // of PostgreSQL
}

// DefaultPaths are those of docs/architecture.md.
func DefaultPaths() Paths {
	return Paths{
		Volume: agentapi.VolumeDir, RunDir: agentapi.RunDir, SocketDir: agentapi.SocketDir, ConfigFile: agentapi.ConfigFile,
		TLSDir: agentapi.TLSDir, PeerTLSDir: agentapi.PeerTLSDir, AppDir: agentapi.AppDir, SuperuserDir: agentapi.SuperuserDir,
		RolesFile: agentapi.RolesFile, WAL: agentapi.WALPath, Port: agentapi.PostgresPort,
	}
}

// Publisher tells clients whether to come here, and others what this instance is.
type Publisher interface {
	Set(ready bool)
	Withdraw(ctx context.Context)
	// Yield leaves it to another primary to say where clients shall go.
	Yield()
	// Vacate leads clients here no more, where another primary has not led them away yet, and waits for that. It says whether some may
	// come all the same for a while, because they were led here before.
	Vacate(ctx context.Context) (stragglers bool)
	// Ended says how the primary has ended that clients were led to, unless there is another one, and waits for that.
	Ended(ctx context.Context, how agentapi.Shutdown)
	// Role of the instance, for the Services of replicas, and whether it replays WAL late.
	Role(role string, delayed bool)
}

// Options of a supervisor.
type Options struct {
	Paths
	// Pod is the pod's own name, and PodUID and Address tell it from a former one.
	Pod, PodUID, Address string
	// Generation that the pod was started for. The agent waits for a configuration with just that one, as the one that
	// it finds first may be old. Empty takes what the configuration says.
	Generation string
	// Grace is how long the pod may take to end; 0 is unknown, and PostgreSQL takes what it needs.
	Grace time.Duration
	// CrashPatience is how long a primary that crashed may take to come back before a replica is to take over; 0: 3 s.
	CrashPatience time.Duration
	// PromotePatience is for how long a promotion may replay nothing; 0: a minute.
	PromotePatience time.Duration
	// OpenStore opens the archive's store.
	OpenStore func(context.Context, objstore.Config) (objstore.Store, error)
	// Publish makes the publisher of a cluster, once its configuration is known.
	// It asks leads whether nobody else may be the primary at that moment.
	Publish func(config agentapi.Config, leads func() bool) Publisher
	// Kubernetes holds the Lease and the pod's labels; nil: the instance is alone.
	Kubernetes member.API
	// Peers are the agents of the other instances; nil: by HTTPS, as in a pod.
	Peers member.Peers
	// Datagrams carry the questions to the members, and WordPort is where the other instances get them; nil: nobody is asked.
	Datagrams net.PacketConn
	WordPort  uint16
	// PeerPort is that of the PostgreSQL of another instance; nil: all have the same.
	PeerPort func(pod string) int
	// Beat writes and syncs something on the volume, to see whether its disk answers; nil: a small file.
	Beat func() error
	// Service is how a client reaches the primary; nil: by the Service -rw of the cluster, if this is a pod.
	Service func(agentapi.Config) *settings.Upstream
	// DeepChecks is the time between two turns of deep checks; 0: ten minutes. What people set is in the configuration of the cluster.
	DeepChecks time.Duration
	// Watchdog kills the server when the agent does not; nil: nobody does.
	Watchdog *watchdog.Process
	// ArchiveLimits say how long archiving waits.
	ArchiveLimits archive.Limits
	Log           *slog.Logger
}

// Supervisor runs one server.
type Supervisor struct {
	*instance
	restarts chan agentapi.RestartRequest
}

// New makes a supervisor; Run starts it.
func New(options Options) *Supervisor {
	i := &instance{Options: options, State: newState(options.Pod), grace: &gracePeriod{length: options.Grace}}
	i.server = local.Server{SocketDir: options.SocketDir, Port: options.Port}
	i.probe = local.NewProbe(i.server)
	i.poolers = routing.New(i.poolerFacts)
	i.reinits = newReinits(options.Volume, i.State, options.Log)
	i.faults = newFaults(options.Volume, i.State, options.Log)
	return &Supervisor{instance: i, restarts: make(chan agentapi.RestartRequest)}
}

// Run runs the server until ctx ends, and returns nil if it was then shut down cleanly or never ran.
func (s *Supervisor) Run(ctx context.Context) error {
	defer s.grace.follow(ctx)()
	newest := s.watch(ctx)
	in, err := s.await(ctx, newest)
	if err != nil {
		return nil // ctx has ended, and nothing was started
	}
	membership, end := context.WithCancel(context.WithoutCancel(ctx)) // the lease is given up after ctx has ended
	defer end()
	r := newRunner(membership, s, in, newest)
	go r.disk.watch(membership)
	go s.meter(membership)
	go newStall(s.instance, r.election, r.latest).watch(membership)
	r.join(membership)
	err = r.loop(ctx)
	r.release()
	s.probe.Close()
	return err
}

// await waits for a configuration that is for this pod. While there is none, it says why. What could not be noted of one on the volume is tried again.
func (s *Supervisor) await(ctx context.Context, newest <-chan inputs) (inputs, error) {
	tick := time.NewTicker(loopTick)
	defer tick.Stop()
	var in inputs
	again := retry{}
	for {
		select {
		case <-ctx.Done():
			return inputs{}, ctx.Err()
		case in = <-newest:
			again = retry{}
		case <-tick.C:
			if s.beat(); !again.due(time.Now()) {
				continue
			}
		}
		err := s.meant(ctx, in)
		if err == nil {
			return in, nil
		}
		s.fail(in.config.DataGeneration, err)
		if in.err == nil {
			again.after(err, time.Now())
		}
		s.beat()
	}
}

// meant says why a configuration is not for this pod.
func (s *Supervisor) meant(ctx context.Context, in inputs) error {
	if in.err != nil {
		return in.err
	}
	if wanted := in.config.DataGeneration; s.Generation != "" && wanted != s.Generation {
		return fmt.Errorf("%w for the configuration of data generation %s; the one that is here is of %s", errWaiting, s.Generation, wanted)
	}
	return s.accept(ctx, in.config)
}

// errWaiting is a reason to wait that is no failure.
var errWaiting = errors.New("waiting")

func (i *instance) fail(wanted string, err error) {
	state := agentapi.StateFailed
	if errors.Is(err, errWaiting) {
		state = agentapi.StateStarting
	}
	changed := i.set(func(status *agentapi.Status) {
		status.State, status.Message, status.DataGeneration = state, err.Error(), wanted
	})
	if changed {
		i.Log.Error("PostgreSQL can't be started", "error", err)
	}
}

// Restart restarts the server if parameters wait for it under the configuration with this hash. It returns when the
// restart has begun, and says whether there is one.
func (s *Supervisor) Restart(ctx context.Context, request agentapi.RestartRequest) (bool, error) {
	if !s.restartWanted(request) {
		return false, nil
	}
	select {
	case s.restarts <- request:
		return true, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func (i *instance) restartWanted(request agentapi.RestartRequest) bool {
	status := i.Status()
	return status.ConfigHash == request.ConfigHash && len(status.PendingRestart) > 0 && status.State == agentapi.StateRunning
}

// Until runs do until it ends by itself, or ends its context when ctx ends or something else has failed.
func Until(ctx context.Context, failed <-chan error, do func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- do(ctx) }()
	select {
	case err := <-done:
		return err
	case err := <-failed:
		cancel()
		return errors.Join(err, <-done)
	}
}
