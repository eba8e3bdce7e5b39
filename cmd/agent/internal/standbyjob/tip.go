package standbyjob

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
)

// tip is how far the archive of a lineage goes.
type tip struct {
	// whole is the last whole segment of each timeline.
	whole map[uint32]postgres.Segment
	// newest is the newest timeline with WAL, and last its last segment, which may be there in pieces.
	newest uint32
	last   postgres.Segment
	open   bool
	// latest is the highest number of a timeline, with WAL or only a history.
	latest uint32
	// stored is when the last whole segment of the newest timeline was stored.
	stored time.Time
}

// end of the whole segments of the newest timeline.
func (t tip) end() postgres.LSN {
	if t.open {
		return t.last.Start()
	}
	return t.last.End()
}

// readTip reads it, from a position on.
func readTip(ctx context.Context, store objstore.Store, lineage string, from postgres.LSN) (tip, error) {
	coverage, err := wal.New(store).CoverageFrom(ctx, lineage, from)
	if err != nil {
		return tip{}, err
	}
	t := tipOf(coverage)
	if t.newest == 0 || t.whole[t.newest] == (postgres.Segment{}) {
		return t, nil
	}
	key, err := wal.Key(lineage, t.whole[t.newest].Name())
	if err != nil {
		return t, err
	}
	info, err := store.Stat(ctx, key)
	if err != nil && !errors.Is(err, objstore.ErrNotFound) { // it was removed meanwhile
		return t, err
	}
	t.stored = info.Modified
	return t, nil
}

func tipOf(coverage wal.Coverage) tip {
	t := tip{whole: map[uint32]postgres.Segment{}}
	for _, timeline := range coverage.Timelines {
		last := timeline.Last
		if timeline.Open {
			last.Number--
		}
		if last.Number >= timeline.First.Number {
			t.whole[timeline.ID] = last
		}
		if timeline.ID >= t.newest {
			t.newest, t.last, t.open = timeline.ID, timeline.Last, timeline.Open
		}
		t.latest = max(t.latest, timeline.ID)
	}
	for _, name := range coverage.Histories {
		if file, err := postgres.ParseWALName(name); err == nil {
			t.latest = max(t.latest, file.Timeline)
		}
	}
	return t
}

// beyond says whether the archive has a whole segment after one that is missing, on its timeline or a newer one.
func (t tip) beyond(missing postgres.Segment) bool {
	for timeline, last := range t.whole {
		if timeline >= missing.Timeline && last.Number > missing.Number {
			return true
		}
	}
	return false
}

// lacks says whether an archive has lost something since, after a position.
func (t tip) lacks(before tip, position postgres.LSN) bool {
	if before.newest == 0 || before.end() <= position {
		return false
	}
	return t.newest < before.newest || t.newest == before.newest && t.end() < before.end()
}

// target is where an archive ends.
type target struct {
	// end of the last whole record; zero: there is nothing left to replay.
	end postgres.LSN
	// last is the segment that has it, if its archiver has not said where in it. It is replayed once the server wants the next one.
	last postgres.Segment
}

// reached says whether all that the archive had is replayed. lacked is what the server asked for in vain.
func (t target) reached(replayed postgres.LSN, lacked postgres.Segment) bool {
	unsure := t.last != (postgres.Segment{})
	return replayed >= t.end && (!unsure || lacked.Number > t.last.Number)
}

// target is where the archive ends, with the open segment.
func (t tip) target(ctx context.Context, store objstore.Store, lineage string) (target, error) {
	if t.newest == 0 {
		return target{}, nil
	}
	header, err := wal.New(store).ReadHeader(ctx, lineage, t.last.Name())
	switch {
	case err != nil:
		return target{}, err
	case header.EndLSN <= t.last.Start():
		return target{end: t.last.Start(), last: t.last}, nil
	}
	return target{end: header.EndLSN}, nil
}

// movedTo is a younger lineage of the same cluster that was written later; empty: there is none.
func movedTo(ctx context.Context, store objstore.Store, lineage string, stored time.Time) (string, error) {
	ours, err := layout.ReadLineage(ctx, store, lineage)
	if err != nil {
		return "", err
	}
	all, err := layout.Lineages(ctx, store)
	if err != nil {
		return "", err
	}
	for _, name := range slices.Backward(all) {
		other, err := layout.ReadLineage(ctx, store, name)
		if err != nil || name == lineage || other.Writer.UID != ours.Writer.UID || !other.Created.After(ours.Created) {
			continue
		}
		t, err := readTip(ctx, store, name, 0)
		if err != nil {
			return "", fmt.Errorf("lineage %s: %w", name, err)
		}
		if t.stored.After(stored) {
			return name, nil
		}
	}
	return "", nil
}
