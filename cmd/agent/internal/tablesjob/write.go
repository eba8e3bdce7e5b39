package tablesjob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// write is the transaction. Until it is committed, nobody else sees anything of it.
func (w *Worker) write(ctx context.Context, s *session, wanted []relation, result *agentapi.TablesResult) error {
	sql, err := w.dump(ctx, s, wanted)
	if err != nil {
		return err
	}
	if err := w.step("begin"); err != nil {
		return err
	}
	if _, err := s.target.Exec(ctx, "BEGIN"); err != nil {
		return err
	}
	defer func() { _, _ = s.target.Exec(context.WithoutCancel(ctx), "ROLLBACK") }() // of what was not committed
	var transaction string
	if err := s.target.QueryRow(ctx, "SELECT pg_catalog.pg_current_xact_id()::text").Scan(&transaction); err != nil {
		return err
	}
	if err := w.fill(ctx, s, wanted, sql, result); err != nil {
		return err
	}
	var now *string
	if err := s.target.QueryRow(ctx, "SELECT pg_catalog.pg_current_xact_id_if_assigned()::text").Scan(&now); err != nil {
		return err
	}
	if now == nil || *now != transaction {
		return errForeignCommit
	}
	w.unknown = false // a former one would have the names
	if err := w.record(ctx, s, wanted, result); err != nil {
		return err
	}
	if err := w.step("commit"); err != nil {
		return err
	}
	if _, err := s.target.Exec(ctx, "COMMIT"); err != nil {
		fault := &pgconn.PgError{}
		w.unknown = !errors.As(err, &fault) || fault.Severity != "ERROR" // only an error ends the transaction for sure
		return err
	}
	return w.step("committed")
}

func (w *Worker) fill(ctx context.Context, s *session, wanted []relation, sql scripts, result *agentapi.TablesResult) error {
	if err := w.createSchemas(ctx, s, wanted); err != nil {
		return err
	}
	if err := execute(ctx, s, sql.before, nil); err != nil {
		return err
	}
	if err := w.step("tables"); err != nil {
		return err
	}
	meter := newMeter(wanted, w.Report)
	for _, r := range wanted {
		var err error
		switch r.Kind {
		case kindTable:
			err = w.copyRows(ctx, s, r, meter, result)
		case kindSequence:
			err = copySequence(ctx, s, r)
		}
		if err != nil {
			return err
		}
	}
	if err := w.step("rows"); err != nil {
		return err
	}
	if err := analyze(ctx, s, wanted); err != nil {
		return err
	}
	if err := execute(ctx, s, sql.after, meter.indexing(sql.indexes)); err != nil { // foreign keys, which lock others, come last
		return err
	}
	return w.step("indexes")
}

// analyze collects what the planner needs of the columns.
func analyze(ctx context.Context, s *session, wanted []relation) error {
	for _, r := range wanted {
		if r.Kind != kindTable {
			continue
		}
		if _, err := s.target.Exec(ctx, "ANALYZE "+r.quoted()); err != nil {
			return err
		}
	}
	return nil
}

// createSchemas creates those that don't exist and that pg_dump doesn't describe.
func (w *Worker) createSchemas(ctx context.Context, s *session, wanted []relation) error {
	if len(w.Task.Tables) == 0 {
		return nil
	}
	there, err := texts(ctx, s.target, "SELECT nspname::text FROM pg_catalog.pg_namespace")
	if err != nil {
		return err
	}
	created := map[string]bool{}
	for _, schema := range there {
		created[schema] = true
	}
	for _, r := range wanted {
		if created[r.Schema] {
			continue
		}
		if _, err := s.target.Exec(ctx, "CREATE SCHEMA "+postgres.QuoteIdentifier(r.Schema)); err != nil {
			return err
		}
		created[r.Schema] = true
	}
	return nil
}

// execute runs a script in the transaction, and has each statement that is done counted.
func execute(ctx context.Context, s *session, script string, done func()) error {
	results := s.target.PgConn().Exec(ctx, script)
	for results.NextResult() {
		if _, err := results.ResultReader().Close(); err != nil {
			return errors.Join(err, results.Close())
		}
		if done != nil {
			done()
		}
	}
	return results.Close()
}

// columns of a table that have values of their own.
const columns = `SELECT attname::text FROM pg_catalog.pg_attribute WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum`

// copyRows copies the rows of one table, from one session to the other.
func (w *Worker) copyRows(ctx context.Context, s *session, r relation, meter *meter, result *agentapi.TablesResult) error {
	names, err := texts(ctx, s.source, columns, r.OID)
	if err != nil {
		return err
	}
	what := r.quoted()
	if len(names) > 0 {
		for i, name := range names {
			names[i] = postgres.QuoteIdentifier(name)
		}
		what += " (" + strings.Join(names, ", ") + ")"
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	part := meter.begin(r)
	from, to := io.Pipe()
	read, failed := make(chan int64, 1), make(chan error, 1)
	go func() {
		tag, err := s.source.PgConn().CopyTo(ctx, &counted{to: to, add: part.add}, "COPY "+what+" TO STDOUT")
		_ = to.CloseWithError(err) // which never fails
		read <- tag.RowsAffected()
		failed <- err
	}()
	tag, written := s.target.PgConn().CopyFrom(ctx, from, "COPY "+what+" FROM STDIN")
	_ = from.CloseWithError(io.ErrClosedPipe)
	rows, err := <-read, <-failed
	switch {
	case err != nil && !errors.Is(err, io.ErrClosedPipe):
		return fmt.Errorf("read the rows of %s from the copy: %w", r, err)
	case written != nil:
		return written
	case rows != tag.RowsAffected():
		return job.Final(ReasonNotCopied, fmt.Errorf("%d rows of %s were read, and %d written. Nothing was restored", rows, r, tag.RowsAffected()))
	}
	part.complete()
	result.Rows += rows
	result.Bytes += part.read
	return nil
}

// copySequence continues a sequence where it was.
func copySequence(ctx context.Context, s *session, r relation) error {
	var last int64
	var called bool
	if err := s.source.QueryRow(ctx, "SELECT last_value, is_called FROM "+r.quoted()).Scan(&last, &called); err != nil {
		return err
	}
	_, err := s.target.Exec(ctx, "SELECT pg_catalog.setval($1::regclass, $2, $3)", pgx.QueryExecModeExec, r.quoted(), last, called)
	return err
}

// counted says how much was written.
type counted struct {
	to  io.Writer
	add func(int64)
}

// Write writes.
func (c *counted) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.add(int64(n))
	return n, err
}
