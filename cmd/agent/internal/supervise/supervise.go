// Package supervise is `agent run`: it makes PostgreSQL be what the election wants, primary or replica, on a copy of the wanted
// data generation and with the wanted configuration, and stops it in order.
//
// One goroutine decides everything about the server (runner.loop); the others watch files, take part in the election, ask
// the server, or answer from State.
package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/archive"
	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/cmd/agent/internal/member"
	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/cmd/agent/internal/watchdog"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
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
	// Role of the instance, for the Services of replicas.
	Role(role string)
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
	// OpenStore opens the archive's store.
	OpenStore func(context.Context, objstore.Config) (objstore.Store, error)
	// Publish makes the publisher of a cluster, once its configuration is known.
	Publish func(agentapi.Config) Publisher
	// Kubernetes holds the Lease and the pod's labels; nil: the instance is alone.
	Kubernetes member.API
	// Peers are the agents of the other instances; nil: by HTTPS, as in a pod.
	Peers member.Peers
	// PeerPort is that of the PostgreSQL of another instance; nil: all have the same.
	PeerPort func(pod string) int
	// Watchdog kills the server when the agent does not; nil: nobody does.
	Watchdog *watchdog.Process
	// ArchiveLimits say how long archiving waits.
	ArchiveLimits archive.Limits
	Log           *slog.Logger
}

// Supervisor runs one server.
type Supervisor struct {
	Options
	*State
	restarts chan agentapi.RestartRequest
	removing sync.Mutex // data generations
}

// New makes a supervisor; Run starts it.
func New(options Options) *Supervisor {
	s := &Supervisor{Options: options, State: newState(options.Pod), restarts: make(chan agentapi.RestartRequest)}
	s.server = local.Server{SocketDir: options.SocketDir, Port: options.Port}
	s.probe = local.NewProbe(s.server)
	return s
}

// Run runs the server until ctx ends, and returns nil if it was then shut down cleanly or never ran.
func (s *Supervisor) Run(ctx context.Context) error {
	newest := s.watch(ctx)
	in, err := s.await(ctx, newest)
	if err != nil {
		return nil // ctx has ended, and nothing was started
	}
	r := &runner{
		Supervisor: s, wanted: in.config.DataGeneration, newest: newest, inputs: in,
		publisher: s.Publish(in.config), credentials: make(chan struct{}, 1),
		declarations: make(chan struct{}, 1),
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx)) // the lease is given up after ctx has ended
	defer end()
	go r.watchSpace(life)
	r.join(life)
	err = r.loop(ctx)
	r.release()
	s.probe.Close()
	return err
}

// adopted is a copy of the data generation with all that it takes to run a server on it.
type adopted struct {
	generation generation.Generation
	pgdata     string
	binDir     string
	lock       *os.File
	segSize    uint64
	paths      settings.Paths
}

// await waits for a configuration that is for this pod. While there is none, it says why.
func (s *Supervisor) await(ctx context.Context, newest <-chan inputs) (inputs, error) {
	tick := time.NewTicker(loopTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return inputs{}, ctx.Err()
		case in := <-newest:
			err := s.meant(in)
			if err == nil {
				return in, nil
			}
			s.fail(in.config.DataGeneration, err)
		case <-tick.C:
		}
		s.beat()
	}
}

// meant says why a configuration is not for this pod.
func (s *Supervisor) meant(in inputs) error {
	if in.err != nil {
		return in.err
	}
	if wanted := in.config.DataGeneration; s.Generation != "" && wanted != s.Generation {
		return fmt.Errorf("%w for the configuration of data generation %s; the one that is here is of %s", errWaiting, s.Generation, wanted)
	}
	return nil
}

// errWaiting is a reason to wait that is no failure.
var errWaiting = errors.New("waiting")

func (s *Supervisor) fail(wanted string, err error) {
	state := agentapi.StateFailed
	if errors.Is(err, errWaiting) {
		state = agentapi.StateStarting
	}
	changed := s.set(func(status *agentapi.Status) {
		status.State, status.Message, status.DataGeneration = state, err.Error(), wanted
	})
	if changed {
		s.Log.Error("PostgreSQL can't be started", "error", err)
	}
}

