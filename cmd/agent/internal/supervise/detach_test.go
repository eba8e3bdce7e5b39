//go:build postgres

package supervise

import (
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// What somebody takes the lease by must stay true: the previous primary may not know yet that it is none.
func TestAReplicaThatSaysHowFarItIsReceivesNoMoreWAL(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	two, _ := newPair(t)
	two.run()
	two.first.awaitStatus("have a member", func(s agentapi.Status) bool { return s.Election != nil && len(s.Election.Members) > 0 })
	two.lease.mu.Lock() // the primary can't renew
	version := two.lease.object["metadata"].(map[string]any)["resourceVersion"].(string)
	began := time.Now()
	position, err := two.Position(t.Context(), elect.Member{Name: "shop-1"}, agentapi.PositionRequest{Version: version})
	t.Logf("answered after %v", time.Since(began))
	if err != nil || !position.Replica || position.LSN == 0 {
		t.Fatalf("%+v, %v", position, err)
	}
	two.first.sql("CREATE TABLE public.written AS SELECT 1 AS a")
	if n := two.first.sql("SELECT count(*)::text FROM pg_stat_replication"); n != "0" {
		t.Errorf("%s replicas are connected", n)
	}
	if got := two.second.sql("SELECT (pg_last_wal_receive_lsn() - '0/0')::text"); got == "" {
		t.Error("the replica has no position")
	}
	later, err := two.Position(t.Context(), elect.Member{Name: "shop-1"}, agentapi.PositionRequest{Version: version})
	if err != nil || later.LSN != position.LSN {
		t.Errorf("it was at %d, and is at %d, %v", position.LSN, later.LSN, err)
	}
	two.lease.mu.Unlock()
	two.awaitStreaming() // once the lease was renewed
	two.second.await("have the table", func() bool {
		return two.second.sql("SELECT count(*)::text FROM pg_class WHERE relname = 'written'") == "1"
	})
}
