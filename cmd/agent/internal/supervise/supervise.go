// Package supervise is `agent run`: it adopts the wanted data generation, keeps PostgreSQL running on it with the wanted
// configuration, and stops it in order.
//
// One goroutine decides everything about the server (runner.loop); the others watch files, ask the server, or answer
// from State.
package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/archive"
	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/cmd/agent/internal/settings"
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
	AppDir       string
	SuperuserDir string
	Agent        string // program for archive_command
	Port         int    // of PostgreSQL
}

// DefaultPaths are those of docs/architecture.md.
func DefaultPaths() Paths {
	return Paths{
		Volume: agentapi.VolumeDir, RunDir: agentapi.RunDir, SocketDir: agentapi.SocketDir, ConfigFile: agentapi.ConfigFile,
		TLSDir: agentapi.TLSDir, AppDir: agentapi.AppDir, SuperuserDir: agentapi.SuperuserDir,
		Agent: agentapi.AgentPath, Port: agentapi.PostgresPort,
	}
}

// Publisher tells clients whether to come here.
type Publisher interface {
	Set(ready bool)
	Withdraw(ctx context.Context)
}

// Options of a supervisor.
type Options struct {
	Paths
	// Pod is the pod's own name.
	Pod string
	// Generation that the pod was started for. The agent waits for a configuration with just that one, as the one that
	// it finds first may be old. Empty takes what the configuration says.
	Generation string
	// Grace is how long the pod may take to end; 0 is unknown, and PostgreSQL takes what it needs.
	Grace time.Duration
	// OpenStore opens the archive's store.
	OpenStore func(context.Context, objstore.Config) (objstore.Store, error)
	// Publish makes the publisher of a cluster, once its configuration is known.
	Publish func(agentapi.Config) Publisher
	// ArchiveLimits say how long archiving waits.
	ArchiveLimits archive.Limits
	Log           *slog.Logger
}

// Supervisor runs one server.
type Supervisor struct {
	Options
	*State
	restarts chan agentapi.RestartRequest
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
	adopted, in, err := s.prepare(ctx, newest)
	if err != nil {
		return nil // ctx has ended, and nothing was started
	}
	defer adopted.lock.Close()
	archiver := archive.New(filepath.Join(adopted.pgdata, "pg_wal"), s.Log, time.Now, s.ArchiveLimits)
	defer archiver.Close()
	stopSocket, err := s.serveArchive(archiver)
	if err != nil {
		return err
	}
	defer stopSocket()
	s.setArchiver(archiver)
	r := &runner{
		Supervisor: s, adopted: adopted, newest: newest, inputs: in, archiver: archiver,
		publisher: s.Publish(in.config), credentials: make(chan struct{}, 1),
	}
	r.setArchive()
	err = r.loop(ctx)
	s.probe.Close()
	return err
}

// adopted is a generation with all that it takes to run a server on it.
type adopted struct {
	generation generation.Generation
	pgdata     string
	binDir     string
	lock       *os.File
	segSize    uint64
	paths      settings.Paths
}

// prepare adopts the wanted generation. While it can't, it says why and tries again: restarting the pod would not help.
func (s *Supervisor) prepare(ctx context.Context, newest <-chan inputs) (adopted, inputs, error) {
	var in inputs
	known := false
	for {
		select {
		case <-ctx.Done():
			return adopted{}, inputs{}, ctx.Err()
		case in = <-newest:
			known = true
		case <-time.After(5 * time.Second):
		}
		s.beat()
		if !known {
			continue
		}
		a, err := s.adopt(ctx, in)
		if err == nil {
			return a, in, nil
		}
		if ctx.Err() == nil {
			s.fail(in, err)
		}
	}
}

// errWaiting is a reason to wait that is no failure.
var errWaiting = errors.New("waiting")

func (s *Supervisor) fail(in inputs, err error) {
	state := agentapi.StateFailed
	if errors.Is(err, errWaiting) {
		state = agentapi.StateStarting
	}
	changed := s.set(func(status *agentapi.Status) {
		status.State, status.Message, status.DataGeneration = state, err.Error(), in.config.DataGeneration
	})
	if changed {
		s.Log.Error("PostgreSQL can't be started", "error", err)
	}
}

func (s *Supervisor) adopt(ctx context.Context, in inputs) (adopted, error) {
	if in.err != nil {
		return adopted{}, in.err
	}
	wanted := in.config.DataGeneration
	if s.Generation != "" && wanted != s.Generation {
		return adopted{}, fmt.Errorf("%w for the configuration of data generation %s; the one that is here is of %s", errWaiting, s.Generation, wanted)
	}
	g, err := s.Volume.Read(wanted)
	if err != nil {
		return adopted{}, fmt.Errorf("data generation %q can't be adopted: %w", wanted, err)
	}
	if in.config.MajorVersion != 0 && g.MajorVersion != in.config.MajorVersion {
		return adopted{}, fmt.Errorf("data generation %s is of PostgreSQL %d, and the cluster is to run %d", g.ID, g.MajorVersion, in.config.MajorVersion)
	}
	a := adopted{generation: g, pgdata: s.Volume.PGData(g.ID)}
	if a.binDir, a.segSize, err = s.inspect(ctx, g); err != nil {
		return adopted{}, err
	}
	if a.paths, err = s.configPaths(g.ID); err != nil {
		return adopted{}, err
	}
	if _, err := settings.CopyTLS(s.TLSDir, a.paths.TLSDir); err != nil {
		return adopted{}, err
	}
	if a.lock, err = s.Volume.Lock(g.ID); err != nil {
		return adopted{}, err
	}
	if err := s.pointAt(g.ID); err != nil {
		a.lock.Close()
		return adopted{}, err
	}
	s.Log.Info("adopted the data generation", "generation", g.ID, "origin", g.Origin, "version", g.MajorVersion)
	s.set(func(status *agentapi.Status) {
		status.State, status.Message = agentapi.StateStarting, ""
		status.DataGeneration, status.SystemIdentifier = g.ID, g.SystemIdentifier
	})
	return a, nil
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

func (s *Supervisor) configPaths(id string) (settings.Paths, error) {
	paths := settings.Paths{
		SocketDir: s.SocketDir, Dir: filepath.Join(s.Volume.Dir(id), "conf"), TLSDir: filepath.Join(s.RunDir, "tls"),
		Agent: s.Agent, Port: s.Port,
	}
	return paths, os.MkdirAll(paths.Dir, 0o700)
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
