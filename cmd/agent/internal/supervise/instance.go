package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/extensions"
	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/imagetrial"
	"howdah.dev/howdah/cmd/agent/internal/replicate"
	"howdah.dev/howdah/cmd/agent/internal/routing"
	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// instance is where PostgreSQL runs, as the agent was told, and what is published of it. Nothing in it changes but State, which any
// goroutine may use.
type instance struct {
	Options
	*State
	grace   *gracePeriod
	reinits *reinits
	faults  *faults
	poolers *routing.Desk
}

// adopted is a copy of the data generation with all that it takes to run a server on it.
type adopted struct {
	generation generation.Generation
	pgdata     string
	binDir     string
	lock       *os.File
	segSize    uint64
	image      settings.Image
	paths      settings.Paths
}

// open makes a copy ready to run a server on, and points `current` at it.
func (i *instance) open(ctx context.Context, g generation.Generation, major int) (*adopted, error) {
	defer i.waiting()() // what killed workers left may be large
	if major != 0 && g.MajorVersion != major {
		return nil, fmt.Errorf("data generation %s is of PostgreSQL %d, and the cluster is to run %d", g.ID, g.MajorVersion, major)
	}
	if i.Volume.Rewinding(g.ID) {
		return nil, fmt.Errorf("copy %s of the data was given up on this volume: it is half rewound, or an upgrade has linked its files", g.ID)
	}
	a := &adopted{generation: g, pgdata: i.Volume.PGData(g.ID)}
	binDir, control, err := i.inspect(ctx, g)
	if err != nil {
		return nil, err
	}
	a.binDir, a.segSize = binDir, control.SegSize
	a.paths, a.image = i.configPaths(g.ID), settings.Inspect(ctx, postgres.Exec, a.binDir, a.pgdata)
	if a.image.Extensions, err = extensions.Find(filepath.Join(i.Paths.RunDir, filepath.Base(agentapi.ExtensionsDir)), g.MajorVersion); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(a.paths.Dir, 0o700); err != nil {
		return nil, err
	}
	told, err := copyCertificates(i.Paths, a.paths, time.Now())
	if err != nil {
		return nil, err
	}
	if a.lock, err = i.Volume.Lock(g.ID); err != nil {
		return nil, err
	}
	err = i.withRoom(func() error { return generation.WAL(i.Volume).RenewPair(g.ID) })
	if errors.Is(err, syscall.ENOSPC) { // the pair is one all the same
		i.Log.Warn("the data volume and the WAL volume keep their token, as one of them is full", "error", err)
		err = nil
	}
	if err == nil {
		err = i.pointAt(g.ID)
	}
	if err != nil {
		a.lock.Close()
		return nil, err
	}
	i.Log.Info("adopted the data generation", "generation", g.ID, "origin", g.Origin, "version", g.MajorVersion)
	i.set(func(status *agentapi.Status) {
		status.State, status.Message, status.ServerTLS = agentapi.StateStarting, "", told
		status.DataGeneration, status.SystemIdentifier, status.Format = g.DataGeneration(), g.SystemIdentifier, imagetrial.Format(control)
	})
	return a, nil
}

// pointAt moves `current`, and removes what killed workers left: none of them can be at work beside a database pod.
func (i *instance) pointAt(id string) error {
	if err := i.Volume.Adopt(id); err != nil {
		return fmt.Errorf("adopt data generation %s: %w", id, err)
	}
	removed, err := i.Volume.RemoveIncomplete()
	if len(removed) > 0 {
		i.Log.Info("removed data generations that were never completed", "generations", removed)
	}
	return err
}

