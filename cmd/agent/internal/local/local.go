// Package local talks to the server of this pod as the superuser, over its socket.
package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"howdah.dev/howdah/pkg/postgres"
)

// Server is where the server is.
type Server struct {
	SocketDir string
	Port      int
	// LockTimeout is how long a statement waits for a lock; 0: 30 s.
	LockTimeout time.Duration
}

const (
	connectTime = 5 * time.Second
	lockTime    = 30 * time.Second
)

// session are the settings of every superuser session: those of all our sessions, nothing that we run shows in the log, no lock
// is waited for long, and nothing waits for replicas, which can't come before the role is there that they come as.
func session(major int, lockTimeout time.Duration) map[string]string {
	settings := postgres.SessionSettings(major)
	maps.Copy(settings, map[string]string{
		"application_name":           "howdah",
		"log_statement":              "none",
		"log_min_duration_statement": "-1",
		"log_min_error_statement":    "panic",
		"log_duration":               "off",
		"lock_timeout":               strconv.FormatInt(cmp.Or(lockTimeout, lockTime).Milliseconds(), 10),
		"synchronous_commit":         "local",
	})
	return settings
}

// Options are the settings of a superuser session for a program of PostgreSQL's, which may wait for locks as long as it takes.
func Options(major int) string {
	settings := session(major, 0)
	settings["lock_timeout"] = "0"
	return postgres.SessionOptions(settings)
}

// major is that of the server, as the lock file beside its socket says where its data are; 0 where that can't be read.
func (s Server) major() int {
	lock, err := os.ReadFile(filepath.Join(s.SocketDir, fmt.Sprintf(".s.PGSQL.%d.lock", s.Port)))
	if err != nil {
		return 0
	}
	owner, err := postgres.ParsePostmasterPID(lock) // its first lines are the same
	if err != nil {
		return 0
	}
	content, err := os.ReadFile(filepath.Join(owner.DataDir, "PG_VERSION"))
	if err != nil {
		return 0
	}
	version, err := postgres.ParseVersion(string(content))
	if err != nil {
		return 0
	}
	return version.Major
}

// Connect opens a session in a database. It has no statement timeout: ctx bounds what it does.
func (s Server) Connect(ctx context.Context, database string) (*pgx.Conn, error) {
	return s.connect(ctx, postgres.RoleSuperuser, database, session(s.major(), s.LockTimeout))
}

// ConnectMonitor opens a session of the role that runs a person's own queries, which may only read, and each for so long.
func (s Server) ConnectMonitor(ctx context.Context, database string, each time.Duration) (*pgx.Conn, error) {
	settings := postgres.SessionSettings(s.major())
	limit := strconv.FormatInt(each.Milliseconds(), 10)
	maps.Copy(settings, map[string]string{
		"application_name": "howdah monitoring", "default_transaction_read_only": "on", "statement_timeout": limit, "lock_timeout": limit,
		"idle_in_transaction_session_timeout": limit, "max_parallel_workers_per_gather": "0",
	})
	return s.connect(ctx, postgres.RoleMonitor, database, settings)
}

// ConnectReplication opens a replication connection to a database, which takes other commands than SQL.
func (s Server) ConnectReplication(ctx context.Context, database string) (*pgconn.PgConn, error) {
	settings := session(s.major(), s.LockTimeout)
	settings["replication"] = "database"
	conn, err := s.connect(ctx, postgres.RoleSuperuser, database, settings)
	if err != nil {
		return nil, err
	}
	return conn.PgConn(), nil
}

func (s Server) connect(ctx context.Context, role, database string, settings map[string]string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig("sslmode=disable")
	if err != nil {
		return nil, err
	}
	config.Host, config.Port = s.SocketDir, uint16(s.Port)
	config.User, config.Password, config.Database = role, "", database
	config.Fallbacks = nil
	config.ConnectTimeout = connectTime
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // our statements are run once
	config.StatementCacheCapacity, config.DescriptionCacheCapacity = 0, 0
	config.RuntimeParams = settings
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL over its socket: %w", Plain(err))
	}
	return conn, nil
}

// With runs do in a session of its own.
func (s Server) With(ctx context.Context, database string, do func(*pgx.Conn) error) error {
	conn, err := s.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return do(conn)
}

// Plain makes an error of the server one sentence without what it may quote.
func Plain(err error) error {
	fault := &pgconn.PgError{}
	if errors.As(err, &fault) {
		return fmt.Errorf("%s (SQLSTATE %s)", fault.Message, fault.Code)
	}
	return err
}

// Probe is one session that stays open, for short questions that are asked again and again. At most one is asked at a
// time.
type Probe struct {
	server Server
	mu     sync.Mutex
	conn   *pgx.Conn
}

// NewProbe makes a probe; it connects when it is asked first, and again after an error.
func NewProbe(server Server) *Probe { return &Probe{server: server} }

// Ask runs do in the open session. An error of do's, or the end of ctx, closes it.
func (p *Probe) Ask(ctx context.Context, do func(context.Context, *pgx.Conn) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if p.conn == nil || p.conn.IsClosed() {
		conn, err := p.server.Connect(ctx, "postgres")
		if err != nil {
			return err
		}
		p.conn = conn
	}
	err := do(ctx, p.conn)
	if err != nil {
		p.close()
	}
	return err
}

// Close ends the session.
func (p *Probe) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.close()
}

func (p *Probe) close() {
	if p.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = p.conn.Close(ctx) // it is given up in any case
	p.conn = nil
}
