//go:build postgres

package supervise

import (
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

const slotsOfReplicas = "SELECT count(*)::text FROM pg_replication_slots WHERE slot_type = 'physical'"

// A delayed replica has the WAL and not yet what it says. Nobody counts on it, and nothing is kept for it.
func TestADelayedReplicaReplaysLateAndNeverLeads(t *testing.T) {
	subset.OneIn(t, 3)
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	two, _ := newPair(t)
	two.run()
	two.first.awaitStatus("have a member", func(s agentapi.Status) bool { return s.Election != nil && len(s.Election.Members) == 1 })
	two.first.sql("CREATE TABLE public.orders (id int)")
	two.delay(map[string]int64{"shop-1": 3600})
	two.second.await("replay late", func() bool {
		return two.second.sql("SHOW recovery_min_apply_delay") == "1h" && two.second.public.delayed()
	})
	two.first.awaitStatus("have no member", func(s agentapi.Status) bool { return s.Election != nil && len(s.Election.Members) == 0 })

	two.first.sql("INSERT INTO public.orders VALUES (1)")
	two.second.awaitStatus("receive the row", func(s agentapi.Status) bool {
		return s.Replication.ReceivedLSN >= two.first.sql("SELECT pg_current_wal_flush_lsn()::text")
	})
	if rows := two.second.sql("SELECT count(*)::text FROM public.orders"); rows != "0" {
		t.Errorf("it has replayed %s rows", rows)
	}
	if s := two.second.agent.Status().Replication; s.LagBytes != 0 || s.LagSeconds != 0 || s.DelaySeconds != 3600 {
		t.Errorf("its lag: %+v", s)
	}

	if err := two.second.terminate(30 * time.Second); err != nil { // which doesn't wait for the replay
		t.Fatal(err)
	}
	two.first.awaitFor(40*time.Second, "keep nothing for it", func() bool { return two.first.sql(slotsOfReplicas) == "0" })
	two.second.start()
	two.second.await("come back", func() bool { return two.second.agent.Ready(t.Context()) == nil })
	two.second.await("wait with what it has", func() bool {
		return two.second.sql("SELECT count(*)::text FROM pg_stat_activity WHERE wait_event = 'RecoveryApplyDelay'") == "1"
	})
	if rows := two.second.sql("SELECT count(*)::text FROM public.orders"); rows != "0" {
		t.Errorf("it has replayed %s rows when it started again", rows)
	}

	if err := two.first.terminate(60 * time.Second); err != nil {
		t.Fatal(err)
	}
	status := two.second.awaitStatus("leave it to the last primary", func(s agentapi.Status) bool {
		return s.Election != nil && s.Election.Leader == "" && s.Election.Waiting != ""
	})
	if want := "shop-1 is a delayed replica and doesn't become primary: remove it from spec.delayedReplicas if it has to."; status.Election.Waiting != want {
		t.Errorf("%q", status.Election.Waiting)
	}
	two.first.run()
	two.delay(nil)
	two.second.await("have everything", func() bool {
		return two.second.sql("SELECT count(*)::text FROM public.orders") == "1" && !two.second.public.delayed()
	})
	two.first.awaitStatus("have a member again", func(s agentapi.Status) bool { return s.Election != nil && len(s.Election.Members) == 1 })
}

// A copy of a delayed replica is level with its primary, and follows at once until it is: without a slot, as there is none for it.
func TestADelayedReplicaIsLateAgainAfterItWasCloned(t *testing.T) {
	subset.OnlyInFull(t)
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	two, _ := newPair(t)
	two.run()
	two.delay(map[string]int64{"shop-1": 3600})
	isLate := func() bool {
		return two.second.sql("SHOW recovery_min_apply_delay") == "1h" && two.second.public.delayed()
	}
	two.second.await("replay late", isLate)
	two.first.await("keep nothing for it", func() bool { // as it does by itself after a while
		return two.first.sql("SELECT count(*)::text FROM (SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active) AS dropped") == "0" && two.first.sql(slotsOfReplicas) == "0"
	})
	two.second.reinit("a")
	two.second.awaitReinit("a", agentapi.ReinitDone)
	two.second.awaitStatus("say that it replays late", func(s agentapi.Status) bool { return s.Replication != nil && s.Replication.DelaySeconds == 3600 })
	if delay := two.second.sql("SHOW recovery_min_apply_delay"); delay != "1h" {
		t.Errorf("it says that it replays late, and its delay is %s", delay)
	}
	two.second.await("replay late after the clone", isLate)
	two.first.sql("CREATE TABLE public.later (id int)")
	two.second.await("wait with what it receives", func() bool {
		return two.second.sql("SELECT count(*)::text FROM pg_stat_activity WHERE wait_event = 'RecoveryApplyDelay'") == "1"
	})
}

// delay has replicas replay late.
func (c *pair) delay(seconds map[string]int64) {
	c.first.t.Helper()
	for _, p := range []*pod{c.first, c.second} {
		config := p.config
		config.DelaySeconds = seconds
		p.configure(config)
	}
}
