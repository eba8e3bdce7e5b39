//go:build postgres

package replicate

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"howdah.dev/howdah/test/testkit/pgtest"
)

// TestACopyIsNotGivenToACloneOfWhoSendsNoWAL: for want of room, the copy would be gone before that shows.
func TestACopyIsNotGivenToACloneOfWhoSendsNoWAL(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg, 2)
		primary, n := b.found(), b.nodes[1]
		first := n.clone(primary)
		if _, err := n.Volume.Begin("g1.c2"); err != nil {
			t.Fatal(err)
		}
		var all []*pgconn.PgConn
		for { // clients take all processes that send WAL
			conn, err := pgconn.Connect(t.Context(), fmt.Sprintf("host=%s port=%d user=postgres dbname=postgres replication=database", primary.Paths.SocketDir, primary.Paths.Port))
			if err != nil {
				break
			}
			all = append(all, conn)
		}
		if err := n.takeOver(t.Context(), primary.upstream(), "g1.c2", first.ID); err == nil || !strings.Contains(err.Error(), "max_wal_senders") {
			t.Errorf("%d are taken: %v", len(all), err)
		}
		if current, _ := n.Volume.Current(); current != first.ID || !n.Volume.Whole(wanted) {
			t.Errorf("current is %q", current)
		}
		for _, conn := range all {
			_ = conn.Close(context.Background())
		}
		await(t, "the source to send WAL", func() bool { return n.sends(t.Context(), primary.upstream()) == nil })
		if err := n.takeOver(t.Context(), primary.upstream(), "g1.c2", first.ID); err != nil {
			t.Error(err)
		}
		if current, _ := n.Volume.Current(); current != "" {
			t.Errorf("current is %q", current)
		}
	})
}
