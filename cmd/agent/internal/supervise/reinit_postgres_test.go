//go:build postgres

package supervise

import (
	"os"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

// awaitReinit waits until a requested clone has come to this state.
func (p *pod) awaitReinit(token, state string) agentapi.ReinitStatus {
	p.t.Helper()
	return *p.awaitStatus("say that the clone is "+state, func(s agentapi.Status) bool {
		return s.Reinit != nil && s.Reinit.Token == token && s.Reinit.State == state
	}).Reinit
}

func (p *pod) reinit(token string) agentapi.ReinitStatus {
	p.t.Helper()
	status, err := p.agent.Reinit(agentapi.ReinitRequest{Token: token})
	if err != nil {
		p.t.Fatal(err)
	}
	return status
}

func TestAReplicaIsClonedAgainOnRequestOnceForEachToken(t *testing.T) {
	subset.OnlyInFull(t)
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	two, _ := newPair(t)
	two.run()
	two.first.sql("CREATE TABLE public.t AS SELECT generate_series(1, 1000) AS n")
	before := two.second.current()
	if got := two.second.reinit("a"); got.State != agentapi.ReinitRunning {
		t.Fatalf("%+v", got)
	}
	two.second.awaitReinit("a", agentapi.ReinitDone)
	after := two.second.current()
	if after == before || !two.second.Volume.Whole("g1") {
		t.Errorf("it runs on %s, after %s", after, before)
	}
	if _, err := os.Stat(two.second.Volume.PGData(before)); err != nil {
		t.Errorf("the copy that was replaced: %v", err)
	}
	two.awaitStreaming()
	two.second.await("have what was written", func() bool { return two.second.sql("SELECT count(*)::text FROM public.t") == "1000" })
	two.second.reinit("a")
	two.second.terminate(time.Minute)
	two.second.start()
	two.awaitStreaming()
	if got := two.second.reinit("a"); got.State != agentapi.ReinitDone || two.second.current() != after {
		t.Errorf("the token was carried out again: %+v, on %s", got, two.second.current())
	}
	two.second.reinit("b")
	two.second.awaitReinit("b", agentapi.ReinitDone)
	if now := two.second.current(); now == after {
		t.Errorf("another token was not carried out: it runs on %s", now)
	}
}

func TestARequestedCloneGoesOnAfterTheAgentWasEnded(t *testing.T) {
	subset.OneIn(t, 3)
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	two, _ := newPair(t)
	two.run()
	before := two.second.current()
	two.second.reinit("a")
	two.second.terminate(time.Minute)
	two.second.start()
	two.second.awaitReinit("a", agentapi.ReinitDone)
	if two.second.current() == before {
		t.Error("it runs on the copy that it had")
	}
}

func TestAPrimaryIsNotClonedOnRequest(t *testing.T) {
	subset.OnlyInFull(t)
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	two, _ := newPair(t)
	two.run()
	if got := two.first.reinit("a"); got.State != agentapi.ReinitRefused || two.first.current() != "g1" {
		t.Errorf("%+v", got)
	}
	if !two.first.public.ready() {
		t.Error("clients are led away")
	}
}
