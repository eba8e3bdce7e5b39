package restorejob

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/cmd/agent/internal/recovery"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/postgres"
)

// finish checks where replay has ended, and takes away what only recovery needed.
func (r *restoring) finish(ctx context.Context, lacked, spool string, notes *notes) (agentapi.RestoreResult, error) {
	control, err := postgres.ReadControlData(ctx, r.Run, r.binDir, r.pgdata)
	if err != nil {
		return agentapi.RestoreResult{}, err
	}
	if control.State != postgres.StateShutDown {
		return agentapi.RestoreResult{}, fmt.Errorf("the restored data is %q, not shut down", control.State)
	}
	end, err := r.endOfReplay(control.Timeline)
	if err != nil {
		return agentapi.RestoreResult{}, err
	}
	if err := r.checkReached(end, lacked); err != nil {
		return agentapi.RestoreResult{}, err
	}
	if err := r.tidy(spool); err != nil {
		return agentapi.RestoreResult{}, err
	}
	return agentapi.RestoreResult{
		DataGeneration: r.task.DataGeneration, MajorVersion: r.task.MajorVersion,
		SystemIdentifier: strconv.FormatUint(control.SystemIdentifier, 10),
		ReachedLSN:       end.String(), LastCommit: notes.commit(), Timeline: int64(control.Timeline),
	}, nil
}

// endOfReplay is where the new timeline begins.
func (r *restoring) endOfReplay(timeline uint32) (postgres.LSN, error) {
	content, err := os.ReadFile(filepath.Join(r.pgdata, "pg_wal", postgres.HistoryName(timeline)))
	if err != nil {
		return 0, fmt.Errorf("the restored data is on timeline %d, which has no history: %w", timeline, err)
	}
	history, err := postgres.ParseTimelineHistory(timeline, content)
	if err != nil {
		return 0, err
	}
	if len(history.Ancestors) == 0 {
		return 0, fmt.Errorf("the history of timeline %d is empty", timeline)
	}
	return history.Ancestors[len(history.Ancestors)-1].LSN, nil
}

// checkReached refuses data on which replay ended too early without PostgreSQL's noticing: it takes damaged WAL, and WAL
// that is missing on a timeline that was left, for the end of WAL. A target that it was given it has checked itself.
func (r *restoring) checkReached(end postgres.LSN, lacked string) error {
	switch {
	case !r.toTheEnd:
		return nil
	case r.errExtent != nil:
		return r.errExtent
	case end >= r.extent:
		return nil
	}
	if lacked != "" {
		return r.explain(fmt.Errorf("%w: segment %s of lineage %s", errMissing, lacked, r.task.Lineage))
	}
	return job.Final(ReasonDataCorrupt, fmt.Errorf("replay ended at LSN %s, and the archive continues to %s: the WAL after that is damaged (segment %s of lineage %s)",
		end, r.extent, postgres.SegmentOf(r.last.Timeline, end, r.last.SegSize), r.task.Lineage))
}

// noteExtent notes how far the archive goes. It is called before anything is fetched: the cluster may continue writing meanwhile, and its
// last segment grow in the archive, which replay needn't reach.
func (r *restoring) noteExtent(ctx context.Context, archive *wal.Archive) {
	header, err := archive.ReadHeader(ctx, r.task.Lineage, r.last.Name())
	r.extent, r.errExtent = header.EndLSN, err
}

// tidy leaves the data as a server that was stopped leaves it, with the histories of its timelines to be archived, as
// the lineage that begins here needs them.
func (r *restoring) tidy(spool string) (err error) {
	histories, err := filepath.Glob(filepath.Join(r.pgdata, "pg_wal", "*.history"))
	if err != nil {
		return err
	}
	notes := map[string]string{}
	for _, history := range histories {
		status := path.Join("pg_wal", "archive_status", filepath.Base(history))
		notes[status+".done"], notes[status+".ready"] = recovery.Remove, ""
	}
	if err := recovery.Replace(r.pgdata, notes); err != nil {
		return err
	}
	// Where there is no encryption, anybody with access to the bucket may have written the settings.
	if r.dropped, err = recovery.TakeBack(r.pgdata, r.Volume.Dir(r.task.DataGeneration), r.task.Repository.Encryption != nil); err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(spool), os.RemoveAll(r.configDir()))
}