// open makes a copy ready to run a server on, and points `current` at it.
func (s *Supervisor) open(ctx context.Context, g generation.Generation, major int) (*adopted, error) {
	defer s.waiting()() // what killed workers left may be large
	if major != 0 && g.MajorVersion != major {
		return nil, fmt.Errorf("data generation %s is of PostgreSQL %d, and the cluster is to run %d", g.ID, g.MajorVersion, major)
	}
	a := &adopted{generation: g, pgdata: s.Volume.PGData(g.ID)}
	var err error
	if a.binDir, a.segSize, err = s.inspect(ctx, g); err != nil {
		return nil, err
	}
	a.paths = s.configPaths(g.ID)
	if err := os.MkdirAll(a.paths.Dir, 0o700); err != nil {
		return nil, err
	}
	if err := copyCertificates(s.Paths, a.paths); err != nil {
		return nil, err
	}
	if a.lock, err = s.Volume.Lock(g.ID); err != nil {
		return nil, err
	}
	if err := s.pointAt(g.ID); err != nil {
		a.lock.Close()
		return nil, err
	}
	s.Log.Info("adopted the data generation", "generation", g.ID, "origin", g.Origin, "version", g.MajorVersion)
	s.set(func(status *agentapi.Status) {
		status.State, status.Message = agentapi.StateStarting, ""
		status.DataGeneration, status.SystemIdentifier = g.DataGeneration(), g.SystemIdentifier
	})
	return a, nil
}

// copyCertificates puts the TLS files where PostgreSQL may read them.
func copyCertificates(from Paths, to settings.Paths) error {
	if _, err := settings.CopyTLS(from.TLSDir, to.TLSDir); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(from.PeerTLSDir, settings.CertFile)); errors.Is(err, os.ErrNotExist) {
		return nil // a cluster of one
	}
	_, err := settings.CopyTLS(from.PeerTLSDir, to.PeerTLSDir)
	return err
}

// pointAt moves `current`, and removes what killed workers left: none of them can be at work beside a database pod.
func (s *Supervisor) pointAt(id string) error {
	if err := s.Volume.Adopt(id); err != nil {
		return fmt.Errorf("adopt data generation %s: %w", id, err)
	}
	removed, err := s.Volume.RemoveIncomplete()
	if len(removed) > 0 {
		s.Log.Info("removed data generations that were never completed", "generations", removed)
	}
	return err
}

// inspect finds the programs for a generation and checks that it holds what it says.
func (s *Supervisor) inspect(ctx context.Context, g generation.Generation) (binDir string, segSize uint64, err error) {
	pgdata := s.Volume.PGData(g.ID)
	content, err := os.ReadFile(filepath.Join(pgdata, "PG_VERSION"))
	if err != nil {
		return "", 0, fmt.Errorf("data generation %s is damaged: %w", g.ID, err)
	}
	version, err := postgres.ParseVersion(string(content))
	if err != nil {
		return "", 0, fmt.Errorf("data generation %s is damaged: %w", g.ID, err)
	}
	binDir, err = postgres.BinDir(ctx, postgres.Exec, version.Major)
	if err != nil {
		return "", 0, fmt.Errorf("data generation %s needs PostgreSQL %d, which this image doesn't have: %w", g.ID, version.Major, err)
	}
	control, err := postgres.ReadControlData(ctx, postgres.Exec, binDir, pgdata)
	if err != nil {
		return "", 0, fmt.Errorf("data generation %s is damaged: %w", g.ID, err)
	}
	if system := strconv.FormatUint(control.SystemIdentifier, 10); system != g.SystemIdentifier {
		return "", 0, fmt.Errorf("data generation %s is of system %s, and its data is of system %s", g.ID, g.SystemIdentifier, system)
	}
	return binDir, control.SegSize, nil
}

func (s *Supervisor) configPaths(id string) settings.Paths {
	return settings.Paths{
		SocketDir: s.SocketDir, Dir: filepath.Join(s.Volume.Dir(id), "conf"), TLSDir: filepath.Join(s.RunDir, "tls"),
		PeerTLSDir: filepath.Join(s.RunDir, "peer-tls"), WAL: s.WAL, Port: s.Port,
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

func (s *Supervisor) restartWanted(request agentapi.RestartRequest) bool {
	status := s.Status()
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
