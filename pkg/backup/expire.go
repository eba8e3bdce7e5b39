package backup

import (
	"context"
	"errors"
	"fmt"
	"path"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
)

// Removed counts what was removed.
type Removed struct {
	Objects int
	Bytes   int64
}

// ExpireWAL removes the WAL of a lineage before the segment of the given number, on every timeline, but for what a
// backup that is there needs to be restored. Histories stay. It may be repeated after a crash.
func ExpireWAL(ctx context.Context, store objstore.Store, lineage string, before uint64) (Removed, error) {
	owner, err := layout.ReadLineage(ctx, store, lineage)
	if err != nil {
		return Removed{}, err
	}
	needed, err := neededWAL(ctx, store, lineage)
	if err != nil {
		return Removed{}, err
	}
	total := Removed{}
	for folder, err := range store.Folders(ctx, layout.WALPrefix(lineage)) {
		if err != nil {
			return total, err
		}
		e := expiry{store: store, prefix: layout.WALPrefix(lineage) + folder + "/", segSize: owner.SegmentSize, before: before, needed: needed}
		removed, err := e.run(ctx)
		total.Objects += removed.Objects
		total.Bytes += removed.Bytes
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// segmentRange are the numbers of segments from one to another, both included.
type segmentRange struct{ first, last uint64 }

// neededWAL is what the backups of a lineage can't be restored without. One that can't be read could need any.
func neededWAL(ctx context.Context, store objstore.Store, lineage string) ([]segmentRange, error) {
	var needed []segmentRange
	err := Each(ctx, store, lineage, func(e Entry) error {
		if errors.Is(e.Err, objstore.ErrNotFound) {
			return nil // removed meanwhile
		}
		if e.Err != nil {
			return fmt.Errorf("no WAL may be removed while backup %s can't be read: %w", e.ID, e.Err)
		}
		first, last, err := e.Header.WAL.Segments()
		if err != nil {
			return fmt.Errorf("no WAL may be removed: backup %s: %w", e.ID, err)
		}
		needed = append(needed, segmentRange{first.Number, last.Number})
		return nil
	})
	return needed, err
}

// Segments are the first and the last segment of the range.
func (r WALRange) Segments() (first, last postgres.Segment, err error) {
	if first, err = postgres.ParseSegment(r.First, r.SegmentSize); err != nil {
		return first, last, err
	}
	last, err = postgres.ParseSegment(r.Last, r.SegmentSize)
	return first, last, err
}

// expiry removes the old WAL of one timeline.
type expiry struct {
	store   objstore.Store
	prefix  string
	segSize uint64
	before  uint64
	needed  []segmentRange
}

// expireBatch is how many objects are removed at a time, so that a long run can be ended and counts what it did.
const expireBatch = 1000

// run lists up to the first segment that stays, which is not far once the oldest are gone.
func (e expiry) run(ctx context.Context) (Removed, error) {
	var keys []string
	done, batch := Removed{}, Removed{}
	remove := func() error {
		if len(keys) == 0 {
			return nil
		}
		if err := e.store.Delete(ctx, keys...); err != nil {
			return err
		}
		done.Objects, done.Bytes = done.Objects+batch.Objects, done.Bytes+batch.Bytes
		keys, batch = nil, Removed{}
		return nil
	}
	for info, err := range e.store.List(ctx, e.prefix, "") {
		if err != nil {
			return done, errors.Join(err, remove())
		}
		name := path.Base(info.Key)
		if open, is := wal.OpenSegment(name); is {
			name = open // a piece of it, which whoever wrote it has left
		}
		file, err := postgres.ParseWALFile(name, e.segSize)
		if err != nil || file.Kind == postgres.WALHistory {
			continue
		}
		if file.Segment.Number >= e.before && file.Kind != postgres.WALBackupHistory {
			break // of its timeline all that follows stays; histories of backups of all timelines are in one folder
		}
		if file.Segment.Number >= e.before || e.needs(file.Segment.Number) {
			continue
		}
		keys = append(keys, info.Key)
		batch.Objects, batch.Bytes = batch.Objects+1, batch.Bytes+info.Size
		if len(keys) == expireBatch {
			if err := remove(); err != nil {
				return done, err
			}
		}
	}
	return done, remove()
}

func (e expiry) needs(number uint64) bool {
	for _, r := range e.needed {
		if r.first <= number && number <= r.last {
			return true
		}
	}
	return false
}
