//go:build postgres

package supervise

import (
	"testing"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// TestAReplicaThatCouldNotFollowTakesOverWhereItHasEverything: commits wait for it, so it has all that was acknowledged. What kept it from following may be
// the beginning of the primary's end.
func TestAReplicaThatCouldNotFollowTakesOverWhereItHasEverything(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	two, _ := newPair(t)
	config := two.first.config
	config.Synchronous = &agentapi.Synchronous{Number: 1, Required: true}
	two.first.configure(config)
	two.second.configure(config)
	two.run()
	two.first.awaitStatus("have a quorum", func(s agentapi.Status) bool { return s.Election != nil && s.Election.Quorum == 1 })
	two.first.sql("CREATE TABLE public.acknowledged (n int)")
	two.second.await("have it", func() bool {
		return two.second.sql("SELECT to_regclass('public.acknowledged') IS NOT NULL || ''") == "true"
	})
	two.first.sql("ALTER ROLE howdah_replication NOLOGIN") // it refuses replicas, though its agent answers
	two.first.sql("SELECT count(pg_terminate_backend(pid))::text FROM pg_stat_replication")
	two.second.awaitStatus("try to make another copy", func(s agentapi.Status) bool {
		return s.Rejoin != nil && s.Rejoin.Method == "Clone" && s.Rejoin.Message != ""
	})
	two.cut.Store(true)
	two.second.await("take over", two.second.public.ready)
	if got := two.second.sql("SELECT to_regclass('public.acknowledged') IS NOT NULL || ''"); got != "true" {
		t.Error("it lacks what was acknowledged")
	}
}
