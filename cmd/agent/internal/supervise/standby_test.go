//go:build postgres

package supervise

import (
	"slices"
	"testing"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/subset"
)

// A replica may be cloned or restarted while parameters are being lowered, of which its primary still has more: PostgreSQL refuses to
// start it with less. It starts with as much, and says that a restart is wanted.
func TestAReplicaStartsWithAsMuchAsItsPrimaryHas(t *testing.T) {
	subset.OneIn(t, 3)
	t.Parallel()
	two, _ := newPair(t)
	two.second.configure(two.second.with(map[string]string{"max_connections": "30", "max_prepared_transactions": "3"}))
	two.first.configure(two.first.with(map[string]string{"max_connections": "50"}))
	two.run()
	status := two.second.awaitStatus("say what a restart would change", func(s agentapi.Status) bool { return len(s.PendingRestart) > 0 })
	if !slices.Equal(status.PendingRestart, []string{"max_connections"}) {
		t.Errorf("%v waits for a restart", status.PendingRestart)
	}
	for name, want := range map[string]string{"max_connections": "50", "max_prepared_transactions": "3"} {
		if got := two.second.sql("SHOW " + name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

// TestAReplicaThatHasPausedForWantOfAParameterIsRestartedWithAsMuch: the WAL is that of a server which nobody has configured, as after an
// upgrade that has failed, when pg_upgrade has started one with more locks on the data. Such a replica can't be promoted.
func TestAReplicaThatHasPausedForWantOfAParameterIsRestartedWithAsMuch(t *testing.T) {
	subset.OnlyInFull(t)
	t.Parallel()
	two, _ := newPair(t)
	two.run()
	pid, replica := two.first.pid(), two.second.pid()
	two.first.configure(two.first.with(map[string]string{"max_locks_per_transaction": "76"}))
	two.first.awaitStatus("apply it", func(s agentapi.Status) bool { return s.ConfigHash == two.first.config.Hash() })
	if _, err := two.first.agent.Restart(t.Context(), agentapi.RestartRequest{ConfigHash: two.first.config.Hash()}); err != nil {
		t.Fatal(err)
	}
	two.first.await("come back", func() bool { return two.first.cameBack(pid) && two.first.public.ready() })
	two.first.sql("CREATE TABLE public.after AS SELECT 1 AS n")
	two.second.await("be restarted", func() bool { return two.second.cameBack(replica) })
	two.second.await("replay what came then", func() bool { return two.second.sql("SELECT (to_regclass('public.after') IS NOT NULL)::text") == "true" })
	if got := two.second.sql("SHOW max_locks_per_transaction"); got != "76" {
		t.Errorf("it has %s locks", got)
	}
}
