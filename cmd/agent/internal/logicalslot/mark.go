package logicalslot

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/local"
)

// reason why a subscription must not continue.
type reason string

const (
	restored reason = "restored" // in place, from a backup
	copied   reason = "copied"   // into another cluster
	returned reason = "returned" // an undo or a rollback brought its data back
)

// Mark is why a subscription was disabled, and must not be enabled by itself.
type Mark struct {
	why reason
	// Ours: its slot at the publisher is this cluster's. Otherwise it may be that of the cluster which this one is a copy of.
	Ours bool
}

// Why is that, for a person.
func (m Mark) Why() string {
	switch m.why {
	case restored:
		return "its data was restored to an earlier state than that of its slot at the publisher"
	case copied:
		return "its data is a copy, and its slot at the publisher is another cluster's, or has moved on"
	}
	return "its data was brought back by an undo or a rollback, and its slot at the publisher may have moved on meanwhile " +
		"(if nothing has used the slot, ALTER SUBSCRIPTION ... ENABLE loses nothing)"
}

// Marks are those of all subscriptions, once Told is heeded.
func Marks(ctx context.Context, conn *pgx.Conn, told Told) (map[Subscription]Mark, error) {
	if _, err := resume(ctx, conn, told); err != nil {
		return nil, err
	}
	if whole, err := inspectRecord(ctx, conn); err != nil || !whole {
		return nil, err
	}
	rows, err := conn.Query(ctx, "SELECT database, name, why, ours FROM "+schema+".subscriptions")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	marks := map[Subscription]Mark{}
	for rows.Next() {
		var s Subscription
		var m Mark
		if err := rows.Scan(&s.Database, &s.Name, (*string)(&m.why), &m.Ours); err != nil {
			return nil, err
		}
		marks[s] = m
	}
	return marks, rows.Err()
}

// Subscription is one of a database.
type Subscription struct{ Database, Name string }

// Unmark forgets why a subscription was disabled: it was dropped, or a person has enabled it.
func Unmark(ctx context.Context, server local.Server, s Subscription) error {
	return server.With(ctx, "postgres", func(conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, "DELETE FROM "+schema+".subscriptions WHERE database = $1 AND name = $2", s.Database, s.Name); err != nil {
			return fmt.Errorf("forget why subscription %s was disabled: %w", s.Name, err)
		}
		return nil
	})
}
