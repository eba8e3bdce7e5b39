package supervise

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// leadAway is after which times a former primary ends the sessions of clients. The EndpointSlice leads nobody to it when it starts as a
// replica, but each node's proxy learns that in its own time, on a busy node after seconds. A client that came until then, wants to
// write, and keeps its connection would get nothing but errors, for good; one that came to read connects again.
var leadAway = []time.Duration{2 * time.Second, 5 * time.Second, 15 * time.Second}

// endClients ends the sessions that have come over the network, other than those of backups, upgrades, replicas and poolers. A pooler
// looks itself whether its server is what its clients came for, and readers are to notice no switchover.
const endClients = `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity JOIN pg_stat_ssl USING (pid)
	WHERE backend_type = 'client backend' AND client_addr IS NOT NULL AND usename <> ALL ($1::text[])
		AND client_dn IS DISTINCT FROM '/CN=' || $2::text`

// leadAway ends the sessions of clients whenever that is due, and later where the server doesn't respond.
func (s *replicaServices) leadAway(ctx context.Context, passed time.Duration) {
	if len(s.lead) == 0 || passed < s.lead[0] {
		return
	}
	ended := 0
	err := s.ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, endClients, []string{postgres.RoleBackup, postgres.RoleUpgrade, postgres.RoleReplication}, agentapi.PoolerRole).Scan(&ended)
	})
	if err != nil {
		s.Log.Debug("sessions of clients can't be ended yet", "error", err)
		return
	}
	s.lead = s.lead[1:]
	if ended > 0 {
		s.Log.Info("ended sessions on the former primary, so that clients connect to the present one", "sessions", ended)
	}
}
