package generation

import (
	"os"
	"path/filepath"

	"howdah.dev/howdah/pkg/postgres"
)

// LatestTimeline is the latest one whose history is in pg_wal; 0: there is none. Numbers that were skipped have an empty history, and count
// as well: the Lease names the timeline before any of them is written.
func LatestTimeline(pgdata string) (latest int64) {
	entries, err := os.ReadDir(filepath.Join(pgdata, "pg_wal"))
	if err != nil {
		return 0
	}
	for _, entry := range entries {
		if file, err := postgres.ParseWALName(entry.Name()); err == nil && file.Kind == postgres.WALHistory {
			latest = max(latest, int64(file.Timeline))
		}
	}
	return latest
}
