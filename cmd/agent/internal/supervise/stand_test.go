//go:build postgres

package supervise

import (
	"strconv"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

// A former primary has every commit where the one after it could acknowledge none without it.
func TestAFormerPrimaryTakesOverWhenItsSuccessorIsLostForGood(t *testing.T) {
	subset.OneIn(t, 3)
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	two, _ := newPair(t)
	config := two.first.config
	config.Synchronous = &agentapi.Synchronous{Number: 1, Required: true}
	two.first.configure(config)
	two.first.run()
	two.first.awaitStatus("have the lease", func(s agentapi.Status) bool { return s.Election != nil && s.Election.Leader == "shop-0" })
	if err := two.first.terminate(60 * time.Second); err != nil {
		t.Fatal(err)
	}
	err := two.lease.Merge(t.Context(), "", "", map[string]any{
		"metadata": map[string]any{"resourceVersion": strconv.Itoa(two.lease.version), "annotations": map[string]any{"howdah.dev/election": `{"generation":"g1","timeline":2,
			"holderUID":"lost","address":"127.0.0.1","lastHolder":"shop-1","members":[{"name":"shop-0","address":"127.0.0.1"}],"quorum":1}`}},
		"spec": map[string]any{"holderIdentity": "shop-1", "leaseTransitions": 5},
	}, &map[string]any{})
	if err != nil {
		t.Fatal(err)
	}
	two.first.start()
	two.first.awaitStatus("be the primary", func(s agentapi.Status) bool { return s.Role == rolePrimary })
	if timeline := two.first.sql("SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"); timeline != "00000003" {
		t.Errorf("it is on timeline %s", timeline)
	}
}
