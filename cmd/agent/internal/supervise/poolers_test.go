//go:build postgres

package supervise

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

// answers to a pooler that asks again and again, until one is as it should be.
func (p *pod) answers(request agentapi.PoolerRequest, what string, right func(agentapi.PoolerAnswer) bool) agentapi.PoolerAnswer {
	p.t.Helper()
	deadline := time.Now().Add(4 * time.Minute)
	for {
		answer := p.agent.Respond(p.t.Context(), request)
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
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	two, _ := newPair(t)
	two.run()
	pooler := agentapi.PoolerRequest{Pooler: "pool-1"}
	before := two.first.answers(pooler, "it serves", serving)
	if answer := two.second.agent.Respond(t.Context(), agentapi.PoolerRequest{}); answer.Serving {
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
	go two.first.agent.Respond(t.Context(), pooler)
	two.first.sql("SELECT 1") // a transaction that was open may still end
	pooler.Paused = told.Handover
	two.first.answers(pooler, "it serves nobody any more", func(a agentapi.PoolerAnswer) bool { return !a.Serving })
	after := two.second.answers(agentapi.PoolerRequest{Pooler: "pool-1"}, "it serves", serving)
	if after.Term <= before.Term || after.DataGeneration != before.DataGeneration {
		t.Errorf("term %d of %s, before %d of %s", after.Term, after.DataGeneration, before.Term, before.DataGeneration)
	}
}

func TestPoolersPauseBeforeAPrimaryEndsThatHasNoReplica(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	two, _ := newPair(t)
	two.first.run()
	pooler := agentapi.PoolerRequest{Pooler: "pool-1"}
	before := two.first.answers(pooler, "it serves", serving)
	ended := make(chan error, 1)
	go func() { ended <- two.first.terminate(time.Minute) }()
	pooler.Known = before.Version
	told := two.first.answers(pooler, "it ends", func(a agentapi.PoolerAnswer) bool { return a.Handover != "" || !a.Serving })
	if !told.Serving {
		t.Errorf("nobody may come here any more, before transactions have ended: %+v", told)
	}
	pooler.Known, pooler.Pausing = told.Version, told.Handover
	go two.first.agent.Respond(t.Context(), pooler)
	two.first.sql("SELECT 1") // a transaction that was open may still end
	pooler.Paused = told.Handover
	two.first.answers(pooler, "it serves nobody any more", func(a agentapi.PoolerAnswer) bool { return !a.Serving })
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestReadersAreSentElsewhereBeforeAReplicaRestarts(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	two, _ := newPair(t)
	two.run()
	two.first.sql("CREATE ROLE late LOGIN PASSWORD 'secret'")
	two.second.awaitSQL("SELECT count(*)::text FROM pg_roles WHERE rolname = 'late'", "1")
	reader := agentapi.PoolerRequest{Pooler: "pool-1", ReadOnly: true, MaxLagBytes: 1 << 30}
	has := func(n int) func(agentapi.PoolerAnswer) bool {
		return func(a agentapi.PoolerAnswer) bool { return serving(a) && !a.ReplicasUnknown && len(a.Replicas) == n }
	}
	reader.Known = two.first.answers(reader, "it has a replica", has(1)).Version
	conn, err := two.second.connect("late", "secret", "postgres", agentapi.PoolerRole)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Fatal(err)
	}
	two.second.configure(two.second.with(map[string]string{"max_connections": "121"}))
	two.second.awaitStatus("apply it", func(s agentapi.Status) bool { return s.ConfigHash == two.second.config.Hash() })
	if begun, err := two.second.agent.Restart(t.Context(), agentapi.RestartRequest{ConfigHash: two.second.config.Hash()}); !begun || err != nil {
		t.Fatal(begun, err)
	}
	reader.Known = two.first.answers(reader, "nobody may go to the replica", has(0)).Version
	if _, err := tx.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Errorf("a transaction of a reader was ended: %v", err)
	}
	if err := errors.Join(tx.Commit(t.Context()), conn.Close(t.Context())); err != nil {
		t.Error(err)
	}
	two.first.answers(reader, "it has a replica again", has(1))
}

func TestPoolersPauseWhileAnInstanceRestartsForAParameter(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	p := newPod(t)
	p.run()
	pooler := agentapi.PoolerRequest{Pooler: "pool-1"}
	before := p.answers(pooler, "it serves", serving)
	p.configure(p.with(map[string]string{"max_connections": "21"}))
	p.awaitStatus("apply it", func(s agentapi.Status) bool { return s.ConfigHash == p.config.Hash() })
	if begun, err := p.agent.Restart(t.Context(), agentapi.RestartRequest{ConfigHash: p.config.Hash()}); !begun || err != nil {
		t.Fatal(begun, err)
	}
	pooler.Known = before.Version
	told := p.answers(pooler, "it hands over", func(a agentapi.PoolerAnswer) bool { return a.Handover != "" })
	pooler.Known, pooler.Pausing, pooler.Paused = told.Version, told.Handover, told.Handover
	p.answers(pooler, "it serves again", serving)
}

func TestASwitchoverIsTakenBackWhereAPoolerAsksForThatAndItsTransactionsDontEnd(t *testing.T) {
	subset.OnlyInFull(t)
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	two, _ := newPair(t)
	two.run()
	pooler := agentapi.PoolerRequest{Pooler: "pool-1", TakeBack: true}
	before := two.first.answers(pooler, "it serves", serving)
	two.first.awaitStatus("have a member", func(s agentapi.Status) bool { return s.Election != nil && len(s.Election.Members) == 1 })
	two.first.sql("CREATE ROLE late LOGIN PASSWORD 'secret'")
	conn, err := two.first.connect("late", "secret", "postgres", agentapi.PoolerRole)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT 'private'"); err != nil {
		t.Fatal(err)
	}
	if got := two.first.agent.Election().Switchover(agentapi.SwitchoverRequest{Token: "t"}); got.State != agentapi.SwitchoverRunning {
		t.Fatalf("%+v", got)
	}
	pooler.Known = before.Version
	told := two.first.answers(pooler, "it hands over", func(a agentapi.PoolerAnswer) bool { return a.Handover != "" })
	pooler.Known, pooler.Pausing = told.Version, told.Handover
	after := two.first.answers(pooler, "the handover is over", serving)
	if after.Term != before.Term {
		t.Errorf("term %d, before %d", after.Term, before.Term)
	}
	var ended agentapi.SwitchoverStatus
	two.first.awaitStatus("refuse the switchover", func(s agentapi.Status) bool {
		if s.Election == nil || s.Election.Switchover == nil {
			return false
		}
		ended = *s.Election.Switchover
		return ended.State == agentapi.SwitchoverRefused
	})
	if want := fmt.Sprintf("transactions of pool-1 didn't end within 5s, and its Pooler says spec.handover.onTimeout: TakeBack: pid %d of late in postgres, open for ", conn.PgConn().PID()); !strings.HasPrefix(ended.Message, want) || strings.Contains(ended.Message, "private") {
		t.Errorf("%q, and not %q", ended.Message, want)
	}
	if _, err := tx.Exec(t.Context(), "CREATE TEMP TABLE t ()"); err != nil {
		t.Errorf("the transaction can't continue: %v", err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Error(err)
	}
	// The next try succeeds.
	if got := two.first.agent.Election().Switchover(agentapi.SwitchoverRequest{Token: "u"}); got.State != agentapi.SwitchoverRunning {
		t.Fatalf("%+v", got)
	}
	pooler.Pausing, pooler.Known = "", after.Version
	told = two.first.answers(pooler, "it hands over again", func(a agentapi.PoolerAnswer) bool { return a.Handover != "" })
	pooler.Known, pooler.Pausing, pooler.Paused = told.Version, told.Handover, told.Handover
	two.first.answers(pooler, "it serves nobody any more", func(a agentapi.PoolerAnswer) bool { return !a.Serving })
	two.second.answers(agentapi.PoolerRequest{Pooler: "pool-1"}, "it serves", serving)
}
