package roles

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/pkg/agentapi"
)

func (d *declaration) publicationsOf(ctx context.Context, conn *pgx.Conn, database agentapi.Database) error {
	for _, publication := range database.Publications {
		subject := fmt.Sprintf("publication %s in database %s", publication.Name, database.Name)
		if err := d.note(ctx, conn, subject, d.keepPublication(ctx, conn, publication)); err != nil {
			return err
		}
	}
	return nil
}

// keepPublication creates a publication, or brings it to the tables and schemas that are declared. Row filters and lists of columns that
// somebody has added stay as long as its tables are right.
func (d *declaration) keepPublication(ctx context.Context, conn *pgx.Conn, wanted agentapi.Publication) error {
	var all bool
	err := conn.QueryRow(ctx, "SELECT puballtables FROM pg_catalog.pg_publication WHERE pubname = $1", wanted.Name).Scan(&all)
	missing := errors.Is(err, pgx.ErrNoRows)
	switch {
	case err != nil && !missing:
		return err
	case wanted.Absent && missing:
		return nil
	case wanted.Absent:
		if err := d.mayDrop(); err != nil {
			return err
		}
		_, err = conn.Exec(ctx, "DROP PUBLICATION "+quote(wanted.Name))
		return err
	case missing && wanted.AllTables:
		_, err = conn.Exec(ctx, "CREATE PUBLICATION "+quote(wanted.Name)+" FOR ALL TABLES")
		return err
	case missing:
		_, err = conn.Exec(ctx, "CREATE PUBLICATION "+quote(wanted.Name)+" FOR "+published(wanted))
		return err
	case all != wanted.AllTables:
		return fmt.Errorf("%w: PostgreSQL can't change between all tables and some of them: set ensure: Absent first, or use another name", errRefused)
	case all:
		return nil
	}
	have, err := d.publishedNow(ctx, conn, wanted.Name)
	if err != nil || slices.Equal(have.Tables, sorted(wanted.Tables)) && slices.Equal(have.Schemas, sorted(wanted.Schemas)) {
		return err
	}
	_, err = conn.Exec(ctx, "ALTER PUBLICATION "+quote(wanted.Name)+" SET "+published(wanted))
	return err
}

// published is what a publication is for.
func published(wanted agentapi.Publication) string {
	var parts []string
	for _, table := range sorted(wanted.Tables) {
		parts = append(parts, "TABLE "+pgx.Identifier(strings.SplitN(table, ".", 2)).Sanitize())
	}
	for _, schema := range sorted(wanted.Schemas) {
		parts = append(parts, "TABLES IN SCHEMA "+quote(schema))
	}
	return strings.Join(parts, ", ")
}

func (d *declaration) publishedNow(ctx context.Context, conn *pgx.Conn, name string) (have agentapi.Publication, err error) {
	have.Tables, err = texts(ctx, conn, `SELECT n.nspname || '.' || c.relname FROM pg_catalog.pg_publication_rel r
		JOIN pg_catalog.pg_publication p ON p.oid = r.prpubid JOIN pg_catalog.pg_class c ON c.oid = r.prrelid
		JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE p.pubname = $1`, name)
	if err != nil || d.Major < 15 {
		return have, err
	}
	have.Schemas, err = texts(ctx, conn, `SELECT n.nspname::text FROM pg_catalog.pg_publication_namespace s
		JOIN pg_catalog.pg_publication p ON p.oid = s.pnpubid JOIN pg_catalog.pg_namespace n ON n.oid = s.pnnspid WHERE p.pubname = $1`, name)
	return have, err
}

func texts(ctx context.Context, conn *pgx.Conn, query, name string) ([]string, error) {
	rows, err := conn.Query(ctx, query, name)
	if err != nil {
		return nil, err
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return sorted(all), err
}

func sorted(all []string) []string { return slices.Sorted(slices.Values(all)) }
