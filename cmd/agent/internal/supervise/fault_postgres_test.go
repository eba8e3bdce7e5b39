//go:build postgres

package supervise

import (
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

func (p *pod) fault(token, fault string) agentapi.FaultStatus {
	p.t.Helper()
	status, err := p.agent.Fault(p.t.Context(), agentapi.FaultRequest{Token: token, Fault: fault})
	if err != nil {
		p.t.Fatal(err)
	}
	return status
}

func (p *pod) awaitFault(token string) {
	p.t.Helper()
	p.awaitStatus("say that the fault is over", func(s agentapi.Status) bool {
		return s.Fault != nil && s.Fault.Token == token && s.Fault.State == agentapi.FaultDone
	})
}

func TestAPostmasterIsKilledOrFrozenOnceForEachDrillAndComesBack(t *testing.T) {
	subset.OnlyInFull(t)
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	two, _ := newPair(t)
	two.first.crash = time.Minute // a busy machine takes its time
	two.run()
	two.first.await("hear of the clock of its replica, which is its own", func() bool {
		s := two.first.look()
		return s.ClockInstance == "shop-1" && s.ClockAhead.Abs() < 5*time.Second
	})
	if got := two.second.fault("r", agentapi.FaultKill); got.State != agentapi.FaultRefused {
		t.Errorf("a replica: %+v", got)
	}
	if got := two.first.fault("x", "EatPostmaster"); got.State != agentapi.FaultRefused {
		t.Errorf("a fault that nobody knows: %+v", got)
	}
	before := two.first.pid()
	two.first.fault("a", agentapi.FaultKill)
	two.first.awaitFault("a")
	two.first.await("come back in place", func() bool { return two.first.cameBack(before) && two.first.public.ready() })

	after := two.first.pid()
	if got := two.first.fault("a", agentapi.FaultKill); got.State != agentapi.FaultDone || two.first.pid() != after {
		t.Errorf("it was killed twice: %+v", got)
	}
	two.awaitStreaming()
	two.first.fault("b", agentapi.FaultFreeze)
	two.first.awaitFault("b") // the agent has noticed
	served := func() bool { return two.first.public.ready() && two.first.cameBack(after) || two.second.public.ready() }
	two.first.await("come back, or be replaced", served)
}
