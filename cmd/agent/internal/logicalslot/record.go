package logicalslot

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/pkg/postgres"
)

// schema of the record, in database postgres. It goes where the data goes: to replicas, backups and upgraded data. Slots don't.
const schema = "howdah_slots"

// stage is how far we came with a slot.
type stage string

const (
	creating stage = "creating" // it may be there, and nobody has been told of it
	created  stage = "created"  // it was there: a client counts on it
	dropping stage = "dropping" // it held back more than it may
)

// entry is what is recorded of a slot that is ours.
type entry struct {
	Name, Stage string
	// Timeline on which it was to be created. No slot goes to another one by itself.
	Timeline int64
}

// ensureRecord makes the table, and refuses one that somebody else may write: what is recorded there is dropped.
func ensureRecord(ctx context.Context, conn *pgx.Conn) error {
	var ours bool
	err := conn.QueryRow(ctx, `SELECT n.nspowner = 10 AND c.relowner = 10 AND c.relkind = 'r' FROM pg_catalog.pg_class c
		JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = 'slots'`, schema).Scan(&ours)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		_, err = conn.Exec(ctx, "CREATE SCHEMA "+schema+" AUTHORIZATION "+postgres.RoleSuperuser+
			" CREATE TABLE slots (name pg_catalog.text PRIMARY KEY, stage pg_catalog.text NOT NULL, timeline pg_catalog.int8 NOT NULL)")
	case err == nil && !ours:
		err = fmt.Errorf("schema %s in database postgres doesn't belong to %s, so no declared slot is created or dropped: rename it", schema, postgres.RoleSuperuser)
	}
	return err
}

func readRecord(ctx context.Context, conn *pgx.Conn) (map[string]entry, error) {
	rows, err := conn.Query(ctx, "SELECT name, stage, timeline FROM "+schema+".slots")
	if err != nil {
		return nil, err
	}
	entries, err := pgx.CollectRows(rows, pgx.RowToStructByPos[entry])
	byName := make(map[string]entry, len(entries))
	for _, e := range entries {
		byName[e.Name] = e
	}
	return byName, err
}

// record comes before what it is of. With synchronous replication it waits for the replicas: one that takes over knows of the slot.
func record(ctx context.Context, conn *pgx.Conn, name string, at stage, timeline int64) error {
	if _, err := conn.Exec(ctx, "SET synchronous_commit TO on"); err != nil {
		return err
	}
	_, err := conn.Exec(ctx, "INSERT INTO "+schema+`.slots VALUES ($1, $2, $3)
		ON CONFLICT (name) DO UPDATE SET stage = excluded.stage, timeline = excluded.timeline`, name, string(at), timeline)
	return err
}

func forget(ctx context.Context, conn *pgx.Conn, name string) error {
	_, err := conn.Exec(ctx, "DELETE FROM "+schema+".slots WHERE name = $1", name)
	return err
}
