//go:build postgres

package supervise

import (
	"testing"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
)

func TestAReplicaSaysHowManySessionsItsClientsHave(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	two, _ := newPair(t)
	two.run()
	two.second.awaitStatus("count its sessions", func(s agentapi.Status) bool {
		return s.Role == roleReplica && s.Sessions != nil && s.Sessions.Seconds > 0 && s.Sessions.Percent >= 0 && s.Sessions.Percent < 50
	})
	if sessions := two.first.agent.Status().Sessions; sessions != nil {
		t.Errorf("a primary counts, too: %+v", sessions)
	}
	if got := *sessionsOf([]float64{10, 20, 60}); got != (agentapi.Sessions{Seconds: 90, Percent: 30}) {
		t.Errorf("%+v", got)
	}
}
