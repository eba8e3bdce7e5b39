//go:build postgres

package restorejob

import (
	"errors"
	"os"
	"strings"
	"testing"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/fault"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

// TestThePreviousDataBecomesTheRestoredData on a volume that has no room for both.
func TestThePreviousDataBecomesTheRestoredData(t *testing.T) {
	subset.OneIn(t, 3)
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	small := smallFileSystem(t)
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.rows(1, 100)
		b.backup()
		b.rows(121, 140)
		b.archive()
		b.stop()
		begin := func(t *testing.T) (*bed, generation.Volume, agentapi.RestoreJob) {
			b, task := b.at(t), b.task(agentapi.RestoreTarget{})
			root, err := os.MkdirTemp(small, "volume")
			b.must(err)
			t.Cleanup(func() { b.must(os.RemoveAll(root)) })
			volume := generation.Volume(root)
			b.fillVolume(volume, strings.TrimSuffix(b.lineage, "-g0"))
			b.leave(volume, b.manifest.Totals.LogicalBytes/2+spareBytes)
			b.discards(&task)
			return b, volume, task
		}
		t.Run("it does", func(t *testing.T) {
			b, volume, task := begin(t)
			o := b.restoreOn(volume, b.store, task)
			if first, last, count := b.rowsIn(o); first != 1 || last != 140 || count != 140 {
				t.Errorf("rows %d to %d, %d of them", first, last, count)
			}
			if total := b.manifest.Totals.LogicalBytes; o.result.TakenBytes < total/4 || o.result.TakenBytes > total {
				t.Errorf("of %d bytes %d stayed", total, o.result.TakenBytes)
			}
			b.onlyHas(volume, "g1")
		})
		t.Run("not before all is known to be readable", func(t *testing.T) {
			b, volume, task := begin(t)
			b.failsOn(volume, cutOff(b.anyPack())(b, b.copyStore()), task, ReasonDataCorrupt, []string{b.anyPack()})
			b.failsOn(volume, gone(b.segment(b.last))(b, b.copyStore()), task, ReasonUnreachable, []string{b.last})
			b.failsOn(volume, cutOff(b.segment(b.last))(b, b.copyStore()), task, ReasonDataCorrupt, []string{b.last})
		})
		t.Run("not on a volume that has none of it", func(t *testing.T) {
			b, volume, task := begin(t)
			task.DiscardPrevious = "g7"
			b.failsOn(volume, b.store, task, ReasonNotArchived, []string{"no copy of the data that is to be discarded, data generation g7"})
		})
		t.Run("not where there is no room even then", func(t *testing.T) {
			b, volume, task := begin(t)
			b.leave(volume, 8<<20)
			b.failsOn(volume, b.store, task, ReasonNoSpace, []string{"MiB free without the previous data"})
		})
		t.Run("a run that dies after that is begun again", func(t *testing.T) {
			b, volume, task := begin(t)
			store := fault.New(b.store, fault.Plan{Before: func(fault.Call) error {
				if _, err := volume.Current(); errors.Is(err, generation.ErrNotFound) {
					return &objstore.Error{Op: "get", Kind: objstore.ErrUnavailable}
				}
				return nil
			}})
			o := b.restoreOn(volume, store, task)
			failure := &job.Failure{}
			if !errors.As(o.err, &failure) || failure.Reason != ReasonPreviousDataDiscarded || failure.Final {
				t.Errorf("%v", o.err)
			}
			b.onlyHas(volume, "g1") // as far as it came: the next run continues with it
			if volume.Whole("g1") {
				t.Error("g1 is whole")
			}
			if first, last, count := b.rowsIn(b.restoreOn(volume, b.store, task)); first != 1 || last != 140 || count != 140 {
				t.Errorf("rows %d to %d, %d of them", first, last, count)
			}
			b.onlyHas(volume, "g1")
		})
	})
}

// onlyHas expects these data generations on a volume, and that `current` points at none: the cluster adopts one.
func (b *bed) onlyHas(volume generation.Volume, ids ...string) {
	b.t.Helper()
	entries, err := volume.List()
	b.must(err)
	var has []string
	for _, entry := range entries {
		has = append(has, entry.ID)
	}
	if strings.Join(has, " ") != strings.Join(ids, " ") {
		b.t.Errorf("it has %v, want %v", has, ids)
	}
	if id, err := volume.Current(); !errors.Is(err, generation.ErrNotFound) {
		b.t.Errorf("current is %q, %v", id, err)
	}
}
