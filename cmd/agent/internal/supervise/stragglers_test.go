//go:build postgres

package supervise

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

// A node's proxy may lead clients to a former primary for a while after that has become a replica. One that keeps its connection
// could not write for as long as it lives.
func TestAClientThatIsLedToAFormerPrimaryTooLateIsNotLeftThere(t *testing.T) {
	subset.OneIn(t, 3)
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	two, _ := newPair(t)
	two.run()
	two.first.await("be the primary", two.first.public.ready)
	two.first.sql("CREATE ROLE late LOGIN PASSWORD 'secret'")
	two.awaitStreaming()
	two.second.await("know the role", func() bool {
		return two.second.sql("SELECT count(*)::text FROM pg_roles WHERE rolname = 'late'") == "1"
	})
	two.lease.pass(t, "shop-1")
	var late, pooled *pgx.Conn
	two.first.await("accept the client that comes too late, as a replica", func() (accepted bool) {
		conn, err := two.first.connect("late", "secret", "postgres", "")
		if err == nil {
			err = conn.QueryRow(t.Context(), "SELECT pg_is_in_recovery()").Scan(&accepted)
			late = conn
		}
		return err == nil && accepted
	})
	two.first.await("accept a pooler", func() bool {
		var err error
		pooled, err = two.first.connect("late", "secret", "postgres", agentapi.PoolerRole)
		return err == nil
	})
	two.first.await("end its session", func() bool { return late.Ping(t.Context()) != nil })
	if err := pooled.Ping(t.Context()); err != nil {
		t.Errorf("a pooler, which sends those here that read, has lost its session: %v", err)
	}
	if _, err := two.first.connect("late", "secret", "postgres", ""); err != nil {
		t.Errorf("who comes to read is refused: %v", err)
	}
	two.first.awaitStatus("follow", func(s agentapi.Status) bool { return s.Replication != nil && s.Replication.Streaming })
}
