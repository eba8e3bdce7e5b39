//go:build postgres

package supervise

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

func TestAReplicaStaysAMemberWhileItsPrimaryCannotBeAskedWhoFollows(t *testing.T) {
	subset.OneIn(t, 3)
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	two, _ := newPair(t)
	two.run()
	two.first.awaitStatus("have a member", func(s agentapi.Status) bool {
		return s.Election != nil && slices.Contains(s.Election.Members, "shop-1")
	})
	before := len(two.lease.annotations())
	err := two.first.agent.server.With(t.Context(), "postgres", func(conn *pgx.Conn) error {
		_, err := conn.Exec(t.Context(), "BEGIN; LOCK TABLE pg_catalog.pg_authid IN ACCESS EXCLUSIVE MODE") // pg_stat_replication names roles
		if err != nil {
			return err
		}
		two.first.await("fail to look at its replicas for longer than a member may be away", func() bool {
			return strings.Count(two.first.log.String(), "the replicas can't be inspected") >= 3
		})
		two.first.awaitStatus("say it", func(s agentapi.Status) bool { return strings.HasPrefix(s.Message, unseenMessage) })
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	two.first.awaitStatus("have nothing to say any more", func(s agentapi.Status) bool { return s.Message == "" })
	for _, written := range two.lease.annotations()[before:] {
		if !strings.Contains(written, `"name":"shop-1"`) {
			t.Errorf("nobody may take over, though the replica follows: the Lease says %s", written)
		}
	}
}
