package tablesjob

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/postgres"
)

// relation is a table, a view or a sequence that is restored.
type relation struct {
	OID          uint32
	Schema, Name string
	Kind         string
	Bytes        int64
	Owned        bool // a sequence that comes with its table
}

func (r relation) String() string { return r.Schema + "." + r.Name }

func (r relation) quoted() string { return pgx.Identifier{r.Schema, r.Name}.Sanitize() }

// relation kinds of pg_class
const (
	kindTable    = "r"
	kindSequence = "S"
	restorable   = "rpvmfS"
)

// choose records in the copy what is restored, and moves it to where it belongs, all in one transaction. A Job that runs again finds it done.
func (w *Worker) choose(ctx context.Context, source *pgx.Conn) error {
	var chosen bool
	if err := source.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)", w.schema()).Scan(&chosen); err != nil || chosen {
		return err
	}
	return pgx.BeginFunc(ctx, source, func(tx pgx.Tx) error {
		oids, err := w.find(ctx, tx)
		if err != nil {
			return err
		}
		own := postgres.QuoteIdentifier(w.schema())
		for _, statement := range []string{
			"CREATE SCHEMA " + own,
			"CREATE TABLE " + own + ".wanted (relid oid PRIMARY KEY)",
			"CREATE TABLE " + own + ".committed (relid oid, schema text, name text, rows bigint, bytes bigint)",
		} {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, "INSERT INTO "+own+".wanted SELECT pg_catalog.unnest($1::oid[])", oids); err != nil {
			return err
		}
		if err := w.dropForeignKeys(ctx, tx); err != nil {
			return err
		}
		return w.move(ctx, tx)
	})
}

// ofExtension: an object is created by its extension, and by nothing else.
const ofExtension = "EXISTS (SELECT FROM pg_catalog.pg_depend e WHERE e.classid = 'pg_catalog.pg_class'::regclass AND e.objid = c.oid AND e.deptype = 'e')"

// find finds what the task names.
func (w *Worker) find(ctx context.Context, tx pgx.Tx) ([]uint32, error) {
	if len(w.Task.Tables) > 0 {
		return w.findTables(ctx, tx)
	}
	query := `SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND n.nspname !~ '^(pg_|howdah_)' AND n.nspname <> 'information_schema'
		AND (n.nspname = ANY ($1::text[]) OR pg_catalog.cardinality($1::text[]) = 0) AND NOT ` + ofExtension
	schemas := slices.Clone(w.Task.Schemas)
	if schemas == nil {
		schemas = []string{}
	}
	rows, err := tx.Query(ctx, "SELECT nspname::text FROM pg_catalog.pg_namespace WHERE nspname = ANY ($1::text[])", schemas)
	if err != nil {
		return nil, err
	}
	there, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	missing := slices.DeleteFunc(slices.Clone(schemas), func(name string) bool { return slices.Contains(there, name) })
	if len(missing) > 0 {
		return nil, w.notInBackup("schemas", missing)
	}
	if rows, err = tx.Query(ctx, query, schemas); err != nil {
		return nil, err
	}
	oids, err := pgx.CollectRows(rows, pgx.RowTo[uint32])
	if err == nil && len(oids) == 0 {
		return nil, w.notInBackup("tables", []string{"none at all"})
	}
	return oids, err
}

func (w *Worker) notInBackup(what string, names []string) error {
	return job.Final(ReasonObjectMissing, fmt.Errorf("database %s of the backup, as of the target, lacks these %s: %s. "+
		"Choose a target at which they existed, and write the names as they are in the catalogs", w.Database, what, some(names)))
}

// findTables finds tables by their names, and their partitions.
func (w *Worker) findTables(ctx context.Context, tx pgx.Tx) ([]uint32, error) {
	var roots []uint32
	var missing, others []string
	for _, table := range w.Task.Tables {
		schema, name, _ := strings.Cut(table, ".")
		var oid uint32
		var kind string
		err := tx.QueryRow(ctx, `SELECT c.oid, c.relkind::text FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
			WHERE n.nspname = $1 AND c.relname = $2 AND NOT `+ofExtension, schema, name).Scan(&oid, &kind)
		switch {
		case err == pgx.ErrNoRows: //nolint:errorlint // pgx documents that it is returned as it is
			missing = append(missing, table)
		case err != nil:
			return nil, err
		case !strings.Contains(restorable, kind):
			others = append(others, table)
		}
		roots = append(roots, oid)
	}
	switch {
	case len(missing) > 0:
		return nil, w.notInBackup("tables", missing)
	case len(others) > 0:
		return nil, job.Final(ReasonObjectMissing, fmt.Errorf("these are neither tables, views nor sequences, but come with them: %s. Name the tables that they belong to", some(others)))
	}
	rows, err := tx.Query(ctx, `WITH RECURSIVE t(oid) AS (SELECT pg_catalog.unnest($1::oid[])
		UNION SELECT i.inhrelid FROM t JOIN pg_catalog.pg_class p ON p.oid = t.oid AND p.relkind = 'p' JOIN pg_catalog.pg_inherits i ON i.inhparent = t.oid)
		SELECT oid FROM t`, roots)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[uint32])
}

