//go:build postgres

package replicate

import (
	"path/filepath"
	"testing"

	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

func TestAPromotionSkipsTimelinesThatAnotherMayHaveBegun(t *testing.T) {
	subset.OnlyInFull(t)
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		nodes := replicated(t, pg, 3)
		old, next, third := nodes[0], nodes[1], nodes[2]
		old.kill()
		g, err := next.Volume.Current()
		if err != nil {
			t.Fatal(err)
		}
		if err := SkipTimelines(next.Volume.PGData(filepath.Base(g)), 1, 4); err != nil {
			t.Fatal(err)
		}
		next.promote()
		next.insert(10)
		third.follow(next)
		third.awaitLevel(next)
		for _, n := range []*node{next, third} {
			if p := n.position(); p.Timeline != 4 {
				t.Errorf("%s: %+v", n.Pod, p)
			}
		}
		third.stop()
		third.start(next) // it finds its way over the gap
		third.awaitStreaming(next)
		old.rewind(next)
		old.start(next)
		old.awaitLevel(next)
		if p := old.position(); p.Timeline != 4 {
			t.Errorf("%+v", p)
		}
	})
}
