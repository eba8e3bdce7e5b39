package backup

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"howdah.dev/howdah/pkg/postgres"
)

const (
	summaryPoll = 50 * time.Millisecond
	// scanRate is what pages are read at, at least, where the summaries don't come.
	scanRate = 256 << 20
)

// summaryWait is how long to wait for the summaries: about as long as reading all pages would take.
func summaryWait(bytes int64) time.Duration {
	wait := time.Duration(bytes/scanRate) * time.Second
	return min(2*time.Minute, max(5*time.Second, wait))
}

// summaries reads which blocks the WAL on the path has changed, in the files that the server keeps beside its WAL. It
// waits a while for the last one; nil: the server makes none, or some are not there any more.
func (w *writing) summaries(ctx context.Context, path []stretch, wait time.Duration) (postgres.BlockChanges, error) {
	dir := filepath.Join(w.source.DataDir, postgres.WALSummariesDir)
	var last postgres.LSN
	for begun := time.Now(); ; {
		files, err := listSummaries(dir)
		if err != nil || len(files) == 0 {
			return nil, ctx.Err() // before 17 there is no such folder
		}
		chosen, covered := cover(path, files)
		if covered == path[len(path)-1].to {
			return readSummaries(dir, chosen)
		}
		if covered != last {
			last, begun = covered, time.Now() // it comes nearer
		}
		if time.Since(begun) > wait || !mayCome(path, covered) {
			return nil, nil
		}
		if err := pause(ctx, summaryPoll); err != nil {
			return nil, err
		}
	}
}

// mayCome says whether what is missing from a position on is of the timeline that is written now.
func mayCome(path []stretch, covered postgres.LSN) bool { return covered >= path[len(path)-1].from }

func listSummaries(dir string) ([]postgres.WALSummary, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []postgres.WALSummary
	for _, entry := range entries {
		if s, err := postgres.ParseWALSummary(entry.Name()); err == nil {
			files = append(files, s)
		}
	}
	slices.SortFunc(files, func(a, b postgres.WALSummary) int {
		return cmp.Or(cmp.Compare(a.Timeline, b.Timeline), cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End))
	})
	return files, nil
}

// cover chooses the summaries of a path, and says up to where they cover it without a hole.
func cover(path []stretch, files []postgres.WALSummary) (chosen []postgres.WALSummary, covered postgres.LSN) {
	for _, s := range path {
		at := s.from
		for _, f := range files {
			if f.Timeline != s.timeline || f.End <= at || f.Start >= s.to {
				continue
			}
			if f.Start > at {
				break
			}
			chosen = append(chosen, f)
			at = f.End
		}
		covered = min(at, s.to)
		if covered < s.to {
			break
		}
	}
	return chosen, covered
}

// readSummaries returns nil if one has gone meanwhile or can't be read: pages know it too.
func readSummaries(dir string, chosen []postgres.WALSummary) (postgres.BlockChanges, error) {
	changes := postgres.BlockChanges{}
	for _, s := range chosen {
		file, err := os.Open(filepath.Join(dir, s.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		err = errors.Join(changes.Add(file), file.Close())
		if errors.Is(err, postgres.ErrWALSummary) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return changes, nil
}
