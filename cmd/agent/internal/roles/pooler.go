package roles

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/pkg/postgres"
)

// lookup is what a pooler asks for the verifier of a role that logs in to it. It knows no role that could do more than its owner allows
// to a client: neither superusers nor those that replicate, nor Howdah's own. A verifier of SCRAM is no password, and lets in only who
// knows that.
const lookup = `CREATE OR REPLACE FUNCTION ` + postgres.PoolerLookup + `(login pg_catalog.text, OUT rolname pg_catalog.text, OUT rolpassword pg_catalog.text)
	RETURNS SETOF pg_catalog.record LANGUAGE sql STABLE SECURITY DEFINER SET search_path = '' AS $$
		SELECT a.rolname::pg_catalog.text, a.rolpassword FROM pg_catalog.pg_authid a
		WHERE a.rolname OPERATOR(pg_catalog.=) login::pg_catalog.name AND a.rolcanlogin AND NOT a.rolsuper AND NOT a.rolreplication
			AND a.rolname::pg_catalog.text OPERATOR(pg_catalog.!~) '^(pg_|howdah_)' AND a.rolpassword OPERATOR(pg_catalog.~) '^SCRAM-SHA-256\$'
			AND (a.rolvaliduntil IS NULL OR a.rolvaliduntil OPERATOR(pg_catalog.>) pg_catalog.now())
	$$`

// ensurePooler makes the role by which poolers look verifiers up, and the function that is all it may use. The schema is the superuser's,
// in a database that is no tenant's.
func ensurePooler(ctx context.Context, conn *pgx.Conn, _ Wanted) error {
	const role, schema = postgres.RolePooler, postgres.RolePooler
	if err := ensureRole(ctx, conn, role); err != nil {
		return err
	}
	owner, err := ownerOfSchema(ctx, conn, schema)
	switch {
	case err == nil && owner == "":
		_, err = conn.Exec(ctx, "CREATE SCHEMA "+schema+" AUTHORIZATION "+postgres.RoleSuperuser)
	case err == nil && owner != postgres.RoleSuperuser:
		return fmt.Errorf("schema %s in database postgres belongs to %s, so poolers can't look passwords up: rename it", schema, owner)
	}
	if err != nil {
		return err
	}
	return execAll(ctx, conn, []string{
		"ALTER ROLE " + role + " " + plain + " PASSWORD NULL CONNECTION LIMIT -1",
		"REVOKE ALL ON SCHEMA " + schema + " FROM PUBLIC",
		lookup,
		"REVOKE ALL ON FUNCTION " + postgres.PoolerLookup + "(pg_catalog.text) FROM PUBLIC",
		"GRANT USAGE ON SCHEMA " + schema + " TO " + role,
		"GRANT EXECUTE ON FUNCTION " + postgres.PoolerLookup + "(pg_catalog.text) TO " + role,
	})
}
