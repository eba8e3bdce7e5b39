//go:build postgres

package restorejob

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/walvolume"
)

// hasWALApart expects the WAL of the restored data on the WAL volume.
func (b *bed) hasWALApart(volume generation.Volume) {
	b.t.Helper()
	target, err := os.Readlink(filepath.Join(volume.PGData("g1"), "pg_wal"))
	if err != nil || !strings.HasPrefix(target, walvolume.Path(string(volume))+"/") {
		b.t.Errorf("WAL is at %q, %v", target, err)
	}
	if !volume.Whole("g1") {
		b.t.Error("the restored data is not whole")
	}
}

// A backup doesn't say where its cluster had its WAL.
func TestABackupIsRestoredWhereverWALIsToBe(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.rows(1, 100)
		b.backup()
		b.rows(121, 200)
		b.archive()
		b.stop()
		onTwo := func(t *testing.T) (*bed, generation.Volume) {
			b, volume := b.at(t), generation.Volume(pgtest.Dir(t))
			walvolume.Beside(t, string(volume))
			return b, volume
		}
		t.Run("onto two volumes", func(t *testing.T) {
			b, volume := onTwo(t)
			o := b.restoreOn(volume, b.store, b.task(agentapi.RestoreTarget{}))
			if _, last, count := b.rowsIn(o); last != 200 || count != 200 {
				t.Errorf("%d rows up to %d", count, last)
			}
			b.hasWALApart(volume)
		})
		t.Run("in place, beside data with a WAL volume", func(t *testing.T) {
			b, volume := onTwo(t)
			b.fillVolume(volume, strings.TrimSuffix(b.lineage, "-g0"))
			task := b.task(agentapi.RestoreTarget{})
			task.InPlace = true
			o := b.restoreOn(volume, b.store, task)
			if _, last, count := b.rowsIn(o); last != 200 || count != 200 || o.result.TakenBytes == 0 {
				t.Errorf("%d rows up to %d, %d bytes taken", count, last, o.result.TakenBytes)
			}
			b.hasWALApart(volume)
			if !volume.Whole("g0") {
				t.Error("nothing leads back")
			}
		})
		t.Run("in the place of data with a WAL volume", func(t *testing.T) {
			b, volume := onTwo(t)
			b.fillVolume(volume, strings.TrimSuffix(b.lineage, "-g0"))
			task := b.task(agentapi.RestoreTarget{})
			b.discards(&task)
			o := b.restoreOn(volume, b.store, task)
			if _, last, count := b.rowsIn(o); last != 200 || count != 200 {
				t.Errorf("%d rows up to %d", count, last)
			}
			b.hasWALApart(volume)
			left, err := os.ReadDir(filepath.Join(walvolume.Path(string(volume)), "generations"))
			if err != nil || len(left) != 1 {
				t.Errorf("WAL of %v is left, %v", left, err)
			}
		})
		t.Run("onto one volume", func(t *testing.T) {
			b := b.at(t)
			volume := generation.Volume(pgtest.Dir(t))
			if _, last, count := b.rowsIn(b.restoreOn(volume, b.store, b.task(agentapi.RestoreTarget{}))); last != 200 || count != 200 {
				t.Errorf("%d rows up to %d", count, last)
			}
		})
	})
}
