//go:build postgres

package supervise

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
)

func finds(checks *agentapi.Checks, reason string) bool {
	return checks != nil && slices.ContainsFunc(checks.Found, func(f agentapi.LoadFinding) bool { return f.Reason == reason })
}

func TestAnInstanceChecksItselfDeeply(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	two, _ := newPair(t)
	var away atomic.Bool
	service := func(agentapi.Config) *settings.Upstream {
		to := &settings.Upstream{Pod: "shop-rw", Host: "localhost", Address: "localhost", Port: two.first.Port}
		if away.Load() {
			to.Port = pgtest.Port(t)
		}
		return to
	}
	for _, p := range []*pod{two.first, two.second} {
		p.service, p.checks = service, 50*time.Millisecond
	}
	two.run()
	done := func(s agentapi.Status, name string) bool {
		return s.Checks != nil && !s.Checks.Done[name].Time.IsZero() && !s.Checks.Done[name].Failed
	}
	two.second.awaitStatus("commit through the Service", func(s agentapi.Status) bool {
		return done(s, agentapi.CheckService) && done(s, agentapi.CheckDNS) && done(s, agentapi.CheckChecksums)
	})
	two.first.awaitStatus("end a round", func(s agentapi.Status) bool {
		return done(s, agentapi.CheckIndexes) && !s.Checks.RoundEnded.IsZero() && !finds(s.Checks, agentapi.FindingIndexDamaged) && !s.Checks.Damaged
	})
	away.Store(true)
	two.second.awaitStatus("miss the Service", func(s agentapi.Status) bool { return finds(s.Checks, agentapi.FindingServiceUnreachable) })
	away.Store(false)
	// A comparison that changes its mind is what a damaged index looks like. On a replica amcheck must be there already.
	two.first.sql(`CREATE FUNCTION public.compare(a int, b int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT pg_catalog.btint4cmp(a, b)'`)
	two.first.sql(`CREATE OPERATOR CLASS public.fickle FOR TYPE int USING btree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 public.compare(int, int)`)
	two.first.sql(`CREATE TABLE public.t AS SELECT generate_series(1, 1000) AS n`)
	two.first.sql(`CREATE INDEX t_n ON public.t (n public.fickle)`)
	two.first.sql(`CREATE EXTENSION amcheck`)
	two.first.sql(`CREATE OR REPLACE FUNCTION public.compare(a int, b int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT - pg_catalog.btint4cmp(a, b)'`)
	two.second.awaitStatus("find the damage", func(s agentapi.Status) bool {
		return finds(s.Checks, agentapi.FindingReplicaDamaged) && s.Checks.Damaged && !finds(s.Checks, agentapi.FindingServiceUnreachable)
	})
	two.first.awaitStatus("find it, too", func(s agentapi.Status) bool { return finds(s.Checks, agentapi.FindingIndexDamaged) })
	config := two.first.config
	config.FailoverDrill = "uid"
	two.first.configure(config)
	two.first.await("leave the checks", func() bool {
		before := two.first.agent.Status().Checks.Done[agentapi.CheckIndexes].Time
		return time.Since(before) > 2*time.Second
	})
}
