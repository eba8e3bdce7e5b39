package replicate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/postgres"
)

// Forked says whether a replica has received WAL that is no part of the source's history, and has replayed none of it.
func (i Instance) Forked(ctx context.Context, source settings.Upstream, at Position) (forked bool, err error) {
	err = i.with(ctx, source, func(conn *pgx.Conn) error {
		to, err := readTarget(ctx, conn)
		if err != nil {
			return err
		}
		left, is := to.history.Left(at.Timeline)
		forked = is && left > 0 && at.LSN > left && at.Replayed <= left
		return nil
	})
	return forked, err
}

// Cut removes the WAL of the copy g that is no part of the source's history, where nothing of it was replayed. A rewind would do as well,
// but bring the copy up to where the source is now, and a delayed replica is to stay late. Its server must be down.
func (i Instance) Cut(ctx context.Context, source settings.Upstream, g generation.Generation) error {
	lock, err := i.Volume.Lock(g.ID)
	if err != nil {
		return err
	}
	defer lock.Close()
	pgdata := i.Volume.PGData(g.ID)
	control, err := postgres.ReadControlData(ctx, postgres.Exec, i.BinDir, pgdata)
	if err != nil {
		return err
	}
	to, err := i.awaitTarget(ctx, source)
	if err != nil {
		return err
	}
	if diverged(to.history, control.MinRecoveryTimeline, control.MinRecoveryEnd) {
		return fmt.Errorf("the copy %s has replayed up to %s on timeline %d, which %s has left before", g.ID, control.MinRecoveryEnd, control.MinRecoveryTimeline, source.Pod)
	}
	removed, err := cutWAL(filepath.Join(pgdata, "pg_wal"), to.history, control.SegSize)
	if err != nil {
		return fmt.Errorf("remove WAL that %s doesn't have: %w", source.Pod, err)
	}
	i.Log.Info("removed WAL that was not replayed and that the primary doesn't have", "source", source.Pod, "copy", g.ID, "files", removed)
	return nil
}

// cutWAL removes the files of WAL that don't belong to a history: the segments in which it has left their timeline, and all after them.
// What of such a segment is part of the history is in that of the next timeline, too.
func cutWAL(dir string, history postgres.TimelineHistory, segSize uint64) (removed []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		file, err := postgres.ParseWALFile(entry.Name(), segSize)
		if err != nil || belongs(history, file) {
			continue
		}
		status := filepath.Join(dir, "archive_status", entry.Name())
		for _, path := range []string{status + ".ready", status + ".done", filepath.Join(dir, entry.Name())} {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return removed, err
			}
		}
		removed = append(removed, entry.Name())
	}
	return removed, generation.SyncDir(dir)
}

func belongs(history postgres.TimelineHistory, file postgres.WALFile) bool {
	left, is := history.Left(file.Timeline)
	return is && (file.Kind == postgres.WALHistory || left == 0 || file.Segment.End() <= left)
}
