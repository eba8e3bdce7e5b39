package backup

import (
	"context"
	"maps"
	"slices"
	"time"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
)

// SweepOrphans removes the packs that no manifest points at and that were put before a time: what writers and deleters
// that were killed have left. It returns the ids whose packs it removed, and the bytes of them.
//
// As with Delete, nobody may be writing a backup of the lineage meanwhile.
func SweepOrphans(ctx context.Context, store objstore.Store, lineage string, before time.Time) ([]string, int64, error) {
	return (&Sweep{}).Run(ctx, store, lineage, before)
}

// Sweep is a search for orphans in one lineage that may be ended at any time, as a long history may take longer than there is time: its next
// run continues. The zero value begins. Only what was looked through is kept: which packs are used is asked again by every run.
type Sweep struct {
	packNumbers
	folder string // up to which the packs of these numbers were looked through
	stuck  bool
}

// Stuck says that the last run was ended before it had looked through anything: it had no time for more than to read which packs are used.
func (s *Sweep) Stuck() bool { return s != nil && s.stuck }

// Run is SweepOrphans from where the last run ended, to the end.
func (s *Sweep) Run(ctx context.Context, store objstore.Store, lineage string, before time.Time) ([]string, int64, error) {
	if err := layout.CheckName("lineage", lineage); err != nil {
		return nil, 0, err
	}
	s.stuck = true
	if err := dropClaims(ctx, store, lineage, "", before); err != nil {
		return nil, 0, err
	}
	if s.last == 0 {
		s.packNumbers = newPackNumbers()
	}
	swept, total := names{}, int64(0)
	err := eachRangeOfPacksFrom(s.packNumbers, func(used *usedPacks) error {
		return eachUsed(ctx, store, lineage, "", used.add)
	}, func(used *usedPacks) error {
		s.enter(used.packNumbers)
		for id, err := range store.Folders(ctx, layout.PacksPrefix(lineage)) {
			if err != nil {
				return err
			}
			if id <= s.folder {
				continue
			}
			freed, err := removeOldPacks(ctx, store, lineage, id, used, before)
			total += freed
			if freed > 0 {
				_ = swept.add(id)
			}
			if err != nil {
				return err
			}
			s.folder, s.stuck = id, false
		}
		s.stuck = false
		return nil
	})
	if err == nil {
		*s = Sweep{}
	}
	return slices.Sorted(maps.Keys(swept.all)), total, err
}

// enter begins with a range of numbers, unless it is the one in which the last run ended, or the first part of it.
func (s *Sweep) enter(now packNumbers) {
	if now.first != s.first || now.last > s.last {
		s.folder = ""
	}
	s.packNumbers = now
}
