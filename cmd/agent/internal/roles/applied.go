package roles

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/pkg/postgres"
)

// appliedSchema has the record of the specs that were applied, in database postgres. It goes where the data goes.
const appliedSchema = "howdah_declared"

// Source is the spec that something is declared by.
type Source struct {
	// ClusterUID is that of the PostgresCluster itself, and not of the one that it may have taken the database over from.
	ClusterUID string
	// Generation of the PostgresCluster; 0: it isn't known, as with a db-controller of an earlier version.
	Generation int64
}

// latest is the generation of the latest spec that was applied to this data; 0: none that is known of.
func (s Source) latest(ctx context.Context, conn *pgx.Conn) (generation int64, recorded bool, err error) {
	var ours bool
	err = conn.QueryRow(ctx, `SELECT n.nspowner = 10 AND c.relowner = 10 AND c.relkind = 'r' FROM pg_catalog.pg_class c
		JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = 'applied'`, appliedSchema).Scan(&ours)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return 0, false, nil
	case err != nil:
		return 0, false, err
	case !ours:
		return 0, false, fmt.Errorf("schema %s in database postgres doesn't belong to %s: rename it", appliedSchema, postgres.RoleSuperuser)
	}
	err = conn.QueryRow(ctx, "SELECT coalesce(max(generation), 0) FROM "+appliedSchema+".applied WHERE cluster = $1", s.ClusterUID).Scan(&generation)
	return generation, true, err
}

// record notes that a spec is applied, before it is. It says which later one has been; 0: none.
func (s Source) record(ctx context.Context, conn *pgx.Conn) (later int64, err error) {
	if s.Generation == 0 {
		return 0, nil
	}
	latest, recorded, err := s.latest(ctx, conn)
	switch {
	case err != nil, latest == s.Generation:
		return 0, err
	case latest > s.Generation:
		return latest, nil
	case !recorded:
		if _, err := conn.Exec(ctx, "CREATE SCHEMA "+appliedSchema+" AUTHORIZATION "+postgres.RoleSuperuser+
			" CREATE TABLE applied (cluster pg_catalog.text PRIMARY KEY, generation pg_catalog.int8 NOT NULL)"); err != nil {
			return 0, err
		}
	}
	_, err = conn.Exec(ctx, "INSERT INTO "+appliedSchema+`.applied AS a VALUES ($1, $2)
		ON CONFLICT (cluster) DO UPDATE SET generation = excluded.generation WHERE a.generation < excluded.generation`, s.ClusterUID, s.Generation)
	return 0, err
}

// Undeclared notes a spec that declares nothing, where an earlier one did: what that had dropped may have been created again since.
func Undeclared(ctx context.Context, server local.Server, source Source) error {
	return server.With(ctx, "postgres", func(conn *pgx.Conn) error {
		if _, recorded, err := source.latest(ctx, conn); err != nil || !recorded {
			return err
		}
		_, err := source.record(ctx, conn)
		return err
	})
}

// MayDrop says why nothing is dropped that this spec declares absent; nil: it may be.
func (s Source) MayDrop(ctx context.Context, conn *pgx.Conn) error {
	latest, _, err := s.latest(ctx, conn)
	if err != nil || s.Generation == 0 || latest <= s.Generation {
		return err
	}
	return errors.New(s.outdated(latest))
}

func (s Source) outdated(later int64) string {
	return fmt.Sprintf("it is declared absent by generation %d of the PostgresCluster, and generation %d has been applied before, so it may have been created again since; drop it yourself if that is wanted",
		s.Generation, later)
}

// mayDrop says why nothing is dropped; nil: it may be.
func (d *declaration) mayDrop() error {
	if d.later == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", errRefused, d.Source.outdated(d.later))
}
