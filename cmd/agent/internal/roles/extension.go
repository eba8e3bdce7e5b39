package roles

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/pkg/agentapi"
)

// extensionsSchema is where an extension that isn't trusted goes that names no schema: nobody but superusers can create
// anything in it, which can't be said of public.
const extensionsSchema = "extensions"

// available is what the programs know of an extension in a version.
type available struct {
	// schema that the extension itself names; empty: none.
	schema string
	// trusted: it gives its users nothing that they could abuse, and its author says that its scripts are safe in a schema of a
	// database's owner.
	trusted bool
}

// keepExtension makes an extension, or brings it to the version and the schema that are named.
func keepExtension(ctx context.Context, conn *pgx.Conn, extension agentapi.Extension) error {
	var version, schema string
	err := conn.QueryRow(ctx, `SELECT e.extversion, n.nspname FROM pg_catalog.pg_extension e
		JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = $1`, extension.Name).Scan(&version, &schema)
	if errors.Is(err, pgx.ErrNoRows) {
		return createExtension(ctx, conn, extension)
	}
	if err == nil && extension.Version != "" && extension.Version != version {
		_, err = conn.Exec(ctx, "ALTER EXTENSION "+quote(extension.Name)+" UPDATE TO "+quote(extension.Version))
	}
	if err != nil || extension.Schema == "" || extension.Schema == schema {
		return err
	}
	known, err := lookUp(ctx, conn, extension)
	if err != nil {
		return err
	}
	if err := makeSchema(ctx, conn, extension.Schema, known.trusted); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "ALTER EXTENSION "+quote(extension.Name)+" SET SCHEMA "+quote(extension.Schema))
	return err
}

// createExtension names a schema unless the extension has one of its own: no other is searched in our sessions. Its scripts
// run as superuser and find what is in that schema, so one that isn't trusted goes only where nobody else can put anything.
func createExtension(ctx context.Context, conn *pgx.Conn, extension agentapi.Extension) error {
	known, err := lookUp(ctx, conn, extension)
	if err != nil {
		return err
	}
	schema := extension.Schema
	if schema == "" && known.schema == "" {
		schema = "public"
		if !known.trusted {
			schema = extensionsSchema
		}
	}
	statement := "CREATE EXTENSION IF NOT EXISTS " + quote(extension.Name)
	if schema != "" {
		statement += " SCHEMA " + quote(schema)
	} else {
		schema = known.schema
	}
	if err := makeSchema(ctx, conn, schema, known.trusted); err != nil {
		return err
	}
	if extension.Version != "" {
		statement += " VERSION " + quote(extension.Version)
	}
	_, err = conn.Exec(ctx, statement+" CASCADE")
	return err
}

// lookUp says what is known of an extension. Of one that isn't there PostgreSQL says so itself, when it is to be created.
func lookUp(ctx context.Context, conn *pgx.Conn, extension agentapi.Extension) (known available, err error) {
	err = conn.QueryRow(ctx, `SELECT coalesce(v.schema::text, ''), v.trusted
		FROM pg_catalog.pg_available_extension_versions v JOIN pg_catalog.pg_available_extensions a USING (name)
		WHERE v.name = $1 AND v.version = coalesce(nullif($2, ''), a.default_version)`, extension.Name, extension.Version).Scan(&known.schema, &known.trusted)
	if errors.Is(err, pgx.ErrNoRows) {
		return available{trusted: true}, nil
	}
	return known, err
}

// makeSchema makes a schema that anybody may use. For an extension that isn't trusted, it has to be one of superusers alone.
func makeSchema(ctx context.Context, conn *pgx.Conn, name string, trusted bool) error {
	there, err := exists(ctx, conn, `SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1`, name)
	if err != nil {
		return err
	}
	if !there {
		// Should a tenant be faster, this fails.
		if _, err := conn.Exec(ctx, "CREATE SCHEMA "+quote(name)); err != nil {
			return err
		}
		if name == extensionsSchema {
			if _, err := conn.Exec(ctx, "GRANT USAGE ON SCHEMA "+quote(name)+" TO PUBLIC"); err != nil {
				return err
			}
		}
	}
	if trusted {
		return nil
	}
	return onlyOfSuperusers(ctx, conn, name)
}

// onlyOfSuperusers refuses a schema that somebody else owns, may create something in, or has created something in.
func onlyOfSuperusers(ctx context.Context, conn *pgx.Conn, schema string) error {
	var who string
	err := conn.QueryRow(ctx, `WITH s AS (SELECT oid, nspowner, nspacl FROM pg_catalog.pg_namespace WHERE nspname = $1), others AS (
			SELECT nspowner AS role FROM s
			UNION ALL SELECT a.grantee FROM s, pg_catalog.aclexplode(s.nspacl) a WHERE a.privilege_type = 'CREATE'
			UNION ALL SELECT proowner FROM pg_catalog.pg_proc, s WHERE pronamespace = s.oid
			UNION ALL SELECT oprowner FROM pg_catalog.pg_operator, s WHERE oprnamespace = s.oid
			UNION ALL SELECT typowner FROM pg_catalog.pg_type, s WHERE typnamespace = s.oid
			UNION ALL SELECT relowner FROM pg_catalog.pg_class, s WHERE relnamespace = s.oid)
		SELECT coalesce(r.rolname::text, 'PUBLIC') FROM others o LEFT JOIN pg_catalog.pg_roles r ON r.oid = o.role
		WHERE r.rolsuper IS NOT TRUE ORDER BY 1 LIMIT 1`, schema).Scan(&who)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: PostgreSQL doesn't trust it, and its scripts, which run as superuser, would find what %s has put or can put into schema %s: "+
		"name another schema, such as %s, that belongs to a superuser", errRefused, who, schema, extensionsSchema)
}
