package rowwriter

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/pkg/agentapi"
)

// Dialer returns a function that connects to a host as the role of the drill, with the client certificate in a folder. Settings are those that
// any client gets.
func Dialer(host, certificates string) func(context.Context) (*pgx.Conn, error) {
	return func(ctx context.Context) (*pgx.Conn, error) {
		security, err := tlsConfig(host, certificates)
		if err != nil {
			return nil, err
		}
		config, err := pgx.ParseConfig("sslmode=verify-full") // what is left to the environment is set below
		if err != nil {
			return nil, err
		}
		config.Host, config.Port, config.Database = host, agentapi.PostgresPort, "postgres"
		config.User, config.Password = agentapi.FailoverDrillRole, ""
		config.TLSConfig, config.Fallbacks = security, nil
		config.DefaultQueryExecMode = pgx.QueryExecModeExec // one round trip
		config.RuntimeParams = map[string]string{"application_name": "howdah-failover-drill"}
		return pgx.ConnectConfig(ctx, config)
	}
}

func tlsConfig(host, certificates string) (*tls.Config, error) {
	authority, err := os.ReadFile(filepath.Join(certificates, "ca.crt"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return nil, errors.New("ca.crt of the client certificate holds no PEM certificate")
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(certificates, "tls.crt"), filepath.Join(certificates, "tls.key"))
	if err != nil {
		return nil, err
	}
	return &tls.Config{RootCAs: roots, ServerName: host, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}
