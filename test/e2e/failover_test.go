//go:build e2e

package e2e

import (
	"testing"
	"time"

	"howdah.dev/howdah/test/chaos"
	"howdah.dev/howdah/test/testkit/subset"
)

// slow is when writes stand still for so long that something is wrong, on however busy a machine. What is reached on one
// that is not is measured by `make chaos`.
const slow = 45.0

// stopped is the same for a cluster all of whose pods are stopped and started.
const stopped = 180.0

// tryFaults tries some of the faults of the chaos suite, once each, on one cluster. Tests that break nodes are not parallel.
func tryFaults(t *testing.T, limit float64, replication chaos.Replication, names ...string) {
	t.Helper()
	faults, err := chaos.Find(names...)
	if err != nil {
		t.Fatal(err)
	}
	subject := chaos.New(t, chaos.Options{Replication: replication, Version: 17})
	for _, fault := range faults {
		t.Run(fault.Name, func(t *testing.T) {
			if came := subject.Try(t, fault, 1); max(came.GapSeconds, came.NewConnectionGap) > limit {
				t.Errorf("writes stood still for %s", time.Duration(max(came.GapSeconds, came.NewConnectionGap)*float64(time.Second)))
			}
		})
	}
}

func TestAnotherInstanceTakesOverOrTheSameComesBackWithinSeconds(t *testing.T) {
	t.Parallel()
	tryFaults(t, slow, chaos.Async, "switchover", "kill-postmaster", "graceful-delete")
}

func TestNothingAcknowledgedIsLostWhenTheNodeOfASynchronousPrimaryDiesOrIsCutOff(t *testing.T) {
	subset.OneIn(t, 2)
	tryFaults(t, slow, chaos.Sync, "node-kill", "partition")
}

// The seed is another each day, and printed where the test fails; make chaos-random SEED=... repeats it.
func TestNothingAcknowledgedIsLostInARandomEpisode(t *testing.T) {
	subset.OneIn(t, 2)
	episodes := chaos.Episodes{Seed: uint64(time.Now().Unix() / 86400), Faults: 15 * time.Second, Without: []string{"node-kill", "scale", "lost-volume", "old-volume", "backup"}}
	subject := chaos.New(t, chaos.Options{Replication: chaos.Sync, Version: 17})
	subject.Episode(t, episodes, 1)
	t.Logf("SEED=%d", episodes.Seed)
}

func TestNothingAcknowledgedIsLostWhenAllInstancesAreStoppedInOrder(t *testing.T) {
	subset.OneIn(t, 2)
	t.Parallel()
	tryFaults(t, stopped, chaos.Async, "delete-all", "hibernate")
}
