package roles

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/pkg/agentapi"
)

// ownDatabases are PostgreSQL's.
var ownDatabases = []string{"postgres", "template0", "template1"}

// eachDatabase does something for the databases that are to be there, or for those that are not.
func (d *declaration) eachDatabase(ctx context.Context, conn *pgx.Conn, absent bool, do func(agentapi.Database) error) error {
	for _, database := range d.Databases {
		if database.Absent != absent {
			continue
		}
		err := fmt.Errorf("%w: it belongs to PostgreSQL itself", errRefused)
		if !slices.Contains(ownDatabases, database.Name) {
			err = do(database)
		}
		if err := d.note(ctx, conn, "database "+database.Name, err); err != nil {
			return err
		}
	}
	return nil
}

func (d *declaration) keepDatabases(ctx context.Context, conn *pgx.Conn) error {
	return d.eachDatabase(ctx, conn, false, func(database agentapi.Database) error { return d.keepDatabase(ctx, conn, database) })
}

func (d *declaration) keepDatabase(ctx context.Context, conn *pgx.Conn, database agentapi.Database) error {
	owner, err := ownerOf(ctx, conn, database.Name)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		_, err = conn.Exec(ctx, createDatabase(database, cmp.Or(database.Owner, d.Owner), d.Major))
	case err == nil && database.Owner != "" && database.Owner != owner:
		_, err = conn.Exec(ctx, "ALTER DATABASE "+quote(database.Name)+" OWNER TO "+quote(database.Owner))
	}
	if err != nil {
		return err
	}
	return keepDatabaseOptions(ctx, conn, database)
}

func ownerOf(ctx context.Context, conn *pgx.Conn, database string) (owner string, err error) {
	err = conn.QueryRow(ctx, `SELECT pg_catalog.pg_get_userbyid(datdba)::text FROM pg_catalog.pg_database WHERE datname = $1`, database).Scan(&owner)
	return owner, err
}

// dropDatabases drops what nobody uses. Sessions are not ended for it: who is in a database may still need it.
func (d *declaration) dropDatabases(ctx context.Context, conn *pgx.Conn) error {
	return d.eachDatabase(ctx, conn, true, func(database agentapi.Database) error {
		if database.Name == d.Database {
			return fmt.Errorf("%w: it is the application's database, which is not dropped", errRefused)
		}
		if _, err := ownerOf(ctx, conn, database.Name); errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err := d.mayDrop(); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, "DROP DATABASE "+quote(database.Name))
		return err
	})
}

// keepContents works in each database in turn. One that can't be entered is a problem of its own.
func (d *declaration) keepContents(ctx context.Context) error {
	for _, database := range d.Databases {
		if database.Absent || len(database.Extensions)+len(database.Schemas)+len(database.Publications)+len(database.Subscriptions) == 0 || slices.Contains(ownDatabases, database.Name) {
			continue
		}
		conn, err := d.server.Connect(ctx, database.Name)
		if ctx.Err() != nil {
			return err
		}
		if err != nil {
			d.problems = append(d.problems, fmt.Sprintf("database %s: what is in it can't be managed: %v", database.Name, err))
			continue
		}
		for _, step := range []func(context.Context, *pgx.Conn, agentapi.Database) error{d.schemasOf, d.extensionsOf, d.publicationsOf, d.subscriptionsOf} {
			if err = step(ctx, conn, database); err != nil {
				break
			}
		}
		_ = conn.Close(context.WithoutCancel(ctx)) // nothing is left open in it
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *declaration) extensionsOf(ctx context.Context, conn *pgx.Conn, database agentapi.Database) error {
	for _, extension := range database.Extensions {
		subject := fmt.Sprintf("extension %s in database %s", extension.Name, database.Name)
		if err := d.note(ctx, conn, subject, keepExtension(ctx, conn, extension)); err != nil {
			return err
		}
	}
	return nil
}
