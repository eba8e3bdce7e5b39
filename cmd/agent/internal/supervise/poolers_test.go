//go:build postgres

package supervise

import (
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// answers to a pooler that asks again and again, until one is as it should be.
func (p *pod) answers(request agentapi.PoolerRequest, what string, right func(agentapi.PoolerAnswer) bool) agentapi.PoolerAnswer {
	p.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		answer := p.agent.Attend(p.t.Context(), request)
		if right(answer) {
			return answer
		}
		if request.Known = answer.Version; time.Now().After(deadline) {
			p.t.Fatalf("the agent does not say that %s: %+v", what, answer)
		}
	}
}

func serving(a agentapi.PoolerAnswer) bool { return a.Serving && a.Handover == "" }

func TestPoolersPauseBeforeAPrimaryHandsOverAndGoOnAtTheNextOne(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	two, _ := newPair(t)
	two.run()
	pooler := agentapi.PoolerRequest{Pooler: "pool-1"}
	before := two.first.answers(pooler, "it serves", serving)
	if answer := two.second.agent.Attend(t.Context(), agentapi.PoolerRequest{}); answer.Serving {
		t.Errorf("a replica serves: %+v", answer)
	}
	two.first.awaitStatus("have a member", func(s agentapi.Status) bool { return s.Election != nil && len(s.Election.Members) == 1 })
	if got := two.first.agent.Election().Switchover(agentapi.SwitchoverRequest{Token: "t"}); got.State != agentapi.SwitchoverRunning {
		t.Fatalf("%+v", got)
	}
	pooler.Known = before.Version
	told := two.first.answers(pooler, "it hands over", func(a agentapi.PoolerAnswer) bool { return a.Handover != "" })
	if !told.Serving || told.HandoverSeconds <= 0 {
		t.Errorf("%+v", told)
	}
	pooler.Known, pooler.Pausing = told.Version, told.Handover
	go two.first.agent.Attend(t.Context(), pooler)
	two.first.sql("SELECT 1") // a transaction that was open may still end
	pooler.Paused = told.Handover
	two.first.answers(pooler, "it serves nobody any more", func(a agentapi.PoolerAnswer) bool { return !a.Serving })
	after := two.second.answers(agentapi.PoolerRequest{Pooler: "pool-1"}, "it serves", serving)
	if after.Term <= before.Term || after.DataGeneration != before.DataGeneration {
		t.Errorf("term %d of %s, before %d of %s", after.Term, after.DataGeneration, before.Term, before.DataGeneration)
	}
}

func TestPoolersPauseWhileAnInstanceRestartsForAParameter(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	p := newPod(t)
	p.run()
	pooler := agentapi.PoolerRequest{Pooler: "pool-1"}
	before := p.answers(pooler, "it serves", serving)
	p.configure(p.with(map[string]string{"max_connections": "21"}))
	p.awaitStatus("wait for a restart", func(s agentapi.Status) bool { return len(s.PendingRestart) > 0 })
	if begun, err := p.agent.Restart(t.Context(), agentapi.RestartRequest{ConfigHash: p.config.Hash()}); !begun || err != nil {
		t.Fatal(begun, err)
	}
	pooler.Known = before.Version
	told := p.answers(pooler, "it hands over", func(a agentapi.PoolerAnswer) bool { return a.Handover != "" })
	pooler.Known, pooler.Pausing, pooler.Paused = told.Version, told.Handover, told.Handover
	p.answers(pooler, "it serves again", serving)
}
