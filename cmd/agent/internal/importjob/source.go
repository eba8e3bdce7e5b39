package importjob

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/cmd/agent/internal/pgprogram"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

const connectTime = 30 * time.Second

// applicationName of our sessions on the source.
const applicationName = "howdah-import"

// source is the server that is read. Its password is in a file that only we can read, and in our memory.
type source struct {
	at       agentapi.ImportSource
	password string
	// files of libpq; empty: there is none.
	passfile, ca, certificate, key string
}

// openSource copies what is needed to log in into a folder, in the form that libpq accepts.
func openSource(at agentapi.ImportSource, secrets, dir string) (*source, error) {
	s := &source{at: at}
	password, err := readSecret(at.Password, secrets)
	if err != nil {
		return nil, err
	}
	if s.password = strings.TrimRight(string(password), "\r\n"); s.password != "" {
		escaped := strings.NewReplacer(`\`, `\\`, ":", `\:`).Replace(s.password)
		if s.passfile, err = keep(dir, "passfile", []byte("*:*:*:*:"+escaped+"\n")); err != nil {
			return nil, err
		}
	}
	for _, file := range []struct {
		from *agentapi.SecretKey
		name string
		to   *string
	}{{at.CA, "ca.crt", &s.ca}, {at.Certificate, "tls.crt", &s.certificate}, {at.Key, "tls.key", &s.key}} {
		content, err := readSecret(file.from, secrets)
		if err != nil {
			return nil, err
		}
		if file.from == nil {
			continue
		}
		if *file.to, err = keep(dir, file.name, content); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func keep(dir, name string, content []byte) (string, error) {
	path := filepath.Join(dir, name)
	return path, os.WriteFile(path, content, 0o600)
}

func readSecret(key *agentapi.SecretKey, dir string) ([]byte, error) {
	if key == nil {
		return nil, nil
	}
	content, err := os.ReadFile(key.Path(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, job.Fail(ReasonSecretMissing, fmt.Errorf("there is no Secret %s with the key %s, which spec.bootstrap.import.source names: create it", key.Secret, key.Key))
	}
	return content, err
}

// environment of PostgreSQL's programs that connect to a database of the source.
func (s *source) environment(database string) []string {
	env := append(pgprogram.Environment(),
		"PGHOST="+s.at.Host, "PGPORT="+strconv.Itoa(s.at.Port), "PGUSER="+s.at.User, "PGDATABASE="+database, "PGSSLMODE="+s.at.SSLMode,
		"PGCONNECT_TIMEOUT=30", "PGAPPNAME="+applicationName, "PGGSSENCMODE=disable")
	for name, path := range map[string]string{"PGPASSFILE": s.passfile, "PGSSLROOTCERT": s.ca, "PGSSLCERT": s.certificate, "PGSSLKEY": s.key} {
		if path == "" {
			path = "/nonexistent" // and not what a home folder has
		}
		env = append(env, name+"="+path)
	}
	return env
}

// connect opens a session that writes nothing.
func (s *source) connect(ctx context.Context, database string) (*pgx.Conn, error) {
	config, err := s.config(database)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, s.unreachable(database, err)
	}
	return conn, nil
}

func (s *source) unreachable(database string, err error) error {
	return job.Fail(ReasonSourceUnreachable, fmt.Errorf("connect to database %s of %s:%d as %s: %w", database, s.at.Host, s.at.Port, s.at.User, local.Plain(err)))
}

func (s *source) config(database string) (*pgx.ConnConfig, error) {
	text := "sslmode=" + s.at.SSLMode
	if s.ca != "" && s.at.SSLMode != "disable" {
		text += " sslrootcert=" + s.ca
	}
	if s.certificate != "" {
		text += " sslcert=" + s.certificate + " sslkey=" + s.key
	}
	config, err := pgx.ParseConfig(text + " host=" + s.at.Host + " port=" + strconv.Itoa(s.at.Port))
	if err != nil {
		return nil, job.Final(job.ReasonBadJob, fmt.Errorf("spec.bootstrap.import.source: %w", err))
	}
	config.User, config.Password, config.Database = s.at.User, s.password, database
	config.ConnectTimeout = connectTime
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	config.StatementCacheCapacity, config.DescriptionCacheCapacity = 0, 0
	config.RuntimeParams = postgres.SessionSettings(0)
	config.RuntimeParams["default_transaction_read_only"] = "on"
	config.RuntimeParams["application_name"] = applicationName
	delete(config.RuntimeParams, "role")
	return config, nil
}

// with runs do in a session of its own.
func (s *source) with(ctx context.Context, database string, do func(*pgx.Conn) error) error {
	conn, err := s.connect(ctx, database)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return do(conn)
}

// snapshot holds a snapshot of a database open, which all connections that copy it share, until release is called. It is that of another
// session, or else a new one.
func (s *source) snapshot(ctx context.Context, database, other string) (id string, release func(), err error) {
	conn, err := s.connect(ctx, database)
	if err != nil {
		return "", nil, err
	}
	closing := context.WithoutCancel(ctx)
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err == nil && other != "" {
		_, err = tx.Exec(ctx, "SET TRANSACTION SNAPSHOT "+literal(other))
	}
	if err == nil {
		err = tx.QueryRow(ctx, "SELECT pg_catalog.pg_export_snapshot()").Scan(&id)
	}
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("take a snapshot of database %s: %w", database, local.Plain(err)), conn.Close(closing))
	}
	alive, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		stayAlive(alive, tx)
	}()
	return id, func() {
		stop()
		<-done
		_ = conn.Close(closing) // which ends the transaction in any case
	}, nil
}

// stayAlive keeps a session from looking idle to what forwards its packets.
func stayAlive(ctx context.Context, tx pgx.Tx) {
	ticker := time.NewTicker(30 * time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			_, _ = tx.Exec(ctx, "SELECT 1") // a session that is lost shows in the next pg_dump
		}
	}
}
