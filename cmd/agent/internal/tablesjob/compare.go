package tablesjob

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/postgres"
)

// compare refuses a restore that the running cluster can't take, with all that stands against it.
func (w *Worker) compare(ctx context.Context, s *session, wanted []relation) error {
	names := make([][2]string, 0, len(wanted))
	schemas := []string{}
	for _, r := range wanted {
		names = append(names, [2]string{r.Schema, r.Name})
		if !slices.Contains(schemas, r.Schema) {
			schemas = append(schemas, r.Schema)
		}
	}
	if err := refuseTaken(ctx, s.target, w.IntoDatabase, names); err != nil {
		return err
	}
	if err := w.checkSchemas(ctx, s.target, schemas); err != nil {
		return err
	}
	if err := w.compareRoles(ctx, s); err != nil {
		return err
	}
	return w.compareNeeds(ctx, s, schemas)
}

// owned are the objects that come with what is restored: indexes, constraints, defaults, triggers, policies, rules and owned sequences. That a table is in a
// publication is no part of it.
func (w *Worker) owned() string {
	return `WITH RECURSIVE o (classid, objid) AS (
		SELECT 'pg_catalog.pg_class'::regclass::oid, relid FROM ` + postgres.QuoteIdentifier(w.schema()) + `.wanted
		UNION SELECT d.classid, d.objid FROM o JOIN pg_catalog.pg_depend d ON d.refclassid = o.classid AND d.refobjid = o.objid WHERE d.deptype IN ('a', 'i', 'P', 'S')
			AND d.classid NOT IN (SELECT oid FROM pg_catalog.pg_class WHERE relname IN ('pg_publication_rel', 'pg_publication_namespace') AND relnamespace = 'pg_catalog'::regnamespace)) `
}

// object is one of the copy, by what finds it in the other server.
type object struct {
	Kind, Identity string
	Schema         *string
	Names, Args    []string
	Extension      *string // that it belongs to
}

// objects are made of a query that has classid and objid.
func objects(ctx context.Context, conn *pgx.Conn, query string) ([]object, error) {
	rows, err := conn.Query(ctx, `SELECT i.type, i.identity, i.schema, a.object_names, a.object_args,
			(SELECT x.extname::text FROM pg_catalog.pg_depend e JOIN pg_catalog.pg_extension x ON x.oid = e.refobjid WHERE e.classid = found.classid AND e.objid = found.objid AND e.deptype = 'e')
		FROM (`+query+`) AS found, pg_catalog.pg_identify_object(found.classid, found.objid, 0) AS i,
			pg_catalog.pg_identify_object_as_address(found.classid, found.objid, 0) AS a ORDER BY 1, 2`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (o object, err error) {
		err = row.Scan(&o.Kind, &o.Identity, &o.Schema, &o.Names, &o.Args, &o.Extension)
		return o, err
	})
}

// has says whether the other server has an object.
func has(ctx context.Context, target *pgx.Conn, o object) (bool, error) {
	var oid uint32
	err := target.QueryRow(ctx, "SELECT objid FROM pg_catalog.pg_get_object_address($1, $2, $3)", o.Kind, o.Names, o.Args).Scan(&oid)
	fault := &pgconn.PgError{}
	switch {
	case !errors.As(err, &fault):
		return err == nil, err
	case fault.Code == "22023": // no kind that can be looked for
		return true, nil
	case strings.HasPrefix(fault.Code, "42"), strings.HasPrefix(fault.Code, "3F"):
		return false, nil
	}
	return false, err
}

