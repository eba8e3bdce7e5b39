//go:build postgres

package replicate

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/pgtest"
)

func TestNoSettingOfARoleOrADatabaseReachesASessionAtAnotherInstance(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg, 2)
		primary, replica := b.found(), b.nodes[1]
		primary.sql(pgtest.Unkind(pg.Major, postgres.RoleReplication, "postgres"))
		var unpinned string
		err := replica.Instance.with(t.Context(), primary.upstream(), func(conn *pgx.Conn) error {
			return conn.QueryRow(t.Context(), pgtest.Unpinned(pg.Major)).Scan(&unpinned)
		})
		if err != nil || unpinned != "" {
			t.Errorf("these reach the agent's: %s; %v", unpinned, err)
		}
		out, err := postgres.Exec(t.Context(), pg.BinDir+"/psql", "--no-psqlrc", "--tuples-only", "--no-align",
			"--dbname="+replica.rewindSource(primary.upstream()), "--command="+pgtest.Unpinned(pg.Major))
		if err != nil || strings.TrimSpace(string(out)) != "" {
			t.Errorf("these reach pg_rewind's: %s; %v", out, err)
		}
	})
}