// statements are made by a query, and run.
func statements(ctx context.Context, tx pgx.Tx, query string, args ...any) error {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	made, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, statement := range made {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// dropForeignKeys drops those in the copy that lead to tables that are not restored, if they are left out.
func (w *Worker) dropForeignKeys(ctx context.Context, tx pgx.Tx) error {
	if !w.Task.OmitForeignKeys {
		return nil
	}
	own := postgres.QuoteIdentifier(w.schema())
	return statements(ctx, tx, `SELECT pg_catalog.format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname) FROM pg_catalog.pg_constraint
		WHERE contype = 'f' AND conparentid = 0 AND conrelid IN (SELECT relid FROM `+own+`.wanted) AND confrelid NOT IN (SELECT relid FROM `+own+`.wanted)`)
}

// move brings what is restored into another schema, in the copy: whatever belongs to a table follows it, and what it refers to stays. A schema of that name
// that the backup has is renamed before.
func (w *Worker) move(ctx context.Context, tx pgx.Tx) error {
	into := w.Task.IntoSchema
	if into == "" || len(w.Task.Schemas) == 1 && w.Task.Schemas[0] == into {
		return nil
	}
	own := postgres.QuoteIdentifier(w.schema())
	aside := `SELECT pg_catalog.format('ALTER SCHEMA %I RENAME TO %I', nspname, $2::text) FROM pg_catalog.pg_namespace n WHERE nspname = $1
		AND NOT EXISTS (SELECT FROM ` + own + `.wanted JOIN pg_catalog.pg_class c ON c.oid = relid WHERE c.relnamespace = n.oid)`
	if err := statements(ctx, tx, aside, into, w.schema()+"_aside"); err != nil {
		return err
	}
	if len(w.Task.Schemas) > 0 {
		_, err := tx.Exec(ctx, "ALTER SCHEMA "+postgres.QuoteIdentifier(w.Task.Schemas[0])+" RENAME TO "+postgres.QuoteIdentifier(into))
		return err
	}
	if _, err := tx.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+postgres.QuoteIdentifier(into)); err != nil {
		return err
	}
	// A partition whose table stays would be attached to that one.
	if err := statements(ctx, tx, `SELECT pg_catalog.format('ALTER TABLE %s DETACH PARTITION %s', i.inhparent::regclass, i.inhrelid::regclass) FROM `+own+`.wanted
		JOIN pg_catalog.pg_class c ON c.oid = relid AND c.relispartition JOIN pg_catalog.pg_inherits i ON i.inhrelid = c.oid
		WHERE i.inhparent NOT IN (SELECT relid FROM `+own+`.wanted)`); err != nil {
		return err
	}
	return statements(ctx, tx, `SELECT pg_catalog.format('ALTER TABLE %s SET SCHEMA %I', c.oid::regclass, $1::text) FROM `+own+`.wanted JOIN pg_catalog.pg_class c ON c.oid = relid
		WHERE c.relnamespace <> (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = $1) AND NOT `+ownedSequence, into)
}

// ownedSequence: it comes with the table that owns it.
const ownedSequence = `(c.relkind = 'S' AND EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = c.oid
	AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.deptype IN ('a', 'i')))`

// wanted are all relations that are restored, as they are now in the copy, with the sequences that belong to tables.
func (w *Worker) wanted(ctx context.Context, source *pgx.Conn) ([]relation, error) {
	own := postgres.QuoteIdentifier(w.schema())
	rows, err := source.Query(ctx, `SELECT c.oid, n.nspname::text, c.relname::text, c.relkind::text,
			CASE WHEN c.relkind IN ('r', 'm') THEN pg_catalog.pg_table_size(c.oid) ELSE 0 END, `+ownedSequence+`
		FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE c.oid IN (SELECT relid FROM `+own+`.wanted) OR c.relkind = 'S' AND EXISTS (SELECT FROM pg_catalog.pg_depend d JOIN `+own+`.wanted ON relid = d.refobjid
			WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = c.oid AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.deptype IN ('a', 'i'))
		ORDER BY c.relkind = 'S', n.nspname, c.relname`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r relation, err error) {
		err = row.Scan(&r.OID, &r.Schema, &r.Name, &r.Kind, &r.Bytes, &r.Owned)
		return r, err
	})
}
