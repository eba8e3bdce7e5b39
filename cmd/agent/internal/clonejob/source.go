package clonejob

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/clienttls"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

const (
	application = "howdah-clone" // of the session that asks
	connectTime = 10 * time.Second
	askTime     = 2 * time.Minute // the sizes of many files may take that long
)

// source is how to log in at the cluster that is cloned.
type source struct{ paths settings.Paths }

// open copies the certificate with which replicas log in into a folder, as libpq accepts a key only if nobody else can read it.
func (w Worker) open() (source, error) {
	dir := filepath.Join(w.Scratch, "source")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return source{}, err
	}
	for name, key := range map[string]string{settings.CAFile: w.Task.CA, settings.CertFile: w.Task.Certificate, settings.KeyFile: w.Task.Key} {
		content, err := os.ReadFile(agentapi.SecretKey{Secret: w.Task.Secret, Key: key}.Path(w.Secrets))
		if errors.Is(err, os.ErrNotExist) {
			return source{}, job.Fail(ReasonSourceUnreachable, fmt.Errorf("there is no Secret %s with the key %s of PostgresCluster %s", w.Task.Secret, key, w.Task.Cluster))
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), content, 0o600)
		}
		if err != nil {
			return source{}, err
		}
	}
	return source{settings.Paths{PeerTLSDir: dir, Port: agentapi.PostgresPort}}, nil
}

// origin is the server that is read.
type origin struct {
	// host is the name that its certificate has, and address where this very server is: behind the name there may be several.
	host, address string
	system        string
	major         int
	bytes         int64
	replica       bool
	// databases and roles that an application may have.
	databases, roles []string
}

func (o origin) role() string {
	if o.replica {
		return "a replica"
	}
	return "the primary"
}

// connInfo is how pg_basebackup connects. It goes by its own name, for under any other it would be a replica: see replicate.Followers.
func (s source) connInfo(at origin) string {
	return settings.Upstream{Host: at.host, Address: at.address}.ConnInfo("", "", "", s.paths)
}

// find waits until there is a server that can be cloned.
func (w Worker) find(ctx context.Context, s source) (origin, error) {
	again := time.NewTicker(w.Patience.Every)
	defer again.Stop()
	began, answered := time.Now(), time.Time{}
	for {
		at, err := w.ask(ctx, s)
		over := time.Since(began) >= w.Patience.Away
		if err == nil {
			if err := w.fits(at); err != nil {
				return origin{}, err
			}
			if err = w.has(at); err == nil {
				return at, nil
			}
			if answered.IsZero() {
				answered = time.Now()
			}
			over = time.Since(answered) >= w.Patience.Settle
		}
		switch {
		case ctx.Err() != nil:
			return origin{}, ctx.Err()
		case over:
			return origin{}, err
		}
		w.Report(job.Progress{Phase: phaseConnecting, Message: fmt.Sprintf("PostgresCluster %s is asked again, as it can't be cloned now: %s.",
			w.Task.Cluster, strings.Join(strings.Fields(err.Error()), " "))})
		select {
		case <-ctx.Done():
			return origin{}, ctx.Err()
		case <-again.C:
		}
	}
}

// ask asks the servers in the order of the task's hosts: a replica rather than the primary.
func (w Worker) ask(ctx context.Context, s source) (origin, error) {
	var failures error
	for _, host := range w.Task.Hosts {
		at, err := s.ask(ctx, host, w.MajorVersion)
		if err == nil {
			return at, nil
		}
		failures = errors.Join(failures, fmt.Errorf("%s: %w", host, local.Plain(err)))
	}
	return origin{}, job.Fail(ReasonSourceUnreachable, fmt.Errorf("connect to PostgresCluster %s: %w", w.Task.Cluster, failures))
}

// query asks who the server is, and for the names that spec.bootstrap.clone may have.
const query = `SELECT host(inet_server_addr()), (SELECT system_identifier::text FROM pg_control_system()),
	current_setting('server_version_num')::int / 10000, (SELECT sum(pg_database_size(oid))::bigint FROM pg_database), pg_is_in_recovery(),
	array(SELECT datname::text FROM pg_database WHERE datname ~ '^[a-z_][a-z0-9_]*$' AND datname NOT IN ('postgres', 'template0', 'template1') ORDER BY datname),
	array(SELECT rolname::text FROM pg_roles WHERE rolname ~ '^[a-z_][a-z0-9_]*$' AND rolname !~ '^(pg|howdah)_' AND rolname <> 'postgres' ORDER BY rolname)`

func (s source) ask(ctx context.Context, host string, major int) (origin, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	security, err := clienttls.Config(host, s.paths.PeerTLSDir)
	if err != nil {
		return origin{}, err
	}
	config, err := pgx.ParseConfig("sslmode=verify-full") // what is left to the environment is set below
	if err != nil {
		return origin{}, err
	}
	config.Host, config.Port, config.Database = host, agentapi.PostgresPort, "postgres"
	config.User, config.Password = postgres.RoleReplication, ""
	config.TLSConfig, config.Fallbacks = security, nil
	config.ConnectTimeout = connectTime
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	config.RuntimeParams = postgres.SessionSettings(major)
	config.RuntimeParams["application_name"] = application
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return origin{}, err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTime)
		defer cancel()
		_ = conn.Close(closing)
	}()
	at := origin{host: host}
	err = conn.QueryRow(ctx, query).Scan(&at.address, &at.system, &at.major, &at.bytes, &at.replica, &at.databases, &at.roles)
	return at, err
}
