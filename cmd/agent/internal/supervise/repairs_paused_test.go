//go:build postgres

package supervise

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

// pauseRepairs tells both that repairs are paused for an hour, or no more.
func (c *pair) pauseRepairs(paused bool, failover *agentapi.Failover) {
	for _, p := range []*pod{c.first, c.second} {
		config := p.config
		config.Repair, config.Failover = nil, failover
		if paused {
			now := time.Now().Truncate(time.Second)
			config.Repair = &agentapi.Repair{PausedFrom: now.Add(-time.Minute), PausedUntil: now.Add(time.Hour)}
		}
		p.configure(config)
		hash := config.Hash()
		p.awaitStatus("take in the configuration", func(s agentapi.Status) bool {
			return s.ConfigHash == hash || s.State != agentapi.StateRunning
		})
	}
}

// killForGood kills the postmaster, and waits until the agent says that it stays so.
func (p *pod) killForGood() {
	p.t.Helper()
	if err := syscall.Kill(p.pid(), syscall.SIGKILL); err != nil {
		p.t.Fatal(err)
	}
	p.awaitStatus("hold back the start", func(s agentapi.Status) bool {
		return s.State == agentapi.StateStopped && s.HeldBack != "" && strings.Contains(s.Message, "as repairs are paused")
	})
}

func TestAReplicaThatEndedIsNotStartedAgainWhileRepairsArePaused(t *testing.T) {
	subset.OnlyInFull(t)
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	two, _ := newPair(t)
	two.run()
	two.pauseRepairs(true, nil)
	two.second.killForGood()
	two.second.reinit("a")
	before := two.second.current()
	time.Sleep(3 * time.Second) // several turns of the loop
	if _, err := two.second.readPID(); err == nil && two.second.agent.Ready(t.Context()) == nil || two.second.current() != before {
		t.Error("PostgreSQL was started, or cloned")
	}
	if !two.second.agent.Alive() || !two.first.public.ready() {
		t.Error("Kubernetes would restart it, or clients are led away from the primary")
	}
	two.pauseRepairs(false, nil)
	two.awaitStreaming()
	two.second.awaitReinit("a", agentapi.ReinitDone)
	two.second.awaitStatus("hold back nothing", func(s agentapi.Status) bool { return s.HeldBack == "" })
}

func TestAPrimaryThatEndedWhileRepairsArePausedIsReplacedAndNotRewound(t *testing.T) {
	subset.OneIn(t, 3)
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	two, _ := newPair(t)
	two.run()
	two.first.awaitStatus("have a member", func(s agentapi.Status) bool { return len(s.Election.Members) == 1 })
	two.pauseRepairs(true, nil)
	two.first.killForGood()
	two.second.await("take over", two.second.public.ready)
	two.second.sql("CREATE TABLE public.later (n int)")
	two.first.awaitStatus("hold back what makes it follow", func(s agentapi.Status) bool {
		return s.State == agentapi.StateStopped && s.HeldBack != "" && s.Election.Leader == "shop-1"
	})
	if two.first.public.ready() {
		t.Error("clients are led to the former primary")
	}
	two.pauseRepairs(false, nil)
	two.first.awaitStatus("follow", func(s agentapi.Status) bool { return s.Replication != nil && s.Replication.Streaming })
	two.first.await("have what was written since", func() bool { return two.first.sql("SELECT to_regclass('public.later') IS NOT NULL || ''") == "true" })
}

func TestAPrimaryKeepsTheLeaseWhileRepairsAndFailoverArePaused(t *testing.T) {
	subset.OnlyInFull(t)
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	two, _ := newPair(t)
	two.run()
	two.first.awaitStatus("have a member", func(s agentapi.Status) bool { return len(s.Election.Members) == 1 })
	noFailover := &agentapi.Failover{PausedUntil: time.Now().Add(time.Hour).Truncate(time.Second)}
	two.pauseRepairs(true, noFailover)
	two.first.killForGood()
	time.Sleep(5 * time.Second) // somebody would have taken over by then
	if status := two.second.agent.Status(); status.Role == rolePrimary || status.Election.Leader != "shop-0" {
		t.Errorf("the second one: %+v", status.Election)
	}
	two.pauseRepairs(false, noFailover)
	two.first.await("serve again", func() bool { return two.first.agent.Ready(t.Context()) == nil && two.first.public.ready() })
	two.awaitStreaming()
}
