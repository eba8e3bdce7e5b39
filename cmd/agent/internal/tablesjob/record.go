package tablesjob

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// errForeignCommit is a transaction that what the backup contains has ended.
var errForeignCommit = errors.New("what is to be restored contains a statement that ends the transaction, as no backup of an honest server does: " +
	"look at what is in the database now, and drop what you don't want")

// committed says whether a former attempt was committed: the running cluster has a relation with an OID that it has recorded. A transaction that was lost, in a
// failover for example, has left none; a relation of another OID is somebody else's.
func (w *Worker) committed(ctx context.Context, s *session, result *agentapi.TablesResult) (bool, error) {
	rows, err := s.source.Query(ctx, "SELECT relid, schema, name, rows, bytes FROM "+postgres.QuoteIdentifier(w.schema())+".committed")
	if err != nil {
		return false, err
	}
	var oids []uint32
	var schemas, names []string
	var oid uint32
	var schema, name string
	var copied agentapi.TablesResult
	if _, err := pgx.ForEachRow(rows, []any{&oid, &schema, &name, &copied.Rows, &copied.Bytes}, func() error {
		oids, schemas, names = append(oids, oid), append(schemas, schema), append(names, name)
		return nil
	}); err != nil {
		return false, err
	}
	var found bool
	err = s.target.QueryRow(ctx, `SELECT EXISTS (SELECT FROM unnest($1::oid[], $2::text[], $3::text[]) AS own (relid, schema, name)
		JOIN pg_catalog.pg_class c ON c.oid = own.relid AND c.relname = own.name JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace AND n.nspname = own.schema)`,
		oids, schemas, names).Scan(&found)
	if found {
		result.Rows, result.Bytes = copied.Rows, copied.Bytes // of each attempt the same
	}
	return found, err
}

// record has the copy know what the transaction has created, before it is committed.
func (w *Worker) record(ctx context.Context, s *session, wanted []relation, result *agentapi.TablesResult) error {
	var schemas, names []string
	for _, r := range wanted {
		schemas, names = append(schemas, r.Schema), append(names, r.Name)
	}
	rows, err := s.target.Query(ctx, `SELECT c.oid FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS own (schema, name, n)
		JOIN pg_catalog.pg_namespace s ON s.nspname = own.schema JOIN pg_catalog.pg_class c ON c.relnamespace = s.oid AND c.relname = own.name ORDER BY own.n`, schemas, names)
	if err != nil {
		return err
	}
	oids, err := pgx.CollectRows(rows, pgx.RowTo[uint32])
	if err != nil {
		return err
	}
	if len(oids) != len(wanted) {
		return job.Final(ReasonNotCopied, fmt.Errorf("pg_dump has described %d of %d tables, views and sequences. Nothing was restored", len(oids), len(wanted)))
	}
	_, err = s.source.Exec(ctx, "INSERT INTO "+postgres.QuoteIdentifier(w.schema())+".committed SELECT *, $4::bigint, $5::bigint FROM unnest($1::oid[], $2::text[], $3::text[])",
		oids, schemas, names, result.Rows, result.Bytes)
	return err
}
