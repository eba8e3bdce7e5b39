package maintain

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// A collation's version is recorded when it is made, and compared with the C library's or ICU's of today. Indexes were
// built in the recorded order; in another one they find wrong rows.

const staleDatabases = `SELECT datname FROM pg_catalog.pg_database
	WHERE datcollversion <> pg_catalog.pg_database_collation_actual_version(oid)`

const staleCollations = `SELECT oid, pg_catalog.format('%I.%I', collnamespace::regnamespace::text, collname) FROM pg_catalog.pg_collation
	WHERE collversion <> pg_catalog.pg_collation_actual_version(oid) ORDER BY oid`

// defaultCollation is the OID of "default": the database's own.
const defaultCollation = 100

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
		messages, err := reindex(ctx, conn, database, changed)
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
		changed = append(changed, collation{oid: defaultCollation, name: "database " + name, refresh: "ALTER DATABASE " + quoted + " REFRESH COLLATION VERSION"})
	}
	return changed, nil
}

const dependentIndexes = `SELECT pg_catalog.format('%I.%I', n.nspname, c.relname)
	FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
	WHERE c.relkind = 'i' AND c.relpersistence <> 't' AND n.nspname NOT IN ('pg_catalog', 'pg_toast', 'information_schema')
	AND (i.indcollation::oid[] && $1::oid[] OR EXISTS (
		SELECT 1 FROM pg_catalog.pg_depend d WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = i.indexrelid
		AND d.refclassid = 'pg_catalog.pg_collation'::regclass AND d.refobjid = ANY ($1::oid[])))
	ORDER BY c.relpages, 1`

// reindex rebuilds indexes beside clients where that can be done.
func reindex(ctx context.Context, conn *pgx.Conn, database string, changed []collation) ([]string, error) {
	oids := make([]uint32, 0, len(changed))
	for _, c := range changed {
		oids = append(oids, c.oid)
	}
	rows, err := conn.Query(ctx, dependentIndexes, oids)
	if err != nil {
		return nil, err
	}
	indexes, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	var messages []string
	for _, index := range indexes {
		what := fmt.Sprintf("index %s in database %s can't be rebuilt for its new collation", index, database)
		concurrently, err := try(ctx, conn, "REINDEX INDEX CONCURRENTLY "+index, what)
		if err != nil {
			return nil, err
		}
		if len(concurrently) == 0 {
			continue
		}
		found, err := try(ctx, conn, "REINDEX INDEX "+index, what) // an exclusion constraint's, for one
		if err != nil {
			return nil, err
		}
		messages = append(messages, found...)
	}
	return messages, nil
}
