//go:build postgres

package supervise

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

// killFirst kills the postmaster of the first of two, once the second may take over. Until the Lease says that it is a member
// again after a crash, the first one has nobody to give the lease to, and starts in place however often it crashes.
func (c *pair) killFirst() (pid int) {
	c.first.t.Helper()
	c.first.awaitStatus("have somebody who may take over", func(s agentapi.Status) bool {
		return s.Election != nil && slices.Contains(s.Election.Members, "shop-1")
	})
	pid = c.first.pid()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		c.first.t.Fatal(err)
	}
	return pid
}

func TestAPrimaryThatFellTwiceLeavesClientsToTheNextOne(t *testing.T) {
	subset.OnlyInFull(t)
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	two, _ := newPair(t)
	two.first.crash = time.Minute // a busy machine takes its time
	two.run()
	before := two.killFirst()
	two.first.await("come back in place", func() bool { return two.first.cameBack(before) && two.first.public.ready() })
	if two.second.public.ready() {
		t.Error("the second took over when the first fell once")
	}
	two.awaitStreaming()
	two.killFirst()
	two.second.await("take over", two.second.public.ready)
	two.first.awaitStatus("follow", func(s agentapi.Status) bool { return s.Replication != nil && s.Replication.Streaming })
	if two.first.public.ready() {
		t.Error("the former primary still has clients sent to it")
	}
	two.second.sql("CREATE TABLE public.later (n int)")
	two.first.await("have what was written since", func() bool { return two.first.sql("SELECT to_regclass('public.later') IS NOT NULL || ''") == "true" })
	if !two.second.public.ready() || two.first.public.ready() {
		t.Error("clients are not sent to the new primary alone")
	}
}
