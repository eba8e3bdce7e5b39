//go:build postgres

package replicate

import (
	"strconv"
	"testing"

	"howdah.dev/howdah/test/testkit/pgtest"
)

func TestCommitsThroughTheServiceCostAnIdleClusterNothing(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg, 3)
		primary := b.found()
		transactions := func() int {
			n, err := strconv.Atoi(primary.sql("SELECT pg_snapshot_xmax(pg_current_snapshot())::text"))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		var last [2]Committed
		check := func() {
			t.Helper()
			for i := range last {
				if err := b.nodes[1+i].Commit(t.Context(), primary.upstream(), &last[i], 1); err != nil {
					t.Fatal(err)
				}
			}
		}
		before := transactions()
		for range 5 {
			check()
		}
		if commits := transactions() - before; commits != 2 {
			t.Errorf("%d commits of two replicas while nobody wrote", commits)
		}
		for range 2 {
			primary.sql("CREATE TABLE public.u (i int)")
			primary.sql("DROP TABLE public.u")
			before = transactions()
			check()
			if commits := transactions() - before; commits < 1 {
				t.Errorf("%d commits after others wrote", commits)
			}
		}
	})
}
