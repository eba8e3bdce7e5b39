package replicate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/pkg/postgres"
)

const (
	promotePoll = 10 * time.Millisecond
	// standing in the way for so long, a session is ended.
	conflictTime = 500 * time.Millisecond
	// wakeTime is how often a summarizer that sleeps is woken where the promotion waits for it.
	wakeTime = 50 * time.Millisecond
)

// Ask runs do in a session of the superuser.
type Ask func(ctx context.Context, do func(context.Context, *pgx.Conn) error) error

// In asks in an open session.
func In(conn *pgx.Conn) Ask {
	return func(ctx context.Context, do func(context.Context, *pgx.Conn) error) error { return do(ctx, conn) }
}

// Promote makes a primary of the replica and returns once it takes writes. It replays what it has first, however long that takes, and replayed is told
// how far it is; sessions that stand in the way of that are ended. A new primary is no source of a rewind before its first checkpoint; see Rewind.
func Promote(ctx context.Context, ask Ask, replayed func(postgres.LSN)) error {
	if err := promote(ctx, ask, replayed); err != nil {
		return fmt.Errorf("promote: %w", local.Plain(err))
	}
	return nil
}

func promote(ctx context.Context, ask Ask, replayed func(postgres.LSN)) error {
	do := func(statement string) error {
		return ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, statement)
			return err
		})
	}
	if err := do("SELECT pg_promote(wait => false)"); err != nil {
		return err
	}
	poll, conflict, wake := time.NewTicker(promotePoll), time.NewTicker(conflictTime), time.NewTicker(wakeTime)
	defer poll.Stop()
	defer conflict.Stop()
	defer wake.Stop()
	for {
		if recovers, err := recovering(ctx, ask, replayed); err != nil || !recovers {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-conflict.C:
			if err := do(endConflicts); err != nil {
				return err
			}
		case <-wake.C:
			if err := do(wakeSummarizer); err != nil {
				return err
			}
		case <-poll.C:
		}
	}
}

// recovering says whether the server is a replica still, and tells how far that is.
func recovering(ctx context.Context, ask Ask, replayed func(postgres.LSN)) (recovers bool, err error) {
	var at string
	err = ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT pg_is_in_recovery(), coalesce(pg_last_wal_replay_lsn(), '0/0')::text").Scan(&recovers, &at)
	})
	if err != nil {
		return false, err
	}
	lsn, err := postgres.ParseLSN(at)
	if err == nil {
		replayed(lsn)
	}
	return recovers, err
}

// SkipTimelines has a promotion of a server on timeline own begin timeline next, and not the one after own, which another server
// may have begun that nobody has heard of since: of two timelines of one number no rewind would find a difference. PostgreSQL
// takes the first number without a history, so those between get an empty one. They stay, as replicas ask for each of them.
func SkipTimelines(pgdata string, own, next int64) error {
	for timeline := own + 1; timeline < next; timeline++ {
		path := filepath.Join(pgdata, "pg_wal", postgres.HistoryName(uint32(timeline)))
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("skip timeline %d: %w", timeline, err)
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return fmt.Errorf("skip timeline %d: %w", timeline, err)
		}
	}
	return nil
}

// endConflicts ends the sessions that replay may be waiting for, if it does; it would let them be for
// max_standby_streaming_delay.
const endConflicts = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
	WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND state <> 'idle' AND EXISTS (SELECT FROM pg_stat_activity
		WHERE backend_type = 'startup' AND (wait_event LIKE 'RecoveryConflict%' OR wait_event_type IN ('Lock', 'BufferPin')))`

// wakeSummarizer wakes the WAL summarizer where the end of recovery waits for it: it has nothing left to read, and writes its
// last summary of the timeline only when it looks again, for which it sleeps up to half a minute. A reload wakes every process.
const wakeSummarizer = `SELECT pg_reload_conf() FROM pg_stat_activity WHERE backend_type = 'startup' AND wait_event = 'WalSummaryReady'`
