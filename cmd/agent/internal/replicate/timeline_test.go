//go:build postgres

package replicate

import (
	"path/filepath"
	"testing"

	"howdah.dev/howdah/test/testkit/pgtest"
)

func TestAPromotionSkipsTimelinesThatAnotherMayHaveBegun(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg, 3)
		old, next, third := b.found(), b.nodes[1], b.nodes[2]
		old.keepSlots(nil)
		next.join(old)
		third.join(old)
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
		if err := rewindTo(t, old, next); err != nil {
			t.Fatal(err)
		}
		old.start(next)
		old.awaitLevel(next)
		if p := old.position(); p.Timeline != 4 {
			t.Errorf("%+v", p)
		}
	})
}

func rewindTo(t *testing.T, n, source *node) error {
	t.Helper()
	g, err := n.Volume.Resolve(wanted)
	if err != nil {
		return err
	}
	return n.Rewind(t.Context(), source.upstream(), g)
}
