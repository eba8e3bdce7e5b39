package restorejob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sync/errgroup"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
)

// begin makes the folder of the new data generation. Previous data that it has taken over stays in it: a former run has begun
// to change that, and this one continues.
func (r *restoring) begin() error {
	id, before := r.task.DataGeneration, r.task.DiscardPrevious
	if before == "" {
		var err error
		r.pgdata, err = r.Volume.Begin(id)
		return err
	}
	begin := r.Volume.Continue
	found, err := r.Volume.Resolve(before)
	switch {
	case err == nil:
		r.before, begin = found.ID, r.Volume.Begin
	case !errors.Is(err, generation.ErrNotFound):
		return err
	}
	if err := r.refuseMissing(); err != nil {
		return err
	}
	if r.pgdata, err = begin(id); err != nil {
		return err
	}
	return r.clearOthers()
}

// refuseMissing refuses a volume that has nothing of the data that is to be discarded, and no former run has begun with it: what the other volumes
// have of that would be discarded without a look at the end of its WAL.
func (r *restoring) refuseMissing() error {
	before := r.task.DiscardPrevious
	there, err := generation.CanInherit(r.Volume, r.task.DataGeneration, before)
	if err != nil || there {
		return err
	}
	return job.Final(ReasonNotArchived, fmt.Errorf("the volume has no copy of the data that is to be discarded, data generation %s, so it isn't known whether all of its WAL is "+
		"archived, and nothing was touched: create another Restore without discardPrevious", before))
}

// clearOthers removes what restores that were given up have left, for there may be no room beside it.
func (r *restoring) clearOthers() error {
	keep, err := r.Volume.IDsOf(r.task.DiscardPrevious)
	if err != nil {
		return err
	}
	removed, err := r.Volume.RemoveIncomplete(append(keep, r.task.DataGeneration)...)
	if len(removed) > 0 {
		r.Log.Info("What other restores left is removed", "removed", removed)
	}
	return err
}

// discard gives up the previous data, which the restore then changes where it is. Nothing leads back, so everything that the
// restore needs is read first, and everything that only the volume has is archived. A run that dies begins again: from the first
// step on `current` points at nothing. Meanwhile no server can be started on that data.
func (r *restoring) discard(ctx context.Context) error {
	before := r.task.DiscardPrevious
	if before == "" {
		return nil
	}
	locks, err := r.lockPrevious()
	defer func() {
		for _, lock := range locks {
			lock.Close()
		}
	}()
	if err != nil {
		return err
	}
	if r.before != "" {
		if err := r.readAll(ctx); err != nil {
			return err
		}
		if err := r.secure(ctx); err != nil {
			return err
		}
	}
	r.discarded = true
	removed, err := r.Volume.Inherit(r.task.DataGeneration, before, r.before)
	if err != nil {
		return fmt.Errorf("give up data generation %s: %w", before, err)
	}
	r.Log.Info("The previous data is discarded and changed in place", "dataGeneration", before, "removed", removed)
	return nil
}

// lockPrevious takes the lock of each copy of the previous data, as a supervisor does that runs a server on it.
func (r *restoring) lockPrevious() (locks []*os.File, err error) {
	ids, err := r.Volume.IDsOf(r.task.DiscardPrevious)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		lock, err := r.Volume.Lock(id)
		if err != nil {
			return locks, err
		}
		locks = append(locks, lock)
	}
	return locks, nil
}

// readAll reads every byte of the backup that the previous data lacks, and of the WAL of the plan.
func (r *restoring) readAll(ctx context.Context) error {
	lacks, err := backup.Compare(ctx, r.store, r.manifest, r.Volume.PGData(r.before), backup.RestoreOptions{
		MemoryLimit: r.task.MemoryLimit, Progress: func(p backup.Progress) {
			r.Report(job.Progress{Phase: phaseVerifying, DoneBytes: p.Done, TotalBytes: p.Total, Message: "the previous data is kept until all that it lacks is known to be readable"})
		},
	})
	if err != nil {
		return err
	}
	r.lacks = lacks
	r.Log.Info("What the previous data lacks can be read", "missing", lacks.Bytes, "same", lacks.Same)
	archive := wal.New(r.store)
	segments, err := r.segments(ctx, archive)
	if err != nil {
		return err
	}
	outer := ctx
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(walReaders)
	for _, segment := range segments {
		group.Go(func() error {
			_, err := archive.GetTo(ctx, r.task.Lineage, segment.Name(), io.Discard)
			if errors.Is(err, objstore.ErrNotFound) {
				err = r.explain(fmt.Errorf("%w: segment %s of lineage %s", errMissing, segment, r.task.Lineage))
			}
			return err
		})
	}
	return errors.Join(group.Wait(), outer.Err())
}

// walReaders is how many segments are read at once; each is held whole.
const walReaders = 4

// segments are those that replay reads: one in which a timeline begins from the younger one.
func (r *restoring) segments(ctx context.Context, archive *wal.Archive) ([]postgres.Segment, error) {
	first, err := postgres.ParseSegment(r.manifest.WAL.First, r.last.SegSize)
	if err != nil {
		return nil, job.Final(job.ReasonBadJob, fmt.Errorf("first segment of backup %s: %w", r.manifest.ID, err))
	}
	history := postgres.TimelineHistory{Timeline: r.last.Timeline}
	if r.last.Timeline != first.Timeline {
		content, _, err := archive.Get(ctx, r.task.Lineage, postgres.HistoryName(r.last.Timeline))
		if err != nil {
			return nil, fmt.Errorf("history of timeline %d: %w", r.last.Timeline, err)
		}
		if history, err = postgres.ParseTimelineHistory(r.last.Timeline, content); err != nil {
			return nil, err
		}
	}
	var segments []postgres.Segment
	for number := first.Number; number <= r.last.Number; number++ {
		segments = append(segments, postgres.Segment{Timeline: timelineOf(history, number, r.last.SegSize), Number: number, SegSize: r.last.SegSize})
	}
	return segments, nil
}

func timelineOf(history postgres.TimelineHistory, number, segSize uint64) uint32 {
	for _, ancestor := range history.Ancestors {
		if number < postgres.SegmentOf(ancestor.Timeline, ancestor.LSN, segSize).Number {
			return ancestor.Timeline
		}
	}
	return history.Timeline
}

// afterDiscard says of a failure that there is no previous data any more.
func afterDiscard(err error) error {
	final := final(err)
	err = fmt.Errorf("the previous data is given up already, and the restore failed: %w", err)
	return &job.Failure{Reason: ReasonPreviousDataDiscarded, Final: final, Err: err}
}
