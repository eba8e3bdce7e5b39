package maintain

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// A collation's version is recorded when it is made, and compared with the C library's or ICU's of today. Indexes were
// built in the recorded order; in another one they find wrong rows.

const staleDatabases = `SELECT datname FROM pg_catalog.pg_database
	WHERE datcollversion <> pg_catalog.pg_database_collation_actual_version(oid)`

const staleCollations = `SELECT oid, pg_catalog.format('%I.%I', collnamespace::regnamespace::text, collname) FROM pg_catalog.pg_collation
	WHERE collversion <> pg_catalog.pg_collation_actual_version(oid) ORDER BY oid`

// DefaultCollation is the OID of "default": the database's own.
const DefaultCollation = 100

// stale says whether a recorded version differs anywhere. Database versions are known from 15 on.
func (m *Maintainer) stale(ctx context.Context) (bool, error) {
	if m.Generation.MajorVersion < 15 {
		return false, nil
	}
	databases, err := m.databases(ctx)
	if err != nil {
		return false, err
	}
	for _, database := range databases {
		names, err := m.names(ctx, database, `SELECT 'collation'::text FROM pg_catalog.pg_collation
			WHERE collversion <> pg_catalog.pg_collation_actual_version(oid) UNION ALL
			SELECT 'database'::text FROM pg_catalog.pg_database
			WHERE datname = current_database() AND datcollversion <> pg_catalog.pg_database_collation_actual_version(oid)`)
		if err != nil || len(names) > 0 {
			return err == nil, err
		}
	}
	return false, nil
}

// collations rebuilds the indexes that depend on changed collations, and then records the new versions.
func (m *Maintainer) collations(ctx context.Context) ([]string, error) {
	return m.inEach(ctx, func(ctx context.Context, conn *pgx.Conn, database string) ([]string, error) {
		changed, err := changedIn(ctx, conn, database)
		if err != nil || len(changed) == 0 {
			return nil, err
		}
		messages, err := m.reindex(ctx, conn, database, changed)
		if err != nil || len(messages) > 0 {
			return messages, err // the old version stays recorded: the indexes are not right
		}
		for _, c := range changed {
			found, err := try(ctx, conn, c.refresh, "the version of "+c.name+" can't be recorded")
			if err != nil {
				return nil, err
			}
			messages = append(messages, found...)
		}
		return messages, nil
	})
}

// collation is one whose order may have changed.
type collation struct {
	oid     uint32
	name    string
	refresh string // statement
}

func changedIn(ctx context.Context, conn *pgx.Conn, database string) ([]collation, error) {
	rows, err := conn.Query(ctx, staleCollations)
	if err != nil {
		return nil, err
	}
	changed, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (collation, error) {
		c := collation{}
		err := row.Scan(&c.oid, &c.name)
		c.refresh = "ALTER COLLATION " + c.name + " REFRESH VERSION"
		return c, err
	})
	if err != nil {
		return nil, err
	}
	rows, err = conn.Query(ctx, staleDatabases+" AND datname = $1", database)
	if err != nil {
		return nil, err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		quoted := pgx.Identifier{name}.Sanitize()
		changed = append(changed, collation{oid: DefaultCollation, name: "database " + name, refresh: "ALTER DATABASE " + quoted + " REFRESH COLLATION VERSION"})
	}
	return changed, nil
}
