package logicalslot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/local"
)

// Back is data that is in an earlier state than the clients of its slots and the publishers of its subscriptions have seen.
type Back struct {
	// Copy: another cluster has the slots of its subscriptions at their publishers.
	Copy bool
	// Subscriptions are not to continue.
	Subscriptions bool
	// Slots that clients may have read from, by name. Those that the data itself knows of are lost in any case.
	Slots []string

	why reason
}

// GoBack keeps such data from continuing where others are ahead: a publisher skips silently what a slot has passed, and so does a server what
// its client has confirmed. It returns the subscriptions that it has disabled, as database.subscription. Where the record isn't ours, it is left
// alone: then no agent enables a subscription or creates a slot, and says so.
func GoBack(ctx context.Context, server local.Server, back Back, log *slog.Logger) (disabled []string, err error) {
	back.why = restored
	if back.Copy {
		back.why = copied
	}
	err = server.With(ctx, "postgres", func(conn *pgx.Conn) error {
		write := goBack
		switch err := ensureRecord(ctx, conn); {
		case errors.Is(err, ErrForeign):
			log.Warn("Which subscriptions and slots must not continue is not recorded", "error", err)
			write = disable
		case err != nil:
			return err
		}
		return beginLocal(ctx, conn, func(tx pgx.Tx) (err error) {
			disabled, err = write(ctx, tx, back)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("give up the slots and subscriptions of the data: %w", local.Plain(err))
	}
	if len(disabled) > 0 {
		log.Info("Subscriptions are disabled", "because", Mark{why: back.why}.Why(), "subscriptions", disabled)
	}
	return disabled, nil
}

// goBack is one transaction: a subscription that is disabled by us has a mark that says so, and a mark without that is of one that a person has
// enabled since.
func goBack(ctx context.Context, tx pgx.Tx, back Back) (disabled []string, err error) {
	if _, err := tx.Exec(ctx, "UPDATE "+schema+".slots SET stage = $1", string(lost)); err != nil {
		return nil, err
	}
	for _, name := range back.Slots {
		if _, err := tx.Exec(ctx, "INSERT INTO "+schema+".slots VALUES ($1, $2, 0) ON CONFLICT DO NOTHING", name, string(lost)); err != nil {
			return nil, err
		}
	}
	if !back.Subscriptions {
		return nil, nil
	}
	// One that is enabled here has its slot to itself. Of one that isn't, it is unknown whose slot that is, unless it was known before.
	_, err = tx.Exec(ctx, "INSERT INTO "+schema+`.subscriptions AS m SELECT d.datname, s.subname, $1, $2 AND s.subenabled
		FROM pg_catalog.pg_subscription s JOIN pg_catalog.pg_database d ON d.oid = s.subdbid
		ON CONFLICT (database, name) DO UPDATE SET why = excluded.why, ours = $2 AND (m.ours OR excluded.ours)`, string(back.why), !back.Copy)
	if err != nil {
		return nil, err
	}
	return disable(ctx, tx, back)
}

// disable is one statement for the subscriptions of all databases, as their catalog is shared. ALTER SUBSCRIPTION would need a session in each.
func disable(ctx context.Context, tx pgx.Tx, back Back) ([]string, error) {
	if !back.Subscriptions {
		return nil, nil
	}
	rows, err := tx.Query(ctx, `UPDATE pg_catalog.pg_subscription s SET subenabled = false FROM pg_catalog.pg_database d
		WHERE s.subenabled AND d.oid = s.subdbid RETURNING d.datname || '.' || s.subname`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
