//go:build postgres

package replicate

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/walvolume"
)

// withWALVolumes gives each node a WAL volume, before anything is on its data volume.
func (b *bed) withWALVolumes() {
	b.t.Helper()
	for _, n := range b.nodes {
		walvolume.Beside(b.t, string(n.Volume))
	}
}

// hasWALApart expects the WAL of the adopted copy on the WAL volume, and none of it in the data directory.
func (n *node) hasWALApart() {
	n.bed.t.Helper()
	g, err := n.Volume.Resolve(wanted)
	if err != nil {
		n.bed.t.Fatalf("%s: %v", n.Pod, err)
	}
	target, err := os.Readlink(filepath.Join(n.Volume.PGData(g.ID), "pg_wal"))
	if err != nil || !strings.HasPrefix(target, walvolume.Path(string(n.Volume))+"/") || g.WALVolume == "" {
		n.bed.t.Errorf("%s: the WAL of %+v is at %q, %v", n.Pod, g, target, err)
	}
	if segments, err := filepath.Glob(filepath.Join(target, "0000*")); err != nil || len(segments) == 0 {
		n.bed.t.Errorf("%s: there is no WAL, %v", n.Pod, err)
	}
}

func TestInstancesWithWALVolumesTakeOverAndFollow(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg, 2)
		b.withWALVolumes()
		old, next := b.found(), b.nodes[1]
		old.keepSlots(nil)
		next.join(old)
		old.insert(1000)
		next.awaitLevel(old)
		thaw := next.freeze(old)
		old.insert(500) // that nobody else has
		old.kill()
		thaw()
		next.promote()
		next.insert(10)
		old.rewind(next)
		old.start(next)
		old.awaitStreaming(next)
		next.insert(10)
		old.awaitLevel(next)
		if got, want := old.sql(contents), next.sql(contents); got != want || count(got) != "2020" {
			t.Errorf("%s has %s instead of %s", old.Pod, got, want)
		}
		old.hasWALApart()
		next.hasWALApart()
	})
}

// What it has of its data would come up without the commits that were in its WAL only.
func TestAnInstanceThatHasLostItsWALIsClonedWithFilesOfItsOwn(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg, 2)
		b.withWALVolumes()
		primary, n := b.found(), b.nodes[1]
		primary.sql("INSERT INTO public.t SELECT n, repeat('x', 1000) FROM generate_series(100000, 140000) n")
		primary.sql("VACUUM public.t")
		primary.keepSlots(nil)
		n.join(primary)
		n.awaitLevel(primary)
		n.stop()
		walvolume.Beside(t, string(n.Volume))
		if _, err := n.Volume.Resolve(wanted); !errors.Is(err, generation.ErrNoWAL) {
			t.Fatalf("%v", err)
		}
		n.clone(primary)
		n.start(primary)
		n.awaitStreaming(primary)
		primary.insert(10)
		n.awaitLevel(primary)
		if want, got := primary.content(), n.content(); want != got {
			t.Errorf("the clone has %s, and its source %s", got, want)
		}
		n.hasWALApart()
	})
}
