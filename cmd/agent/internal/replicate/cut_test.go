//go:build postgres

package replicate

import (
	"testing"

	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

// A rewind would bring a delayed replica up to where the new primary is.
func TestADelayedReplicaStaysLateWhenItsPrimaryIsReplaced(t *testing.T) {
	subset.OnlyInFull(t)
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		nodes := replicated(t, pg, 3)
		old, next, late := nodes[0], nodes[1], nodes[2]
		late.awaitLevel(old)
		late.delaySeconds = 3600
		late.follow(old)
		await(t, "the delay", func() bool { return late.sql("SHOW recovery_min_apply_delay") == "1h" })
		old.insert(100)
		next.awaitLevel(old)
		thaw := next.freeze(old)
		old.insert(500) // which only the delayed one receives
		want := old.position().LSN
		await(t, "the WAL", func() bool { return late.position().LSN >= want })
		old.kill()
		thaw()
		next.promote()
		next.insert(10)

		late.follow(next)
		await(t, "the delay again", func() bool { return late.position().Waiting })
		if forked, err := late.Forked(t.Context(), next.upstream(), late.position()); !forked || err != nil {
			t.Fatalf("%v, %v", forked, err)
		}
		g, err := late.Volume.Resolve(wanted)
		if err != nil {
			t.Fatal(err)
		}
		late.stop()
		if err := late.Cut(t.Context(), next.upstream(), g); err != nil {
			t.Fatal(err)
		}
		late.start(next)
		if got := count(late.sql(contents)); got != "1000" {
			t.Errorf("it has %s rows, and should have replayed none since", got)
		}
		late.delaySeconds = 0
		late.follow(next)
		late.awaitStreaming(next)
		late.awaitLevel(next)
		if got, want := late.sql(contents), next.sql(contents); got != want || count(got) != "1110" {
			t.Errorf("%s instead of %s", got, want)
		}
	})
}
