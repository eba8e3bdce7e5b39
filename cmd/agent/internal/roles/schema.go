package roles

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/pkg/agentapi"
)

func (d *declaration) schemasOf(ctx context.Context, conn *pgx.Conn, database agentapi.Database) error {
	for _, schema := range database.Schemas {
		subject := fmt.Sprintf("schema %s in database %s", schema.Name, database.Name)
		err := fmt.Errorf("%w: the name is reserved by PostgreSQL or Howdah", errRefused)
		if !reserved(schema.Name) && schema.Name != "information_schema" || schema.Name == "public" {
			err = keepSchema(ctx, conn, schema)
		}
		if err := d.note(ctx, conn, subject, err); err != nil {
			return err
		}
	}
	return nil
}

func keepSchema(ctx context.Context, conn *pgx.Conn, schema agentapi.Schema) error {
	var owner string
	err := conn.QueryRow(ctx, `SELECT pg_catalog.pg_get_userbyid(nspowner)::text FROM pg_catalog.pg_namespace WHERE nspname = $1`, schema.Name).Scan(&owner)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		owner, err = createSchema(ctx, conn, schema)
	case err == nil && schema.Owner != "" && schema.Owner != owner:
		owner = schema.Owner
		_, err = conn.Exec(ctx, "ALTER SCHEMA "+quote(schema.Name)+" OWNER TO "+quote(owner))
	}
	if err != nil {
		return err
	}
	for _, grant := range schema.Grants {
		if err := keepGrant(ctx, conn, schema.Name, owner, grant); err != nil {
			return fmt.Errorf("grant to %s: %w", grant.Role, err)
		}
	}
	return nil
}

// createSchema creates a schema for its owner, or else for the owner of the database.
func createSchema(ctx context.Context, conn *pgx.Conn, schema agentapi.Schema) (owner string, err error) {
	owner = schema.Owner
	if owner == "" {
		if err := conn.QueryRow(ctx, `SELECT pg_catalog.pg_get_userbyid(datdba)::text FROM pg_catalog.pg_database
			WHERE datname = pg_catalog.current_database()`).Scan(&owner); err != nil {
			return "", err
		}
	}
	_, err = conn.Exec(ctx, "CREATE SCHEMA "+quote(schema.Name)+" AUTHORIZATION "+quote(owner))
	return owner, err
}
