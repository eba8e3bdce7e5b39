package roles

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/pkg/agentapi"
)

// rights are what a grant gives on the objects of a kind in a schema.
type rights struct {
	kind       string // as GRANT and ALTER DEFAULT PRIVILEGES name all of them
	letter     string // as pg_default_acl does
	objects    string // the query of their oids in the schema $1
	has        string // the function that says whether a role has a right
	privileges []string
}

const relations = `SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind `

func rightsOf(write bool) []rights {
	tables := rights{"TABLES", "r", relations + "IN ('r', 'p', 'v', 'm', 'f')", "has_table_privilege", []string{"SELECT"}}
	sequences := rights{"SEQUENCES", "S", relations + "= 'S'", "has_sequence_privilege", []string{"SELECT"}}
	if !write {
		return []rights{tables, sequences}
	}
	tables.privileges = append(tables.privileges, "INSERT", "UPDATE", "DELETE")
	sequences.privileges = append(sequences.privileges, "USAGE")
	return []rights{tables, sequences, {"FUNCTIONS", "f", `SELECT p.oid FROM pg_catalog.pg_proc p
		JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = $1 AND p.prokind <> 'p'`, "has_function_privilege", []string{"EXECUTE"}}}
}

// keepGrant gives a role what it lacks in a schema: on what is there, and on what the owner of the schema creates later.
func keepGrant(ctx context.Context, conn *pgx.Conn, schema, owner string, grant agentapi.SchemaGrant) error {
	statements := []string{}
	lacks := func(query string, args ...any) (lacks bool, err error) {
		err = conn.QueryRow(ctx, query, args...).Scan(&lacks)
		return lacks, err
	}
	missing, err := lacks("SELECT NOT pg_catalog.has_schema_privilege($1::text::name, $2::text, 'USAGE')", grant.Role, schema)
	if err != nil {
		return err
	}
	if missing {
		statements = append(statements, "GRANT USAGE ON SCHEMA "+quote(schema)+" TO "+quote(grant.Role))
	}
	for _, r := range rightsOf(grant.Write) {
		list := strings.Join(r.privileges, ", ")
		if missing, err = lacks(r.missing(), schema, grant.Role); err != nil {
			return err
		}
		if missing {
			statements = append(statements, fmt.Sprintf("GRANT %s ON ALL %s IN SCHEMA %s TO %s", list, r.kind, quote(schema), quote(grant.Role)))
		}
		if missing, err = lacks(futureRights, owner, schema, r.letter, grant.Role, len(r.privileges), r.privileges); err != nil {
			return err
		}
		if missing {
			statements = append(statements, fmt.Sprintf("ALTER DEFAULT PRIVILEGES FOR ROLE %s IN SCHEMA %s GRANT %s ON %s TO %s",
				quote(owner), quote(schema), list, r.kind, quote(grant.Role)))
		}
	}
	return execAll(ctx, conn, statements)
}

// missing asks whether there is an object in the schema $1 on which the role $2 lacks a right. OFFSET has PostgreSQL ask of no others.
func (r rights) missing() string {
	var has []string
	for _, privilege := range r.privileges {
		has = append(has, "pg_catalog."+r.has+"($2::text::name, o.oid, '"+privilege+"')")
	}
	return "SELECT EXISTS (SELECT FROM (" + r.objects + " OFFSET 0) o WHERE NOT (" + strings.Join(has, " AND ") + "))"
}

// futureRights asks whether the role $4 lacks one of the rights $6 on what the role $1 will create in the schema $2.
const futureRights = `SELECT count(DISTINCT a.privilege_type) < $5 FROM pg_catalog.pg_default_acl d
	JOIN pg_catalog.pg_roles o ON o.oid = d.defaclrole JOIN pg_catalog.pg_namespace n ON n.oid = d.defaclnamespace,
	pg_catalog.aclexplode(d.defaclacl) a JOIN pg_catalog.pg_roles g ON g.oid = a.grantee
	WHERE o.rolname = $1 AND n.nspname = $2 AND d.defaclobjtype = $3::text::"char" AND g.rolname = $4 AND a.privilege_type = ANY($6)`
