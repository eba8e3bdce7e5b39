//go:build postgres

package replicate

import (
	"fmt"
	"slices"
	"syscall"
	"testing"

	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

func TestAReplicaTakesOverAndTheOldPrimaryFollowsIt(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		nodes := replicated(t, pg, 3)
		old, next, third := nodes[0], nodes[1], nodes[2]
		old.insert(1000)
		next.awaitLevel(old)
		third.awaitLevel(old)
		want := old.sql(contents)
		if got := next.sql(contents); got != want || count(got) != "2000" {
			t.Errorf("the replica has %s instead of %s", got, want)
		}

		thawThird := third.freeze(old)
		thaw := next.freeze(old) // last, so that it is not behind the other
		old.insert(500)          // that nobody else has
		old.kill()
		thaw()
		thawThird()
		next.promote()
		next.insert(10)
		third.follow(next)
		third.awaitStreaming(next)

		old.rewind(next)
		old.start(next)
		old.awaitStreaming(next)
		next.insert(10)
		want = next.sql(contents)
		for _, n := range []*node{old, third} {
			n.awaitLevel(next)
			if got := n.sql(contents); got != want || count(got) != "2020" {
				t.Errorf("%s has %s instead of %s", n.Pod, got, want)
			}
			if p := n.position(); p.Timeline != 2 || !p.Replica || !p.Settled {
				t.Errorf("%s: %+v", n.Pod, p)
			}
		}
		if got := old.copies(); !slices.Equal(got, []string{"g1"}) {
			t.Errorf("copies: %v", got)
		}
	})
}

func TestAPrimaryThatWasShutDownInOrderIsFitToFollow(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		nodes := replicated(t, pg, 2)
		old, next := nodes[0], nodes[1]
		old.insert(500)
		old.stop() // which sends everything
		next.promote()
		next.insert(10)
		g := old.rewind(next)
		if standby, err := settings.IsStandby(old.Volume.PGData(g.ID)); !standby || err != nil || old.Volume.Rewinding(g.ID) {
			t.Errorf("%v, %v", standby, err)
		}
		old.start(next)
		old.awaitStreaming(next)
		old.awaitLevel(next)
		if got, want := old.sql(contents), next.sql(contents); got != want || count(got) != "1510" {
			t.Errorf("%s instead of %s", got, want)
		}
	})
}

func TestAReplicaThatIsAheadOfTheNewPrimaryIsFoundAndRewound(t *testing.T) {
	subset.OneIn(t, 3)
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		nodes := replicated(t, pg, 3)
		old, next, ahead := nodes[0], nodes[1], nodes[2]
		thaw := next.freeze(old)
		old.insert(500)
		ahead.awaitLevel(old)
		old.kill()
		thaw()
		next.promote()
		next.insert(10)

		ahead.follow(next)
		if remedy, _, err := ahead.Assess(t.Context(), next.upstream(), ahead.position()); remedy != ByRewind || err != nil {
			t.Errorf("the one ahead: %v, %v", remedy, err)
		}
		ahead.kill() // in the middle of recovery
		ahead.rewind(next)
		ahead.start(next)
		ahead.awaitStreaming(next)
		ahead.awaitLevel(next)
		if got, want := ahead.sql(contents), next.sql(contents); got != want || count(got) != "1010" {
			t.Errorf("%s instead of %s", got, want)
		}
		if remedy, _, err := ahead.Assess(t.Context(), next.upstream(), ahead.position()); remedy != NoRemedy || err != nil {
			t.Errorf("afterwards: %v, %v", remedy, err)
		}
		gone := Position{Timeline: 1, LSN: 0x1000100}
		if remedy, _, err := ahead.Assess(t.Context(), next.upstream(), gone); remedy != ByClone || err != nil {
			t.Errorf("one whose WAL is gone: %v, %v", remedy, err)
		}
	})
}

// TestASummarizerThatSleepsIsWokenForAPromotion: from PostgreSQL 17 on the end of recovery waits for it, and it may sleep for
// half a minute. It is kept asleep here until it has been called.
func TestASummarizerThatSleepsIsWokenForAPromotion(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		if pg.Major < 17 {
			t.Skip("there is no summarizer before PostgreSQL 17")
		}
		nodes := replicated(t, pg, 2)
		old, next := nodes[0], nodes[1]
		old.insert(10)
		next.awaitLevel(old)
		old.kill()
		pid := 0
		await(t, "a summarizer", func() bool {
			_, err := fmt.Sscan(next.sql("SELECT summarizer_pid::text FROM pg_get_wal_summarizer_state()"), &pid)
			return err == nil
		})
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		const loaded = "SELECT pg_conf_load_time()::text"
		before, promoted := next.sql(loaded), make(chan struct{})
		go func() {
			defer close(promoted)
			next.promote()
		}()
		await(t, "everybody to be called", func() bool { return next.sql(loaded) != before })
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		<-promoted
		next.insert(10)
	})
}