// compareNeeds refuses tables that need something that isn't there: types, functions, extensions, and tables that they refer to.
func (w *Worker) compareNeeds(ctx context.Context, s *session, schemas []string) error {
	needs, err := objects(ctx, s.source, w.owned()+`SELECT DISTINCT d.refclassid AS classid, d.refobjid AS objid FROM o JOIN pg_catalog.pg_depend d ON d.classid = o.classid AND d.objid = o.objid
		WHERE d.deptype IN ('n', 'a', 'P') AND d.refclassid <> 'pg_catalog.pg_namespace'::regclass AND NOT EXISTS (SELECT FROM o AS own WHERE own.classid = d.refclassid AND own.objid = d.refobjid)
			AND NOT EXISTS (SELECT FROM pg_catalog.pg_class c WHERE d.refclassid = 'pg_catalog.pg_class'::regclass AND c.oid = d.refobjid AND c.relkind IN ('i', 'I', 't'))`)
	if err != nil {
		return err
	}
	var missing []string
	for _, need := range needs {
		if need.Extension != nil {
			need = object{Kind: "extension", Identity: *need.Extension, Names: []string{*need.Extension}, Args: []string{}}
		} else if len(w.Task.Tables) == 0 && need.Schema != nil && slices.Contains(schemas, *need.Schema) {
			continue // it is restored as well
		}
		there, err := has(ctx, s.target, need)
		if err != nil {
			return err
		}
		if text := need.Kind + " " + need.Identity; !there && !slices.Contains(missing, text) {
			missing = append(missing, text)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return job.Final(ReasonObjectMissing, fmt.Errorf("what is to be restored needs what database %s of the running cluster lacks: %s. Create it there, or restore it, too. "+
		"Foreign keys to tables that are missing can be left out with spec.destination.intoCluster.foreignKeys: Omit in another Restore", w.IntoDatabase, some(missing)))
}

// ownersAndGrantees of what is restored. A grant by somebody else than the owner can't be repeated. Policies are for roles, too.
const ownersAndGrantees = `SELECT DISTINCT kind, name FROM (
		SELECT 'owner' AS kind, pg_catalog.pg_get_userbyid(c.relowner) AS name FROM o JOIN pg_catalog.pg_class c ON c.oid = o.objid WHERE o.classid = 'pg_catalog.pg_class'::regclass
		UNION ALL SELECT CASE WHEN g.grantor = c.relowner THEN 'grantee' ELSE 'grantor' END,
			pg_catalog.pg_get_userbyid(CASE WHEN g.grantor = c.relowner THEN g.grantee ELSE g.grantor END)
			FROM o JOIN pg_catalog.pg_class c ON c.oid = o.objid CROSS JOIN LATERAL (
				SELECT * FROM pg_catalog.aclexplode(c.relacl) UNION ALL SELECT x.* FROM pg_catalog.pg_attribute a, pg_catalog.aclexplode(a.attacl) x WHERE a.attrelid = c.oid) g
			WHERE o.classid = 'pg_catalog.pg_class'::regclass AND g.grantee <> 0 AND g.grantee <> c.relowner
		UNION ALL SELECT 'policy', pg_catalog.pg_get_userbyid(r) FROM o JOIN pg_catalog.pg_policy p ON p.oid = o.objid, pg_catalog.unnest(p.polroles) AS r
			WHERE o.classid = 'pg_catalog.pg_policy'::regclass AND r <> 0) AS roles ORDER BY 1, 2`

// rolesOf are the owners, the grantees, and so on.
func (w *Worker) rolesOf(ctx context.Context, source *pgx.Conn) (map[string][]string, error) {
	rows, err := source.Query(ctx, w.owned()+ownersAndGrantees)
	if err != nil {
		return nil, err
	}
	found := map[string][]string{}
	var kind, name string
	_, err = pgx.ForEachRow(rows, []any{&kind, &name}, func() error {
		found[kind] = append(found[kind], name)
		return nil
	})
	return found, err
}

const omitPrivileges = "set spec.destination.intoCluster.privileges: Omit in another Restore, so that all of it belongs to role %s and nothing is granted"

// compareRoles refuses owners that we can't give tables to, and roles that don't exist.
func (w *Worker) compareRoles(ctx context.Context, s *session) error {
	roles, err := w.rolesOf(ctx, s.source)
	if err != nil {
		return err
	}
	needed := roles["policy"]
	if !w.Task.OmitPrivileges {
		needed = slices.Concat(roles["owner"], roles["grantee"], needed)
	}
	slices.Sort(needed)
	existing, err := texts(ctx, s.target, "SELECT rolname::text FROM pg_catalog.pg_roles WHERE rolname = ANY ($1::text[])", needed)
	if err != nil {
		return err
	}
	missing := slices.DeleteFunc(slices.Compact(needed), func(name string) bool { return slices.Contains(existing, name) })
	switch {
	case len(missing) > 0:
		return job.Final(ReasonObjectMissing, fmt.Errorf("these roles own what is to be restored, or have rights in it, and the running cluster lacks them: %s. "+
			"Declare them in spec.roles of the PostgresCluster, or "+omitPrivileges, some(missing), s.role))
	case w.Task.OmitPrivileges:
		return nil
	case len(roles["grantor"]) > 0:
		return job.Final(ReasonRoleUnsuitable, fmt.Errorf("privileges were granted by somebody else than the owner (%s), which only that role can repeat: "+omitPrivileges, some(roles["grantor"]), s.role))
	}
	others, err := texts(ctx, s.target, "SELECT rolname::text FROM pg_catalog.pg_roles WHERE rolname = ANY ($1::text[]) AND NOT pg_catalog.pg_has_role(CURRENT_USER, oid, 'MEMBER') ORDER BY 1", roles["owner"])
	if err != nil || len(others) == 0 {
		return err
	}
	return job.Final(ReasonRoleUnsuitable, fmt.Errorf("what is to be restored belongs to %s, and role %s, which restores it, is not a member of that role: grant it the role, name the credentials of "+
		"another role in spec.destination.intoCluster.credentials, or "+omitPrivileges, strings.Join(others, ", "), s.role, s.role))
}

// notRestored are objects that referred to what is restored in the backup, and that the running cluster lacks.
func (w *Worker) notRestored(ctx context.Context, s *session) (missing []string, err error) {
	if w.Task.IntoSchema != "" { // they refer to what is there under the former name
		return nil, nil
	}
	referrers, err := objects(ctx, s.source, w.owned()+`SELECT DISTINCT CASE WHEN r.oid IS NULL THEN d.classid ELSE 'pg_catalog.pg_class'::regclass::oid END AS classid, coalesce(r.ev_class, d.objid) AS objid
		FROM o JOIN pg_catalog.pg_depend d ON d.refclassid = o.classid AND d.refobjid = o.objid
		LEFT JOIN pg_catalog.pg_rewrite r ON d.classid = 'pg_catalog.pg_rewrite'::regclass AND r.oid = d.objid
		WHERE d.deptype = 'n' AND NOT EXISTS (SELECT FROM o AS own WHERE own.classid = d.classid AND own.objid = d.objid)`)
	if err != nil {
		return nil, err
	}
	for _, referrer := range referrers {
		there, err := has(ctx, s.target, referrer)
		if err != nil {
			return nil, err
		}
		if !there && len(missing) < mostNotRestored {
			missing = append(missing, job.Shorten(referrer.Kind+" "+referrer.Identity, mostText))
		}
	}
	return missing, nil
}
