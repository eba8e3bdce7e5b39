package restorejob

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"howdah.dev/howdah/cmd/agent/internal/archive"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
)

// tail is the WAL of the previous data: nothing of it may exist on the volume alone once that data is discarded. The safety backup was
// taken while clients wrote, and a primary that stops doesn't wait for its archive for long.
type tail struct {
	*restoring
	walDir  string
	control postgres.ControlData
	// wanted are the files that the server had not archived.
	wanted []string
	// open is the segment that the shutdown checkpoint is in, and written whether it has other records.
	open    postgres.Segment
	written bool
}

// secure has all WAL of the previous data in its archive, or refuses to discard that. Whoever calls it holds the data's lock.
func (r *restoring) secure(ctx context.Context) error {
	t := &tail{restoring: r, walDir: filepath.Join(r.Volume.PGData(r.before), "pg_wal")}
	var err error
	if t.control, err = postgres.ReadControlData(ctx, r.Run, r.binDir, r.Volume.PGData(r.before)); err != nil {
		return err
	}
	if t.control.State != postgres.StateShutDown {
		return job.Final(ReasonUncleanShutdown, fmt.Errorf("PostgreSQL was not shut down cleanly (its state is %q), so the end of its WAL "+
			"isn't known, and nothing was touched: wait until the cluster is Ready again, which recovers its data, and create another Restore", t.control.State))
	}
	if t.wanted, err = archive.Wanted(t.walDir, t.control.SegSize); err != nil {
		return err
	}
	t.open, t.written = archive.Open(t.control)
	if r.task.PreviousArchive == nil {
		return t.refuseUnarchived()
	}
	return t.archive(ctx)
}

// refuseUnarchived is for data whose archive can't be reached from here.
func (t *tail) refuseUnarchived() error {
	names := t.wanted
	if t.written {
		names = append(names, t.open.Name())
	}
	if len(names) == 0 {
		return nil
	}
	return job.Final(ReasonNotArchived, fmt.Errorf("%d files of WAL are on the volume only, beginning with %s, and the repository of this restore is "+
		"not the one that the cluster archives to, so nothing was touched: create another Restore while little is written, or one without "+
		"discardPrevious", len(names), names[0]))
}

// archive puts into the archive what is missing there.
func (t *tail) archive(ctx context.Context) error {
	lineage, err := t.lineage(ctx)
	if err != nil {
		return err
	}
	rest := archive.NewRest(t.walDir, archive.Target{Store: t.store, Claim: lineage, Writer: "Restore " + t.task.Object.Namespace + "/" + t.task.Object.Name})
	for _, name := range t.wanted {
		if err := t.put(ctx, rest, name); err != nil {
			return err
		}
	}
	if err := t.fillGaps(ctx, rest, lineage.Lineage); err != nil {
		return err
	}
	if t.written {
		if err := rest.PutOpen(ctx, t.open, t.control.Checkpoint); err != nil {
			return err
		}
	}
	t.Log.Info("All WAL of the previous data is archived", "lineage", lineage.Lineage, "archivedNow", len(t.wanted), "end", t.control.Checkpoint)
	return nil
}

func (t *tail) put(ctx context.Context, rest *archive.Rest, name string) error {
	err := rest.Put(ctx, name)
	if errors.Is(err, wal.ErrConflict) {
		return job.Final(ReasonNotArchived, fmt.Errorf("%w; nothing was touched: create another Restore without discardPrevious", err))
	}
	return err
}

// lineage is that of the previous data, if the cluster has claimed it in this repository.
func (t *tail) lineage(ctx context.Context) (layout.Lineage, error) {
	name := layout.LineageName(strconv.FormatUint(t.control.SystemIdentifier, 10), t.task.DiscardPrevious)
	lineage, err := layout.ReadLineage(ctx, t.store, name)
	switch {
	case errors.Is(err, objstore.ErrNotFound):
		return lineage, job.Final(ReasonNotArchived, fmt.Errorf("the repository has no archive of the previous data (lineage %s), so nothing was "+
			"touched: wait until the cluster's condition Archiving is True, and create another Restore", name))
	case err != nil:
		return lineage, err
	case lineage.Writer.UID != t.task.PreviousArchive.ClusterUID:
		return lineage, job.Final(ReasonNotArchived, fmt.Errorf("the archive of the previous data (lineage %s) belongs to %s, so nothing was touched: "+
			"create another Restore without discardPrevious", name, lineage.Writer))
	}
	return lineage, nil
}

// fillGaps archives each segment since the safety backup that was taken for archived and isn't. One that isn't on the volume either
// leaves nothing to lead back to the rows behind it but the previous data.
func (t *tail) fillGaps(ctx context.Context, rest *archive.Rest, lineage string) error {
	missing, err := t.missing(ctx, lineage)
	if err != nil {
		return err
	}
	for _, name := range missing {
		err := t.put(ctx, rest, name)
		if errors.Is(err, fs.ErrNotExist) {
			return job.Final(ReasonNotArchived, fmt.Errorf("segment %s, which the safety backup needs to lead to the end of the previous data, is neither "+
				"archived nor on the volume, so nothing was touched: create another Restore, whose safety backup begins after it", name))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// missing are the segments from the end of the safety backup to the end of WAL that aren't archived.
func (t *tail) missing(ctx context.Context, lineage string) ([]string, error) {
	id := t.task.PreviousArchive.SafetyBackup
	if id == "" {
		return nil, job.Final(ReasonNotArchived, errors.New("the safety backup was deleted, so nothing was touched: create another Restore"))
	}
	safety, err := backup.ReadHeader(ctx, t.store, lineage, id)
	if errors.Is(err, objstore.ErrNotFound) {
		return nil, job.Final(ReasonNotArchived, fmt.Errorf("the safety backup %s was deleted from the repository, so nothing was touched: create another Restore", id))
	}
	if err != nil {
		return nil, err
	}
	first, err := postgres.ParseSegment(safety.WAL.Last, t.control.SegSize)
	if err != nil {
		return nil, err
	}
	history, err := t.history()
	if err != nil {
		return nil, err
	}
	var names []string
	store := wal.New(t.store)
	for _, run := range runs(history, first.Number, t.open) {
		missing, err := store.MissingSegments(ctx, lineage, run[0], run[1])
		if err != nil {
			return nil, err
		}
		names = append(names, missing...)
	}
	return names, nil
}

// history is that of the timeline that the data is on.
func (t *tail) history() (postgres.TimelineHistory, error) {
	if t.control.Timeline == 1 {
		return postgres.TimelineHistory{Timeline: 1}, nil
	}
	content, err := os.ReadFile(filepath.Join(t.walDir, postgres.HistoryName(t.control.Timeline)))
	if err != nil {
		return postgres.TimelineHistory{}, fmt.Errorf("history of timeline %d: %w", t.control.Timeline, err)
	}
	return postgres.ParseTimelineHistory(t.control.Timeline, content)
}

// runs are the first and the last segment on each timeline that leads from a number to before end.
func runs(history postgres.TimelineHistory, number uint64, end postgres.Segment) (all [][2]postgres.Segment) {
	for ; number < end.Number; number++ {
		segment := postgres.Segment{Timeline: timelineOf(history, number, end.SegSize), Number: number, SegSize: end.SegSize}
		if last := len(all) - 1; last >= 0 && all[last][1].Timeline == segment.Timeline {
			all[last][1] = segment
		} else {
			all = append(all, [2]postgres.Segment{segment, segment})
		}
	}
	return all
}
