package replicate

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/cmd/agent/internal/settings"
)

// formerSlots are logical slots of a replica that are no copies of its primary's: it was a primary itself. PostgreSQL makes no copy of any
// slot while there is one of the same name.
const formerSlots = `SELECT slot_name::text FROM pg_replication_slots
	WHERE pg_is_in_recovery() AND slot_type = 'logical' AND failover AND NOT synced AND NOT temporary AND NOT active ORDER BY 1`

// keptSlots are those of a list that a primary has, and whose client can continue there: one that was invalidated gives nothing any more.
const keptSlots = `SELECT slot_name::text FROM pg_replication_slots
	WHERE NOT pg_is_in_recovery() AND slot_type = 'logical' AND failover AND NOT temporary AND invalidation_reason IS NULL AND slot_name = ANY($1) ORDER BY 1`

// FormerSlots are the logical slots that this replica has from when it was a primary. Only 17 and later know of any.
func FormerSlots(ctx context.Context, conn *pgx.Conn) ([]string, error) {
	return slotNames(ctx, conn, formerSlots)
}

// KeptBy are those of these slots that the primary has as well, so that the client continues there.
func (i Instance) KeptBy(ctx context.Context, primary settings.Upstream, slots []string) (kept []string, err error) {
	err = i.with(ctx, primary, func(conn *pgx.Conn) error {
		kept, err = slotNames(ctx, conn, keptSlots, slots)
		return err
	})
	return kept, err
}

// DropFormer drops slots of a replica that its primary keeps. None is dropped of a server that is a primary by now.
func DropFormer(ctx context.Context, conn *pgx.Conn, slots []string) ([]string, error) {
	dropped, err := slotNames(ctx, conn, `SELECT slot_name FROM (`+formerSlots+`) AS former, pg_drop_replication_slot(former.slot_name::name)
		WHERE slot_name = ANY($1)`, slots)
	if err != nil {
		return nil, fmt.Errorf("drop the logical slots of a former primary: %w", local.Plain(err))
	}
	return dropped, nil
}

func slotNames(ctx context.Context, conn *pgx.Conn, query string, args ...any) ([]string, error) {
	rows, err := conn.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
