package standbyjob

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
)

// Values of recovery_target_timeline, beside a number.
const (
	latestTimeline  = "latest"
	currentTimeline = "current" // that of the last checkpoint
)

// firstTimeline has no history.
const firstTimeline = 1

// targetTimeline is what the next server follows: the newest timeline, or that of its own data. PostgreSQL doesn't start on data that the newest one
// is not a continuation of, or waits for a record that doesn't exist there, without a word. Such data stays where it is, for whoever wants to look
// at it or to promote it. The same holds once a promotion was requested Immediately: the archive isn't asked then.
func targetTimeline(control postgres.ControlData, own bool) string {
	if !own {
		return latestTimeline
	}
	if control.MinRecoveryTimeline > control.Timeline {
		return fmt.Sprint(control.MinRecoveryTimeline) // its history is on the volume, as it was replayed
	}
	return currentTimeline
}

// lookAstray finds out whether the newest timeline is a continuation of the data, as far as the archive and the volume know its history.
func (l *look) lookAstray(ctx context.Context, control postgres.ControlData, latest uint32) error {
	if l.record.Order == agentapi.PromoteImmediately {
		return nil
	}
	local, err := localHistory(l.pgdata())
	if err != nil {
		return err
	}
	newest := local
	if latest > max(local.Timeline, firstTimeline) {
		limited, cancel := context.WithTimeout(ctx, tipTime)
		defer cancel()
		archived, err := readHistory(limited, l.store, l.record.Lineage, latest)
		if err != nil {
			return err
		}
		if archived.Timeline != 0 {
			newest = archived
		}
	}
	l.astray = newest.Timeline != 0 && (leaves(newest, control.Timeline, control.Checkpoint+1) || leaves(newest, control.MinRecoveryTimeline, control.MinRecoveryEnd))
	return nil
}

// leaves says whether a history has nothing of a timeline up to a position.
func leaves(history postgres.TimelineHistory, timeline uint32, position postgres.LSN) bool {
	if timeline == 0 || timeline >= history.Timeline {
		return false
	}
	left, ancestor := history.Left(timeline)
	return !ancestor || left < position
}

// readHistory reads that of a timeline. Its zero value: the archive has none, or it is empty, as those of numbers that a promotion has passed over.
func readHistory(ctx context.Context, store objstore.Store, lineage string, timeline uint32) (postgres.TimelineHistory, error) {
	content, _, err := wal.New(store).Get(ctx, lineage, postgres.HistoryName(timeline))
	if errors.Is(err, objstore.ErrNotFound) {
		return postgres.TimelineHistory{}, nil
	}
	if err != nil {
		return postgres.TimelineHistory{}, fmt.Errorf("history of timeline %d: %w", timeline, err)
	}
	history, err := postgres.ParseTimelineHistory(timeline, content)
	if len(history.Ancestors) == 0 {
		return postgres.TimelineHistory{}, err
	}
	return history, err
}

// localHistory is the newest that PostgreSQL has kept beside its WAL. Its zero value: it has none.
func localHistory(pgdata string) (newest postgres.TimelineHistory, err error) {
	folder := filepath.Join(pgdata, "pg_wal")
	entries, err := os.ReadDir(folder)
	if err != nil {
		return newest, err
	}
	for _, entry := range entries {
		file, err := postgres.ParseWALName(entry.Name())
		if err != nil || file.Kind != postgres.WALHistory || file.Timeline <= newest.Timeline {
			continue
		}
		content, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			return newest, err
		}
		if history, err := postgres.ParseTimelineHistory(file.Timeline, content); err == nil && len(history.Ancestors) > 0 {
			newest = history
		}
	}
	return newest, nil
}
