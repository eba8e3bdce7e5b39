package tablesjob

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/job"
)

// powersOfRole are what makes a role too powerful: whoever wrote the backup decides which statements it runs.
const powersOfRole = `SELECT pg_catalog.array_remove(ARRAY[
		CASE WHEN r.rolsuper THEN 'SUPERUSER' END, CASE WHEN r.rolcreaterole THEN 'CREATEROLE' END,
		CASE WHEN r.rolreplication THEN 'REPLICATION' END, CASE WHEN r.rolbypassrls THEN 'BYPASSRLS' END], NULL)
		|| ARRAY(SELECT 'a member of ' || o.rolname FROM pg_catalog.pg_roles o WHERE o.rolname <> CURRENT_USER AND pg_catalog.pg_has_role(CURRENT_USER, o.oid, 'MEMBER')
			AND (o.rolsuper OR o.rolcreaterole OR o.rolname IN ('pg_execute_server_program', 'pg_read_server_files', 'pg_write_server_files')) ORDER BY 1),
		CURRENT_USER::text
	FROM pg_catalog.pg_roles r WHERE r.rolname = CURRENT_USER`

// suitableRole is the role that we are, unless it is too powerful.
func suitableRole(ctx context.Context, target *pgx.Conn) (role string, err error) {
	var powers []string
	if err := target.QueryRow(ctx, powersOfRole).Scan(&powers, &role); err != nil {
		return "", err
	}
	if len(powers) > 0 {
		return "", job.Final(ReasonRoleUnsuitable, fmt.Errorf("role %s is %s, and a backup decides which statements are run to create its tables: "+
			"name the credentials of an ordinary role that owns the database in spec.destination.intoCluster.credentials", role, strings.Join(powers, ", ")))
	}
	return role, nil
}

// some names the first of a list.
func some(names []string) string {
	const most = 8
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// checkNames refuses what is in the way already by the names that the task has.
func (w *Worker) checkNames(ctx context.Context, target *pgx.Conn) error {
	var names [][2]string
	for _, table := range w.Task.Tables {
		schema, name, _ := strings.Cut(table, ".")
		if w.Task.IntoSchema != "" {
			schema = w.Task.IntoSchema
		}
		names = append(names, [2]string{schema, name})
	}
	if err := refuseTaken(ctx, target, w.IntoDatabase, names); err != nil {
		return err
	}
	return w.checkSchemas(ctx, target, w.schemasOfTask())
}

// schemasOfTask are those that something is created in, as far as the task says.
func (w *Worker) schemasOfTask() (schemas []string) {
	if w.Task.IntoSchema != "" {
		return []string{w.Task.IntoSchema}
	}
	schemas = slices.Clone(w.Task.Schemas)
	for _, table := range w.Task.Tables {
		if schema, _, _ := strings.Cut(table, "."); !slices.Contains(schemas, schema) {
			schemas = append(schemas, schema)
		}
	}
	return schemas
}

// refuseTaken refuses relations whose names are taken.
func refuseTaken(ctx context.Context, target *pgx.Conn, database string, names [][2]string) error {
	var schemas, relations []string
	for _, name := range names {
		schemas, relations = append(schemas, name[0]), append(relations, name[1])
	}
	taken, err := texts(ctx, target, `SELECT n.nspname || '.' || c.relname FROM unnest($1::text[], $2::text[]) AS wanted (schema, name)
		JOIN pg_catalog.pg_namespace n ON n.nspname = wanted.schema
		JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = wanted.name ORDER BY 1`, schemas, relations)
	if err != nil || len(taken) == 0 {
		return err
	}
	return job.Final(ReasonObjectExists, fmt.Errorf("database %s of the running cluster has %s, and a Restore overwrites nothing. %s", database, some(taken), beside))
}

// occupied are what is in schemas that are restored as a whole.
const occupied = `SELECT n.nspname || '.' || o.name FROM pg_catalog.pg_namespace n JOIN (
		SELECT relnamespace, relname::text FROM pg_catalog.pg_class WHERE relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
		UNION ALL SELECT pronamespace, proname::text FROM pg_catalog.pg_proc
		UNION ALL SELECT typnamespace, typname::text FROM pg_catalog.pg_type WHERE typrelid = 0 AND typelem = 0
	) AS o (schema, name) ON o.schema = n.oid
	WHERE n.nspname = ANY ($1::text[]) ORDER BY 1`

// rightsInSchemas are the schemas in which we may not create anything: those that exist, and those that we can't create.
const rightsInSchemas = `SELECT wanted.name FROM pg_catalog.unnest($1::text[]) AS wanted (name)
	LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = wanted.name
	WHERE NOT CASE WHEN n.oid IS NULL THEN pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE')
		ELSE pg_catalog.has_schema_privilege(n.oid, 'CREATE') END ORDER BY 1`

// checkSchemas refuses schemas that are restored as a whole and have something in them, and those in which we may create nothing.
func (w *Worker) checkSchemas(ctx context.Context, target *pgx.Conn, schemas []string) error {
	if len(w.Task.Schemas) > 0 {
		taken, err := texts(ctx, target, occupied, schemas)
		if err != nil {
			return err
		}
		if len(taken) > 0 {
			return job.Final(ReasonObjectExists, fmt.Errorf("database %s of the running cluster has %s, and a schema is restored as a whole into an empty one. %s",
				w.IntoDatabase, some(taken), beside))
		}
	}
	denied, err := texts(ctx, target, rightsInSchemas, schemas)
	if err != nil || len(denied) == 0 {
		return err
	}
	return job.Final(ReasonRoleUnsuitable, fmt.Errorf("the role may not create anything in these schemas of database %s: %s. "+
		"Grant it CREATE there, or name the credentials of another role in spec.destination.intoCluster.credentials", w.IntoDatabase, some(denied)))
}

func texts(ctx context.Context, conn *pgx.Conn, query string, args ...any) ([]string, error) {
	rows, err := conn.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
