package drilljob

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/pkg/postgres"
)

// readAll is the only role whose rights the assertions have.
const readAll = "pg_read_all_data"

// rightsOfReader are the roles that a role has the rights of, directly or through others, apart from itself. Who may grant
// them is of no interest: a role that came with the backup may have been granted anything.
const rightsOfReader = `WITH RECURSIVE reached(oid) AS (
		SELECT oid FROM pg_catalog.pg_roles WHERE rolname = $1
		UNION SELECT m.roleid FROM reached JOIN pg_catalog.pg_auth_members m ON m.member OPERATOR(pg_catalog.=) reached.oid)
	SELECT r.rolname::pg_catalog.text FROM reached JOIN pg_catalog.pg_roles r USING (oid) WHERE r.rolname OPERATOR(pg_catalog.<>) $1
	ORDER BY 1`

// withReader creates the role of the assertions in the copy, calls do with its connection string, and drops it. It is a new
// role with a new name: any other may have been granted rights, given objects or settings before the backup was taken. An
// assertion logs in as it, so there is no session user to return to.
func (w Worker) withReader(ctx context.Context, do func(connection string) error) (err error) {
	conn, err := pgx.Connect(ctx, w.Superuser+" dbname=postgres")
	if err != nil {
		return fmt.Errorf("connect as the superuser: %w", local.Plain(err))
	}
	defer conn.Close(context.WithoutCancel(ctx))
	name, password := "howdah_drill_"+strings.ToLower(rand.Text()), rand.Text()
	if err := createReader(ctx, conn, name, password); err != nil {
		return err
	}
	defer func() {
		if _, errDrop := conn.Exec(context.WithoutCancel(ctx), "DROP ROLE "+name); err == nil && errDrop != nil {
			err = fmt.Errorf("drop the role of the assertions: %w", local.Plain(errDrop))
		}
	}()
	return do(fmt.Sprintf("%s user=%s password=%s", w.Server, name, password))
}

func createReader(ctx context.Context, conn *pgx.Conn, name, password string) error {
	verifier, err := postgres.ScramVerifier(password, rand.Reader)
	if err != nil {
		return err
	}
	for _, statement := range []string{
		"CREATE ROLE " + name + " LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS INHERIT PASSWORD '" + verifier + "'",
		"GRANT " + readAll + " TO " + name,
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("create the role of the assertions: %w", local.Plain(err))
		}
	}
	rows, err := conn.Query(ctx, rightsOfReader, pgx.QueryExecModeExec, name)
	if err != nil {
		return local.Plain(err)
	}
	reached, err := pgx.CollectRows(rows, pgx.RowTo[string])
	switch {
	case err != nil:
		return fmt.Errorf("rights of the role of the assertions: %w", local.Plain(err))
	case len(reached) != 1 || reached[0] != readAll:
		return job.Final(job.ReasonFailed, fmt.Errorf("members of %s have the rights of more roles than that (%s) in the restored cluster, so no assertion is evaluated. "+
			"Revoke them from %s in the cluster that is backed up", readAll, strings.Join(reached, ", "), readAll))
	}
	return nil
}

// session opens one for an assertion. What it sets goes before anything that the backup set for the role or the database:
// no schema of a user's is searched, and no function of a tenant's is called because it matches better than PostgreSQL's.
func (w Worker) session(ctx context.Context, connection, database string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(connection + " dbname=" + postgres.QuoteConnInfo(database))
	if err != nil {
		return nil, err
	}
	config.RuntimeParams = map[string]string{
		"application_name":                    "howdah drill",
		"search_path":                         "pg_catalog, pg_temp", // without pg_temp at the end, it would be the first
		"statement_timeout":                   milliseconds(w.StatementTimeout),
		"lock_timeout":                        milliseconds(w.LockTimeout),
		"idle_in_transaction_session_timeout": milliseconds(w.LockTimeout),
		"default_transaction_read_only":       "on",
	}
	return pgx.ConnectConfig(ctx, config)
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%dms", d.Milliseconds()) }
