//go:build postgres

package local

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/test/testkit/pgtest"
)

func TestNoSettingOfARoleOrADatabaseReachesASessionOfTheAgent(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		server := pgtest.Start(t, pgtest.Options{Major: pg.Major})
		server.SQL(pgtest.Unkind(pg.Major, "postgres", "postgres"))
		if got := server.SQL(pgtest.Unpinned(pg.Major)); got == "" {
			t.Fatal("the settings reach nobody")
		}
		var unpinned string
		err := Server{SocketDir: server.SocketDir, Port: 5432}.With(t.Context(), "postgres", func(conn *pgx.Conn) error {
			return conn.QueryRow(t.Context(), pgtest.Unpinned(pg.Major)).Scan(&unpinned)
		})
		if err != nil || unpinned != "" {
			t.Errorf("these reach it: %s; %v", unpinned, err)
		}
	})
}
