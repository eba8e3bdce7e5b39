package maintain

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// DependentIndexes asks a database for its indexes, by OID and name, whose order follows any of the collations $1.
const DependentIndexes = `SELECT i.indexrelid, pg_catalog.format('%I.%I', n.nspname, c.relname)
	FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
	WHERE c.relkind = 'i' AND c.relpersistence <> 't' AND n.nspname NOT IN ('pg_catalog', 'pg_toast', 'information_schema')
	AND (i.indisvalid OR c.relname !~ '_ccnew[0-9]*$')
	AND (i.indcollation::oid[] && $1::oid[] OR EXISTS (
		SELECT 1 FROM pg_catalog.pg_depend d WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = i.indexrelid
		AND d.refclassid = 'pg_catalog.pg_collation'::regclass AND d.refobjid = ANY ($1::oid[])))
	ORDER BY c.relpages, 2`

// dependentIndex is one whose order follows a collation. A rebuild keeps its OID in one way and its name in the other.
type dependentIndex struct {
	OID  uint32
	Name string
}

// reindex rebuilds indexes beside clients. What can only be rebuilt while writes wait is rebuilt when they may; until then its
// error is ErrLater. What has been rebuilt is not rebuilt again by the next try.
func (m *Maintainer) reindex(ctx context.Context, conn *pgx.Conn, database string, changed []collation) ([]string, error) {
	oids := make([]uint32, 0, len(changed))
	for _, c := range changed {
		oids = append(oids, c.oid)
	}
	rows, err := conn.Query(ctx, DependentIndexes, oids)
	if err != nil {
		return nil, err
	}
	indexes, err := pgx.CollectRows(rows, pgx.RowToStructByPos[dependentIndex])
	if err != nil {
		return nil, err
	}
	var messages []string
	var later error
	for _, index := range indexes {
		if m.rebuilt[database+"/"+index.Name] {
			continue
		}
		found, err := m.rebuild(ctx, conn, database, index)
		switch {
		case errors.Is(err, ErrLater):
			later = errors.Join(later, err)
			continue
		case err != nil:
			return nil, err
		}
		messages = append(messages, found...)
		if len(found) == 0 {
			m.done(database + "/" + index.Name)
		}
	}
	if later != nil && len(messages) == 0 {
		return nil, later
	}
	return messages, nil
}

func (m *Maintainer) done(index string) {
	if m.rebuilt == nil {
		m.rebuilt = map[string]bool{}
	}
	m.rebuilt[index] = true
}

// rebuild rebuilds one index concurrently, and otherwise only if PostgreSQL can't do that, as with the index of an exclusion
// constraint, and only when writes may wait.
func (m *Maintainer) rebuild(ctx context.Context, conn *pgx.Conn, database string, index dependentIndex) ([]string, error) {
	what := fmt.Sprintf("index %s in database %s can't be rebuilt for its new collation", index.Name, database)
	if err := dropLeftover(ctx, conn, index.OID); err != nil {
		return nil, err
	}
	// It waits for the transactions of others while nobody waits for it, so it may wait as long as they take. What it sorts may be
	// larger than what a client may write to the volume.
	if _, err := conn.Exec(ctx, "SET lock_timeout = 0; SET temp_file_limit = -1"); err != nil {
		return nil, err
	}
	_, err := conn.Exec(ctx, "REINDEX INDEX CONCURRENTLY "+index.Name)
	if err != nil && (ctx.Err() != nil || conn.IsClosed()) {
		return nil, err
	}
	if _, resetErr := conn.Exec(ctx, "RESET lock_timeout"); resetErr != nil {
		return nil, resetErr
	}
	switch {
	case err == nil:
		return nil, nil
	case !unsupported(err):
		return []string{said(what, err)}, dropLeftover(ctx, conn, index.OID)
	case m.MayBlock != nil && !m.MayBlock():
		return nil, fmt.Errorf("%w: index %s in database %s can't be rebuilt while clients write to its table", ErrLater, index.Name, database)
	}
	return try(ctx, conn, "REINDEX INDEX "+index.Name, what)
}

// unsupported says that PostgreSQL can't do what was asked for at all.
func unsupported(err error) bool {
	fault := &pgconn.PgError{}
	return errors.As(err, &fault) && fault.Code == "0A000"
}

// leftovers are the invalid indexes that a REINDEX CONCURRENTLY of an index left when it failed or was interrupted: they are kept
// up to date by every write and serve nobody. One that somebody builds at the moment is none.
const leftovers = `SELECT pg_catalog.format('%I.%I', n.nspname, c.relname)
	FROM pg_catalog.pg_index old
	JOIN pg_catalog.pg_class o ON o.oid = old.indexrelid
	JOIN pg_catalog.pg_index i ON i.indrelid = old.indrelid AND i.indkey = old.indkey AND NOT i.indisvalid
	JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid AND c.relnamespace = o.relnamespace
	JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
	WHERE old.indexrelid = $1 AND c.relkind = 'i' AND c.relname ~ '_cc(new|old)[0-9]*$'
	AND pg_catalog.starts_with(o.relname, pg_catalog.regexp_replace(c.relname, '_cc(new|old)[0-9]*$', ''))
	AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_stat_progress_create_index p WHERE p.relid = i.indrelid) ORDER BY 1`

func dropLeftover(ctx context.Context, conn *pgx.Conn, index uint32) error {
	rows, err := conn.Query(ctx, leftovers, index)
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := try(ctx, conn, "DROP INDEX CONCURRENTLY "+name, name); err != nil { // the next try drops what this one can't
			return err
		}
	}
	return nil
}
