//go:build postgres

package supervise

import (
	"slices"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

func TestAPrimaryThatEndsAfterAllItsReplicasTellsClientsSo(t *testing.T) {
	subset.OnlyInFull(t)
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	two, _ := newPair(t)
	two.run()
	if err := two.second.terminate(time.Minute); err != nil {
		t.Fatal(err)
	}
	two.first.await("see the replica go", func() bool { return two.first.sql("SELECT count(*)::text FROM pg_stat_replication") == "0" })
	if err := two.first.terminate(time.Minute); err != nil {
		t.Fatal(err)
	}
	if all := two.first.public.all(); !slices.Equal(all, []bool{true, false}) {
		t.Errorf("clients were told %v", all)
	}
	if holder := two.lease.holder(); holder != nil && holder != "" {
		t.Errorf("%v has the lease", holder)
	}
}

func (l *leaseServer) holder() any {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.object["spec"].(map[string]any)["holderIdentity"]
}

func TestAPrimaryThatEndsBeforeItsReplicasLeavesClientsToTheNextOne(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	two, _ := newPair(t)
	two.run()
	two.first.awaitStatus("let the replica take over", func(s agentapi.Status) bool { return slices.Contains(s.Election.Members, "shop-1") })
	if err := two.first.terminate(time.Minute); err != nil {
		t.Fatal(err)
	}
	two.second.await("take over", two.second.public.ready)
	if all := two.first.public.all(); slices.Contains(all, false) {
		t.Errorf("clients were told %v by the former primary", all)
	}
}
