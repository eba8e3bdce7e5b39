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

// lockKey keeps two sessions of the agent from making the record at once.
const lockKey = 0x686f77646168 // howdah

// tables of the record.
var tables = map[string]string{
	"slots":         "name pg_catalog.text PRIMARY KEY, stage pg_catalog.text NOT NULL, timeline pg_catalog.int8 NOT NULL",
	"adoption":      "cluster pg_catalog.text PRIMARY KEY, number pg_catalog.int8 NOT NULL, generation pg_catalog.text NOT NULL",
	"aside":         "number pg_catalog.int8 PRIMARY KEY, done pg_catalog.bool NOT NULL, at pg_catalog.timestamptz NOT NULL",
	"subscriptions": "database pg_catalog.text, name pg_catalog.text, why pg_catalog.text NOT NULL, ours pg_catalog.bool NOT NULL, PRIMARY KEY (database, name)",
}

// stage is how far we came with a slot.
type stage string

const (
	creating stage = "creating" // it may be there, and nobody has been told of it
	created  stage = "created"  // it was there: a client counts on it
	dropping stage = "dropping" // it held back more than it may
	lost     stage = "lost"     // its client may be ahead of the data, where it is there as well
)

// entry is what is recorded of a slot that is ours.
type entry struct {
	Name, Stage string
	// Timeline on which it was to be created. No slot goes to another one by itself.
	Timeline int64
}

// ErrForeign is a record that somebody else may write, or that runs what somebody else has written: what is recorded there is dropped, and
// Jobs write to data from a bucket.
var ErrForeign = errors.New("schema " + schema + " in database postgres isn't as " + postgres.RoleSuperuser + " has created it, so no declared slot or subscription is " +
	"created, changed or dropped: rename it")

// inspect says of the schema whether it, and each of our tables that is there, is ours and has nothing but columns and plain indexes; and how many
// of the tables are there.
const inspect = `SELECT n.nspowner = 10 AND coalesce(pg_catalog.bool_and(c.relowner = 10 AND c.relkind = 'r' AND NOT c.relhasrules AND NOT c.relhastriggers AND c.relchecks = 0
			AND NOT c.relrowsecurity AND NOT c.relispartition AND NOT c.relhassubclass
			AND NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND (a.atthasdef OR a.atttypid >= 16384))
			AND NOT EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL OR 16384 <= ANY (i.indclass)))), true),
		pg_catalog.count(c.oid)
	FROM pg_catalog.pg_namespace n LEFT JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = ANY ($2) WHERE n.nspname = $1 GROUP BY n.nspowner`

// inspectRecord says whether all of the record is there.
func inspectRecord(ctx context.Context, conn querier) (whole bool, err error) {
	var names []string
	for name := range tables {
		names = append(names, name)
	}
	var ours bool
	var count int
	err = conn.QueryRow(ctx, inspect, schema, names).Scan(&ours, &count)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return false, nil
	case err == nil && !ours:
		return false, ErrForeign
	}
	return count == len(tables), err
}

// querier is a session, or a transaction in one.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// ensureRecord makes the tables, and refuses those that somebody else may write.
func ensureRecord(ctx context.Context, conn *pgx.Conn) error {
	whole, err := inspectRecord(ctx, conn)
	if err != nil || whole {
		return err
	}
	return beginLocal(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_catalog.pg_advisory_xact_lock($1)", int64(lockKey)); err != nil {
			return err
		}
		if _, err := inspectRecord(ctx, tx); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+schema+" AUTHORIZATION "+postgres.RoleSuperuser); err != nil {
			return err
		}
		for name, columns := range tables {
			if _, err := tx.Exec(ctx, fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s.%s (%s)", schema, name, columns)); err != nil {
				return err
			}
		}
		_, err := inspectRecord(ctx, tx)
		return err
	})
}

// inTransaction does something while no other session of the agent does.
func inTransaction(ctx context.Context, conn *pgx.Conn, do func(pgx.Tx) error) error {
	return beginLocal(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "LOCK TABLE "+schema+".adoption IN EXCLUSIVE MODE"); err != nil {
			return err
		}
		return do(tx)
	})
}

// beginLocal begins a transaction that doesn't wait for replicas, which can't come yet: one that takes over without it is told the same again. No code
// of the data runs in it: that may come from a bucket which others can write to.
func beginLocal(ctx context.Context, conn *pgx.Conn, do func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		for _, statement := range []string{
			"SET LOCAL synchronous_commit TO local", "SET LOCAL session_replication_role TO replica",
			"SELECT pg_catalog.set_config(name, 'off', true) FROM pg_catalog.pg_settings WHERE name = 'event_triggers'", // from 17 on
		} {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return do(tx)
	})
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
