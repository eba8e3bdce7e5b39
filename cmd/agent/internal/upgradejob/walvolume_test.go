//go:build postgres

package upgradejob

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/walvolume"
)

func TestDataWithAWALVolumeIsUpgraded(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		volume := generation.Volume(t.TempDir())
		wal := walvolume.Beside(t, string(volume))
		w, task := linkableOn(t, pg, volume)
		made, err := w.Upgrade(t.Context(), task)
		if err != nil || made.DataGeneration != "g2" || made.PreviousBytes == 0 {
			t.Fatalf("%+v: %v", made, err)
		}
		found, err := w.Inspect(t.Context(), task)
		if err != nil {
			t.Fatal(err)
		}
		task.Link, task.ToGeneration = &found.WALEnd, "g3"
		if made, err = w.Upgrade(t.Context(), task); err != nil || shared(t, volume.PGData("g3")) == 0 {
			t.Fatalf("linked: %+v: %v", made, err)
		}
		for _, id := range []string{"g2", "g3"} {
			target, err := os.Readlink(filepath.Join(volume.PGData(id), "pg_wal"))
			if err != nil || !strings.HasPrefix(target, wal+"/") {
				t.Errorf("the WAL of %s is at %q, %v", id, target, err)
			}
			if err := w.startAndStop(t.Context(), pg.BinDir, volume.PGData(id)); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
	})
}
