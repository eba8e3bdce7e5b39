// Package drilljob is the worker of a drill's Job: it checks a cluster that was restored for the drill, with pg_amcheck over
// all databases and then with the assertions of the BackupRepository.
package drilljob

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

const (
	// mostFailed and mostCorrupt are how many are handed over, and mostText how much of each text, in bytes, so that all
	// of it goes into a termination message.
	mostFailed  = 8
	mostCorrupt = 5
	mostText    = 200
)

// Worker looks at one cluster.
type Worker struct {
	// BinDir has pg_amcheck.
	BinDir string
	// Superuser is the connection string of pg_amcheck, which has to make its extension. Server is that of the assertions,
	// without a role: theirs is created. Both lack the database.
	Superuser, Server string
	// StatementTimeout and LockTimeout of an assertion.
	StatementTimeout, LockTimeout time.Duration
	// Patience with a superuser whose password the agent of the cluster is about to set.
	Patience, Pause time.Duration
	Now             func() time.Time
}

// Run looks at everything, whatever is found first.
func (w Worker) Run(ctx context.Context, task agentapi.DrillJob) (agentapi.DrillResult, error) {
	begun, result := w.Now(), agentapi.DrillResult{}
	if err := w.awaitLogin(ctx); err != nil {
		return result, err
	}
	corrupt, err := w.amcheck(ctx)
	if err != nil {
		return result, err
	}
	result.CorruptCount = len(corrupt)
	for _, relation := range corrupt[:min(len(corrupt), mostCorrupt)] {
		result.Corrupt = append(result.Corrupt, job.Shorten(relation, mostText))
	}
	if err := w.askAll(ctx, task, &result); err != nil {
		return result, err
	}
	result.Seconds = int64(w.Now().Sub(begun).Seconds())
	return result, nil
}

// awaitLogin waits until the superuser may log in, or Patience ends.
func (w Worker) awaitLogin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.Patience)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, w.Superuser+" dbname=postgres")
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-ctx.Done():
			return job.Fail(job.ReasonFailed, fmt.Errorf("the superuser can't log in to the restored cluster: %w", local.Plain(err)))
		case <-time.After(w.Pause):
		}
	}
}

// askAll asks the assertions, as a role that can do nothing but read.
func (w Worker) askAll(ctx context.Context, task agentapi.DrillJob, result *agentapi.DrillResult) error {
	if len(task.Assertions) == 0 {
		return nil
	}
	return w.withReader(ctx, func(reader string) error {
		for _, assertion := range task.Assertions {
			message, err := w.ask(ctx, reader, assertion, task.Database)
			if err != nil {
				return fmt.Errorf("assertion %s: %w", assertion.Name, err)
			}
			if message == "" {
				continue
			}
			if result.FailedCount++; result.FailedCount <= mostFailed {
				result.Failed = append(result.Failed, agentapi.FailedAssertion{Name: assertion.Name, Message: job.Shorten(message, mostText)})
			}
		}
		return nil
	})
}

// ask asks one assertion. Its message says why it isn't true; empty: it is. No message has a value in it.
func (w Worker) ask(ctx context.Context, reader string, assertion agentapi.DrillAssertion, application string) (string, error) {
	database := cmp.Or(assertion.Database, application)
	conn, err := w.session(ctx, reader, database)
	if fault := faultOf(err); fault != nil && fault.Code == noSuchDatabase {
		return fmt.Sprintf("there is no database %s", database), nil
	}
	if err != nil {
		return "", fmt.Errorf("connect to database %s: %w", database, local.Plain(err))
	}
	defer conn.Close(context.WithoutCancel(ctx))
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly})
	if err != nil {
		return "", local.Plain(err)
	}
	rows, err := tx.Query(ctx, assertion.Query, pgx.QueryExecModeExec)
	if err == nil {
		return w.judge(rows)
	}
	return w.explain(err)
}

// judge reads what a query has given.
func (w Worker) judge(rows pgx.Rows) (string, error) {
	defer rows.Close()
	count, value := 0, []any(nil)
	for rows.Next() && count < 2 {
		count++
		var err error
		if value, err = rows.Values(); err != nil {
			return "its result can't be read", nil // a result that isn't a boolean says enough
		}
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return w.explain(err)
	}
	switch {
	case count == 0:
		return "it gave no row", nil
	case count > 1:
		return "it gave more than one row", nil
	case len(value) != 1:
		return fmt.Sprintf("it gave %d columns, and not one", len(value)), nil
	}
	switch truth := value[0].(type) {
	case bool:
		if truth {
			return "", nil
		}
		return "it is false", nil
	case nil:
		return "it is null", nil
	}
	return "it gave something that is not a boolean", nil
}

// SQLSTATEs that get words of their own.
const (
	noSuchDatabase   = "3D000"
	noSuchFunction   = "42883"
	noSuchTable      = "42P01"
	queryCanceled    = "57014"
	lockNotAvailable = "55P03"
)

func faultOf(err error) *pgconn.PgError {
	fault := &pgconn.PgError{}
	if errors.As(err, &fault) {
		return fault
	}
	return nil
}

// explain makes a message of what PostgreSQL says of a query, without what it may quote of the data: only of an error in
// the query itself (class 42) are the words repeated, and only where no function of somebody's has raised it. An error of
// the connection is none of the assertion.
func (w Worker) explain(err error) (string, error) {
	fault := faultOf(err)
	switch {
	case fault == nil:
		return "", err
	case fault.Code == queryCanceled:
		return fmt.Sprintf("it took longer than %s", w.StatementTimeout), nil
	case fault.Code == lockNotAvailable:
		return fmt.Sprintf("it waited for a lock for longer than %s", w.LockTimeout), nil
	case (fault.Code == noSuchTable || fault.Code == noSuchFunction) && fault.Where == "":
		return fmt.Sprintf("%s (SQLSTATE %s); a name needs its schema, such as public.orders", postgres.RedactSQL(fault.Message), fault.Code), nil
	case len(fault.Code) == 5 && fault.Code[:2] == "42" && fault.Where == "":
		return fmt.Sprintf("it ended with an error (SQLSTATE %s): %s", fault.Code, postgres.RedactSQL(fault.Message)), nil
	case len(fault.Code) == 5 && (fault.Code[:2] == "57" || fault.Code[:2] == "08"):
		return "", local.Plain(err) // the server goes, or the session was ended
	}
	return fmt.Sprintf("it ended with an error (SQLSTATE %s)", fault.Code), nil
}
