package recover

import (
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
)

// discard gives up the data of before where there is no room for both. It goes for good, so everything that the restore needs
// is read first. A run that dies begins again: from the first step on `current` points at nothing.
func (r *restoring) discard(ctx context.Context) error {
	before := r.task.DiscardBefore
	if before == "" {
		return nil
	}
	_, err := r.Volume.Resolve(before)
	if err != nil && !errors.Is(err, generation.ErrNotFound) {
		return err
	}
	if err == nil {
		if err := r.readAll(ctx); err != nil {
			return err
		}
	}
	r.discarded = true
	removed, err := r.Volume.Abandon(before)
	if err != nil {
		return fmt.Errorf("give up data generation %s: %w", before, err)
	}
	r.Log.Info("The data of before is given up: there is no room for both", "dataGeneration", before, "removed", removed)
	return nil
}

// readAll reads every byte of the backup, and of the WAL of the plan.
func (r *restoring) readAll(ctx context.Context) error {
	_, err := backup.Verify(ctx, r.store, r.manifest, backup.VerifyOptions{MemoryLimit: r.task.MemoryLimit, Progress: func(p backup.Progress) {
		r.Report(job.Progress{Phase: phaseVerifying, DoneBytes: p.Done, TotalBytes: p.Total, Message: "the data of before is kept until all is known to be readable"})
	}})
	if err != nil {
		return err
	}
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

// afterDiscard says of a failure that there is no data of before any more.
func afterDiscard(err error) error {
	failure := &job.Failure{}
	final := errors.As(err, &failure) && failure.Final
	err = fmt.Errorf("the data of before is given up already, and the restore failed: %w", err)
	return &job.Failure{Reason: ReasonBeforeDiscarded, Final: final, Err: err}
}
