//go:build postgres

package supervise

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

// position asks the replica how far it is, as a candidate does: again, where a busy machine took longer than a question may.
func (c *pair) position(request agentapi.PositionRequest) (position agentapi.Position) {
	c.first.t.Helper()
	c.second.await("say how far it is", func() bool {
		var err error
		position, err = c.Position(c.first.t.Context(), elect.Member{Name: "shop-1"}, request)
		return err == nil
	})
	return position
}

// What somebody takes the lease by must stay true: the previous primary may not know yet that it is none.
func TestAReplicaThatSaysHowFarItIsReceivesNoMoreWAL(t *testing.T) {
	subset.OnlyInFull(t)
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	two, _ := newPair(t)
	two.run()
	two.first.awaitStatus("have a member", func(s agentapi.Status) bool { return s.Election != nil && len(s.Election.Members) > 0 })
	two.lease.mu.Lock() // the primary can't renew
	version := two.lease.object["metadata"].(map[string]any)["resourceVersion"].(string)
	position := two.position(agentapi.PositionRequest{Version: version})
	if !position.Replica || position.LSN == 0 {
		t.Fatalf("%+v", position)
	}
	two.first.sql("CREATE TABLE public.written AS SELECT 1 AS a")
	if n := two.first.sql("SELECT count(*)::text FROM pg_stat_replication"); n != "0" {
		t.Errorf("%s replicas are connected", n)
	}
	if got := two.second.sql("SELECT (pg_last_wal_receive_lsn() - '0/0')::text"); got == "" {
		t.Error("the replica has no position")
	}
	if later := two.position(agentapi.PositionRequest{Version: version}); later.LSN != position.LSN {
		t.Errorf("it was at %d, and is at %d", position.LSN, later.LSN)
	}
	two.lease.mu.Unlock()
	two.awaitStreaming() // once the lease was renewed
	two.second.await("have the table", func() bool {
		return two.second.sql("SELECT count(*)::text FROM pg_class WHERE relname = 'written'") == "1"
	})
}

// Who is asked how far it is may be the one that is to take over: each moment that it finds out later, clients wait.
func TestAReplicaThatSaysHowFarItIsKnowsThatItselfAtOnce(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	two, _ := newPair(t)
	two.run()
	for n := range 5 { // it looks by itself once a second
		two.first.sql(fmt.Sprintf("CREATE TABLE public.written_%d ()", n))
		want := two.first.sql("SELECT (pg_current_wal_flush_lsn() - '0/0')::text")
		two.second.await("receive it", func() bool {
			return two.second.sql("SELECT (pg_last_wal_receive_lsn() >= '0/0'::pg_lsn + "+want+")::text") == "true"
		})
		said := two.position(agentapi.PositionRequest{Ended: true})
		if knows := two.second.agent.Election().(*election).Position(); knows.LSN < said.LSN {
			t.Errorf("it says that it is at %d, and goes by %d", said.LSN, knows.LSN)
		}
	}
}

// The configuration is on the data volume, which may be full or fail for a moment. A server that nobody supervises any more would keep every
// other one from being started.
func TestAReplicaThatCantBeToldWhomToFollowIsStartedAgain(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	two, _ := newPair(t)
	two.run()
	two.first.awaitStatus("have a member", func(s agentapi.Status) bool { return s.Election != nil && len(s.Election.Members) > 0 })
	pid, obstacle := two.second.pid(), two.second.sql("SHOW config_file")+".new"
	if err := os.Mkdir(obstacle, 0o700); err != nil { // where the file is written that replaces the present one
		t.Fatal(err)
	}
	two.lease.mu.Lock()
	version := two.lease.object["metadata"].(map[string]any)["resourceVersion"].(string)
	_, err := two.Position(t.Context(), elect.Member{Name: "shop-1"}, agentapi.PositionRequest{Version: version})
	t.Logf("how far it is: %v", err)
	two.second.await("end the server that it can't configure", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
	two.lease.mu.Unlock()
	if err := os.Remove(obstacle); err != nil {
		t.Fatal(err)
	}
	two.awaitStreaming()
}
