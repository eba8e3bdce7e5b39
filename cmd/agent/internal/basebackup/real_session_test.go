//go:build postgres

package basebackup

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/authority"
	"howdah.dev/howdah/test/testkit/pgtest"
)

func TestNoSettingOfARoleOrADatabaseReachesTheSessionOfABackup(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		server := pgtest.Start(t, pgtest.Options{Major: pg.Major})
		server.SQL("CREATE ROLE " + agentapi.BackupRole + " LOGIN;" + pgtest.Unkind(pg.Major, agentapi.BackupRole, "postgres"))
		certificates := t.TempDir()
		authority.New(t).Fill(t, certificates, "shop-0", "shop-0")
		config, err := connectConfig("shop-0", server.SocketDir, certificates, pg.Major)
		if err != nil {
			t.Fatal(err)
		}
		config.TLSConfig = nil // there is none on a socket
		conn, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		var unpinned string
		if err := conn.QueryRow(t.Context(), pgtest.Unpinned(pg.Major)).Scan(&unpinned); err != nil || unpinned != "" {
			t.Errorf("these reach it: %s; %v", unpinned, err)
		}
	})
}
