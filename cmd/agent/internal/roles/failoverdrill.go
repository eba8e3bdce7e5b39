package roles

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/pkg/postgres"
)

// ensureFailoverDrill creates the role with which a failover drill writes rows and the schema that it may write to, in a database that is
// no tenant's. Without a drill, both are removed with all that is in them.
func ensureFailoverDrill(ctx context.Context, conn *pgx.Conn, wanted Wanted) error {
	const role = postgres.RoleFailoverDrill
	if !wanted.FailoverDrill {
		return removeFailoverDrill(ctx, conn)
	}
	if err := ensureRole(ctx, conn, role); err != nil {
		return err
	}
	owner, err := ownerOfSchema(ctx, conn, role)
	switch {
	case err != nil:
		return err
	case owner != "" && owner != role:
		return fmt.Errorf("schema %s in database postgres belongs to %s, so a failover drill can't write there: rename it", role, owner)
	}
	statements := []string{"ALTER ROLE " + role + " " + plain + " PASSWORD NULL CONNECTION LIMIT 8"}
	if owner == "" {
		statements = append(statements, "CREATE SCHEMA "+role+" AUTHORIZATION "+role)
	}
	return execAll(ctx, conn, append(statements, "REVOKE ALL ON SCHEMA "+role+" FROM PUBLIC"))
}

// removeFailoverDrill ends the sessions of the role, and removes it with its schema.
func removeFailoverDrill(ctx context.Context, conn *pgx.Conn) error {
	const role = postgres.RoleFailoverDrill
	found, err := exists(ctx, conn, "SELECT 1 FROM pg_catalog.pg_roles WHERE rolname = $1", role)
	if err != nil || !found {
		return err
	}
	if err := execAll(ctx, conn, []string{
		"ALTER ROLE " + role + " NOLOGIN",
		"SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity WHERE usename OPERATOR(pg_catalog.=) '" + role + "'",
		"DROP OWNED BY " + role + " CASCADE", // its schema, with the table of rows
		"DROP ROLE " + role,
	}); err != nil {
		return fmt.Errorf("remove role %s: %w", role, err)
	}
	return nil
}

// ownerOfSchema is who owns a schema; empty: there is none.
func ownerOfSchema(ctx context.Context, conn *pgx.Conn, schema string) (owner string, err error) {
	err = conn.QueryRow(ctx, "SELECT pg_catalog.pg_get_userbyid(nspowner)::text FROM pg_catalog.pg_namespace WHERE nspname = $1", schema).Scan(&owner)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return owner, err
}
