package clonejob

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
	application = "howdah-clone"
	connectTime = 10 * time.Second
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
}

func (o origin) role() string {
	if o.replica {
		return "a replica"
	}
	return "the primary"
}

// find asks for a server in the order of the task's hosts: a replica rather than the primary.
func (w Worker) find(ctx context.Context, s source) (origin, error) {
	var failures error
	for _, host := range w.Task.Hosts {
		at, err := s.ask(ctx, host)
		if err == nil {
			return at, nil
		}
		failures = errors.Join(failures, fmt.Errorf("%s: %w", host, local.Plain(err)))
	}
	return origin{}, job.Fail(ReasonSourceUnreachable, fmt.Errorf("connect to PostgresCluster %s: %w", w.Task.Cluster, failures))
}

func (s source) ask(ctx context.Context, host string) (origin, error) {
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
	config.RuntimeParams = postgres.SessionSettings(0)
	config.RuntimeParams["application_name"] = application
	delete(config.RuntimeParams, "role")
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return origin{}, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	at := origin{host: host}
	err = conn.QueryRow(ctx, `SELECT host(inet_server_addr()), (SELECT system_identifier::text FROM pg_control_system()),
		current_setting('server_version_num')::int / 10000, (SELECT sum(pg_database_size(oid))::bigint FROM pg_database), pg_is_in_recovery()`).
		Scan(&at.address, &at.system, &at.major, &at.bytes, &at.replica)
	return at, err
}
