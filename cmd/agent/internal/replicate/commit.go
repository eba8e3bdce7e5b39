package replicate

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/settings"
)

// Commit has the server that a client would reach at source commit something that leaves nothing in the database but WAL.
func (i Instance) Commit(ctx context.Context, source settings.Upstream) error {
	return i.with(ctx, source, func(conn *pgx.Conn) error {
		replica := false
		if err := conn.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&replica); err != nil {
			return err
		}
		if replica {
			return errors.New("a replica answers there")
		}
		if _, err := conn.Exec(ctx, "SELECT pg_logical_emit_message(true, 'howdah', '')"); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		return nil
	})
}
