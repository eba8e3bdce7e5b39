package supervise

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/replicate"
	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/postgres"
)

// pausedLook is how often a replica that replays nothing is asked why.
const pausedLook = 5 * time.Second

// pause is what is known of a replica that replays nothing. A person may have paused it; but PostgreSQL pauses one as well that comes to WAL
// of a primary with more max_locks_per_transaction, say, than it has itself. It keeps receiving, can't be promoted, and only a restart
// with as much helps. The WAL may be that of a server which nobody has configured: the one that pg_upgrade has started on data that is
// taken up again when the upgrade fails.
type pause struct {
	looked time.Time
}

// why looks what the server has too little of; empty: nothing, or it was looked at a moment ago.
func (p *pause) why(ctx context.Context, s *replicaServices) (string, error) {
	if time.Since(p.looked) < pausedLook {
		return "", nil
	}
	p.looked = time.Now()
	control, err := postgres.ReadControlData(ctx, postgres.Exec, s.copy.binDir, s.copy.pgdata)
	if err != nil {
		return "", err
	}
	has := map[string]int{}
	err = s.ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, "SELECT name, setting::int FROM pg_catalog.pg_settings WHERE name ~ '^max_' AND vartype = 'integer'")
		if err != nil {
			return err
		}
		var name string
		var value int
		_, err = pgx.ForEachRow(rows, []any{&name, &value}, func() error {
			has[name] = value
			return nil
		})
		return err
	})
	if err != nil {
		return "", err
	}
	return strings.Join(settings.LeastOf(control).Beyond(has), ", "), nil
}

// lookForPause notes a replica that replays nothing since it has too little of a parameter.
func (s *replicaServices) lookForPause(ctx context.Context, found replicate.Position) {
	if !found.Paused {
		return
	}
	why, err := s.pause.why(ctx, s)
	if err != nil {
		s.Log.Debug("why the replica has paused can't be found out", "error", err)
		return
	}
	if why != "" {
		s.progress.lack(why)
	}
}

// restartWithEnough restarts a replica whose recovery PostgreSQL has paused: it starts with as much as its copy asks for.
func restartWithEnough(ctx context.Context, s *server) error {
	lacks := s.progress.lacks()
	if lacks == "" {
		return nil
	}
	s.Log.Warn("the recovery has paused, because the WAL comes from a server with higher values of some parameters; PostgreSQL is restarted with these values", "parameters", lacks)
	return s.restart(ctx)
}
