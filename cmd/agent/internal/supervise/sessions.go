package supervise

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/pkg/agentapi"
)

const (
	sessionsInterval = 30 * time.Second // between two looks
	sessionsWindow   = 10               // looks that count
)

const sessionsShare = `SELECT 100.0::float8 * (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid())
	/ greatest(1, current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
		- coalesce(current_setting('reserved_connections', true), '0')::int)`

// countSessions publishes what part of the sessions that clients can have they use, until ctx ends: from then on nothing is known.
func (s *replicaServices) countSessions(ctx context.Context) {
	defer s.set(func(status *agentapi.Status) { status.Sessions = nil })
	tick := time.NewTicker(sessionsInterval)
	defer tick.Stop()
	var seen []float64
	for {
		percent := 0.0
		err := s.ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
			return conn.QueryRow(ctx, sessionsShare).Scan(&percent)
		})
		if err == nil {
			seen = append(seen, percent)
			seen = seen[max(0, len(seen)-sessionsWindow):]
			told := sessionsOf(seen)
			s.set(func(status *agentapi.Status) { status.Sessions = told })
		} else if ctx.Err() == nil {
			s.Log.Debug("how many sessions clients have is not known", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// sessionsOf is the average of what was seen.
func sessionsOf(seen []float64) *agentapi.Sessions {
	sum := 0.0
	for _, percent := range seen {
		sum += percent
	}
	return &agentapi.Sessions{Seconds: int64(len(seen)) * int64(sessionsInterval.Seconds()), Percent: int64(sum / float64(len(seen)))}
}
