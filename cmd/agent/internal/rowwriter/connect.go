package rowwriter

import (
	"context"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/clienttls"
	"howdah.dev/howdah/pkg/agentapi"
)

// Dialer returns a function that connects to a host as the role of the drill, with the client certificate in a folder. Settings are those that
// any client gets.
func Dialer(host, certificates string) func(context.Context) (*pgx.Conn, error) {
	return func(ctx context.Context) (*pgx.Conn, error) {
		security, err := clienttls.Config(host, certificates)
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