// inspect finds the programs for a generation and checks that it holds what it says.
func (i *instance) inspect(ctx context.Context, g generation.Generation) (binDir string, control postgres.ControlData, err error) {
	pgdata := i.Volume.PGData(g.ID)
	content, err := os.ReadFile(filepath.Join(pgdata, "PG_VERSION"))
	if err != nil {
		return "", control, fmt.Errorf("data generation %s is damaged: %w", g.ID, err)
	}
	version, err := postgres.ParseVersion(string(content))
	if err != nil {
		return "", control, fmt.Errorf("data generation %s is damaged: %w", g.ID, err)
	}
	binDir, err = postgres.BinDir(ctx, postgres.Exec, version.Major)
	if err != nil {
		return "", control, fmt.Errorf("data generation %s needs PostgreSQL %d, which this image doesn't have: %w", g.ID, version.Major, err)
	}
	control, err = postgres.ReadControlData(ctx, postgres.Exec, binDir, pgdata)
	if err != nil {
		return "", control, fmt.Errorf("data generation %s is damaged: %w", g.ID, err)
	}
	if system := strconv.FormatUint(control.SystemIdentifier, 10); system != g.SystemIdentifier {
		return "", control, fmt.Errorf("data generation %s is of system %s, and its data is of system %s", g.ID, g.SystemIdentifier, system)
	}
	return binDir, control, nil
}

func (i *instance) configPaths(id string) settings.Paths {
	return settings.Paths{
		SocketDir: i.SocketDir, Dir: filepath.Join(i.Volume.Dir(id), "conf"), TLSDir: i.serverTLSDir(),
		PeerTLSDir: filepath.Join(i.RunDir, "peer-tls"), LDAPFile: filepath.Join(i.RunDir, "ldap"), LDAPCAFile: filepath.Join(i.RunDir, "ldap-ca.crt"),
		LDAPConfFile: filepath.Join(i.RunDir, "ldap.conf"), WAL: i.WAL, Port: i.Port,
	}
}

// ask asks the server a short question.
func (i *instance) ask(ctx context.Context, do func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	return i.probe.Ask(ctx, do)
}

// awaitWaitingCommits waits until commits wait for replicas.
func (i *instance) awaitWaitingCommits(ctx context.Context) error {
	return replicate.AwaitWaitingCommits(ctx, func(ctx context.Context) (*pgx.Conn, error) { return i.server.Connect(ctx, "postgres") })
}

// locate is where the server is at this moment. Only a replica that accepts connections has a position that counts.
func (i *instance) locate(ctx context.Context) (agentapi.Position, error) {
	found, err := i.position(ctx)
	return positionOf(found), err
}

// position is how much of the WAL the server has at this moment.
func (i *instance) position(ctx context.Context) (found replicate.Position, err error) {
	err = i.probe.Ask(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		found, err = replicate.LocalPosition(ctx, conn)
		return err
	})
	return found, err
}

// positionOf what was found. A replica that has not read all of its WAL yet doesn't know where it is.
func positionOf(found replicate.Position) agentapi.Position {
	if !found.Settled {
		return agentapi.Position{Streaming: found.Streaming}
	}
	return agentapi.Position{Timeline: int64(found.Timeline), LSN: uint64(found.LSN), Streaming: found.Streaming}
}

// socket is the server's.
func (i *instance) socket() string {
	return filepath.Join(i.SocketDir, fmt.Sprintf(".s.PGSQL.%d", i.Port))
}

const (
	factsInterval = 5 * time.Second
	factsTime     = 10 * time.Second
)

const (
	rolePrimary = "primary"
	roleReplica = "replica"
)

// learn asks the server what it is.
func (i *instance) learn(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, factsTime)
	defer cancel()
	var (
		replica  bool
		timeline int64
		written  int64
		version  int
	)
	err := i.probe.Ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT r, CASE WHEN r THEN (SELECT timeline_id FROM pg_catalog.pg_control_checkpoint())
			ELSE ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int END,
			CASE WHEN r THEN 0 ELSE pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::int8 END,
			current_setting('server_version_num')::int FROM pg_is_in_recovery() AS r`).Scan(&replica, &timeline, &written, &version)
	})
	if err != nil {
		if ctx.Err() == nil {
			i.Log.Warn("PostgreSQL does not say what it is", "error", err)
		}
		return
	}
	role := rolePrimary
	if replica {
		role = roleReplica
	}
	i.set(func(status *agentapi.Status) {
		if status.State == agentapi.StateRunning {
			status.Role, status.Timeline, status.LSN, status.Version = role, timeline, uint64(written), postgres.VersionFromNum(version).String()
		}
	})
}
