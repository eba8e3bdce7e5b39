// Package replicate makes a copy of the data that follows another instance, by a clone or a rewind, and keeps what
// replication needs on both sides: slots, and the knowledge of who has how much of the WAL. Who follows whom is
// decided elsewhere.
package replicate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/postgres"
)

// Instance is this pod, as one that follows another.
type Instance struct {
	Pod    string
	Volume generation.Volume
	BinDir string
	// Major version, which all instances of a cluster have.
	Major int
	// Paths of the server; PeerTLSDir has the certificate to come with.
	Paths settings.Paths
	Log   *slog.Logger
	Now   func() time.Time
}

// What can be wrong, for errors.Is.
var (
	// ErrClone is a copy that can't be made fit to follow: it has to be cloned.
	ErrClone = errors.New("the copy has to be cloned anew")
	// ErrNoRoom is a volume without room for a clone.
	ErrNoRoom = errors.New("the volume has no room for a clone")
	// ErrForeign is an instance of another database system than the one that is wanted.
	ErrForeign = errors.New("the instance is of another database system")
)

const connectTime = 5 * time.Second

// with runs do in a session at the source, as the replication role in the database postgres. ctx bounds what it does.
func (i Instance) with(ctx context.Context, source settings.Upstream, do func(*pgx.Conn) error) error {
	config, err := i.connection(source)
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", source.Pod, local.Plain(err))
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := do(conn); err != nil {
		return fmt.Errorf("ask %s: %w", source.Pod, local.Plain(err))
	}
	return nil
}

func (i Instance) connection(source settings.Upstream) (*pgx.ConnConfig, error) {
	security, err := clientTLS(i.Paths.PeerTLSDir, source.Host)
	if err != nil {
		return nil, fmt.Errorf("the certificate for other instances: %w", err)
	}
	config, err := pgx.ParseConfig("sslmode=verify-full") // what is left to the environment is set below
	if err != nil {
		return nil, err
	}
	config.Host, config.Port, config.Database = source.Address, uint16(source.PortOr(i.Paths.Port)), "postgres"
	config.User, config.Password = postgres.RoleReplication, ""
	config.TLSConfig, config.Fallbacks = security, nil
	config.ConnectTimeout = connectTime
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // each statement is run once
	config.RuntimeParams = postgres.SessionSettings(i.Major)
	config.RuntimeParams["application_name"] = "howdah"
	return config, nil
}

func clientTLS(dir, host string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, settings.CertFile), filepath.Join(dir, settings.KeyFile))
	if err != nil {
		return nil, err
	}
	authority, err := os.ReadFile(filepath.Join(dir, settings.CAFile))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("%s holds no certificate", settings.CAFile)
	}
	return &tls.Config{RootCAs: roots, ServerName: host, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}
