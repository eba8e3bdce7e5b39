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

// What kubectl howdah failover writes: this instance was primary last, on a timeline that nobody has, in a new term.
func TestAnInstanceThatNeverTakesOverDoesSoWhenAPersonDecides(t *testing.T) {
	subset.OneIn(t, 3)
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	two, _ := newPair(t)
	two.prefer(agentapi.Failover{Never: []string{"shop-1"}})
	two.run()
	two.first.awaitStatus("have a member", func(s agentapi.Status) bool { return len(s.Election.Members) == 1 })
	two.first.sql("CREATE TABLE public.t AS SELECT 1 AS n")
	two.first.terminate(time.Minute)
	two.second.awaitStatus("say why it doesn't take over", func(s agentapi.Status) bool {
		return strings.Contains(s.Election.Waiting, "never becomes primary automatically")
	})
	two.lease.mu.Lock()
	two.lease.object["metadata"].(map[string]any)["annotations"] = map[string]any{
		"howdah.dev/election": `{"generation":"g1","timeline":7,"lastHolder":"shop-1","members":[]}`,
	}
	merge(two.lease.object, map[string]any{"spec": map[string]any{"holderIdentity": nil, "leaseTransitions": 20}})
	two.lease.publish()
	two.lease.mu.Unlock()
	two.second.await("take over", two.second.public.ready)
	if got := two.second.sql("SELECT n::text FROM public.t"); got != "1" {
		t.Errorf("it has %q", got)
	}
	if got := two.second.sql("SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"); got != "00000007" {
		t.Errorf("it is on timeline %s", got)
	}
	two.first.start()
	two.first.awaitStatus("follow it", func(s agentapi.Status) bool { return s.Replication != nil && s.Replication.Streaming })
}
