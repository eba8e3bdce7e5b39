//go:build postgres

package supervise

import (
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

// prefer tells both what people want.
func (c *pair) prefer(failover agentapi.Failover) {
	for _, p := range []*pod{c.first, c.second} {
		p.prefer(failover)
	}
}

func (p *pod) prefer(failover agentapi.Failover) {
	config := p.config
	config.Failover = &failover
	p.configure(config)
}

func fenced(s agentapi.Status) bool {
	return s.State == agentapi.StateStopped && strings.Contains(s.Message, "spec.failover.fenced names")
}

func TestAFencedPrimaryHandsOverAndStaysStopped(t *testing.T) {
	subset.OneIn(t, 3)
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	two, _ := newPair(t)
	two.run()
	two.first.awaitStatus("have a member", func(s agentapi.Status) bool { return len(s.Election.Members) == 1 })
	two.first.sql("CREATE TABLE public.t AS SELECT 1 AS n")
	two.prefer(agentapi.Failover{Fenced: []string{"shop-0"}})
	two.first.awaitStatus("stop", fenced)
	two.second.await("take over", two.second.public.ready)
	if got := two.second.sql("SELECT n::text FROM public.t"); got != "1" {
		t.Errorf("the next primary has %q", got)
	}
	if _, err := two.first.readPID(); err == nil {
		t.Error("PostgreSQL runs")
	}
	two.first.terminate(time.Minute)
	two.first.start()
	two.first.awaitStatus("stay stopped when its pod is made anew", fenced)
	if !two.first.agent.Alive() {
		t.Error("Kubernetes would restart it")
	}
	two.prefer(agentapi.Failover{})
	two.first.awaitStatus("follow", func(s agentapi.Status) bool { return s.Replication != nil && s.Replication.Streaming })
}

func TestAFencedReplicaIsStoppedInOrder(t *testing.T) {
	subset.OnlyInFull(t)
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	two, _ := newPair(t)
	two.run()
	two.prefer(agentapi.Failover{Fenced: []string{"shop-1"}})
	two.second.awaitStatus("stop", fenced)
	if !two.first.public.ready() {
		t.Error("clients don't come to the primary")
	}
	two.prefer(agentapi.Failover{})
	two.awaitStreaming()
}

func TestASingleInstanceThatIsFencedStopsAndComesBack(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	p := newPod(t)
	p.run()
	p.sql("CREATE TABLE public.t AS SELECT 1 AS n")
	p.prefer(agentapi.Failover{Fenced: []string{"shop-0"}})
	p.awaitStatus("stop", fenced)
	if strings.Contains(p.log.String(), "did not shut down cleanly") {
		t.Error("PostgreSQL was killed")
	}
	p.prefer(agentapi.Failover{})
	p.await("serve", func() bool { return p.agent.Ready(t.Context()) == nil && p.public.ready() })
	if got := p.sql("SELECT n::text FROM public.t"); got != "1" {
		t.Errorf("it has %q", got)
	}
}
