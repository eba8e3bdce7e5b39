//go:build postgres

package supervise

import (
	"slices"
	"testing"

	"howdah.dev/howdah/pkg/agentapi"
)

// A replica may be cloned or restarted while parameters are being lowered, of which its primary still has more: PostgreSQL refuses to
// start it with less. It starts with as much, and says that a restart is wanted.
func TestAReplicaStartsWithAsMuchAsItsPrimaryHas(t *testing.T) {
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
