package restorejob

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/local"
)

// disable is one statement for the subscriptions of all databases, as their catalog is shared. ALTER SUBSCRIPTION would need a
// session in each.
const disable = `
	UPDATE pg_subscription s SET subenabled = false FROM pg_database d
	WHERE s.subenabled AND d.oid = s.subdbid RETURNING d.datname || '.' || s.subname`

// disableSubscriptions keeps data that becomes another cluster's from taking the changes that are for the first one: both
// would come to the publisher with the same slot.
func (r *restoring) disableSubscriptions(ctx context.Context) error {
	if !r.task.DisableSubscriptions {
		return nil
	}
	err := local.Server{SocketDir: r.SocketDir, Port: port}.With(ctx, "postgres", func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, disable)
		if err != nil {
			return err
		}
		r.disabled, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return fmt.Errorf("disable the subscriptions of the restored data: %w", local.Plain(err))
	}
	if len(r.disabled) > 0 {
		r.Log.Info("Subscriptions are disabled: what they bring is for the cluster that was backed up", "subscriptions", r.disabled)
	}
	return nil
}
