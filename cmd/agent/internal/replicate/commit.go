package replicate

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/settings"
)

// Committed is the transaction ID that the server would give next, after the last commit here; 0: there was none. The goroutine of the checks has it.
type Committed uint64

const nextTransaction = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::int8"

// Commit has the server that a client would reach at source commit something that leaves nothing in the database but WAL. Where no more
// transactions wrote something since the last commit than others, which do the same, it only connects there: each commit on an idle server has
// it write a checkpoint and archive a segment.
func (i Instance) Commit(ctx context.Context, source settings.Upstream, last *Committed, others int) error {
	return i.with(ctx, source, func(conn *pgx.Conn) error {
		replica := false
		if err := conn.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&replica); err != nil {
			return err
		}
		if replica {
			return errors.New("a replica answers there")
		}
		next := int64(0)
		if err := conn.QueryRow(ctx, nextTransaction).Scan(&next); err != nil {
			return err
		}
		if done := int64(*last); done > 0 && next >= done && next-done <= int64(others) {
			return nil
		}
		if _, err := conn.Exec(ctx, "SELECT pg_logical_emit_message(true, 'howdah', '')"); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		if err := conn.QueryRow(ctx, nextTransaction).Scan(&next); err != nil {
			return err
		}
		*last = Committed(next)
		return nil
	})
}
