package basebackup

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/clienttls"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

const connectTimeout = 15 * time.Second

// Dialer returns a function that connects to an address as the backup role of a server of that major, with the client certificate in a folder, and
// checks the server's certificate and that it is for the host.
func Dialer(host, address, certificates string, major int) func(context.Context) (*pgx.Conn, error) {
	return func(ctx context.Context) (*pgx.Conn, error) {
		config, err := connectConfig(host, address, certificates, major)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errConnect, err)
		}
		conn, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errConnect, plain(err))
		}
		return conn, nil
	}
}

func connectConfig(host, address, certificates string, major int) (*pgx.ConnConfig, error) {
	security, err := clienttls.Config(host, certificates)
	if err != nil {
		return nil, err
	}
	config, err := pgx.ParseConfig("sslmode=verify-full") // what is left to the environment is set below
	if err != nil {
		return nil, err
	}
	config.Host, config.Port, config.Database = address, agentapi.PostgresPort, "postgres"
	config.User, config.Password = agentapi.BackupRole, ""
	config.TLSConfig, config.Fallbacks = security, nil
	config.ConnectTimeout = connectTimeout
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // each statement is run once
	config.RuntimeParams = sessionSettings(major)
	return config, nil
}

func sessionSettings(major int) map[string]string {
	settings := postgres.SessionSettings(major)
	settings["application_name"] = "howdah-backup"
	return settings
}
