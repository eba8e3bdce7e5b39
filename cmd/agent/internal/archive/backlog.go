package archive

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"howdah.dev/howdah/pkg/postgres"
)

// backlog is how far the archive lags, by the server's own notes.
type backlog struct {
	waiting int
	// since is when the first segment that waits was complete.
	since time.Time
	// complete is when the last segment before it was: all that was committed until then is archived.
	complete time.Time
	last     string // that segment
}

// readBacklog reads archive_status. The server makes a note when a file is complete, and renames it when that is archived,
// so the time of a note is that of its file.
func readBacklog(walDir string) (backlog, error) {
	dir := filepath.Join(walDir, "archive_status")
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return backlog{}, err
	}
	b, first, done := backlog{}, "", ""
	for _, entry := range entries { // in the order of names
		name, status, _ := strings.Cut(entry.Name(), ".")
		switch {
		case strings.HasSuffix(status, "ready"):
			b.waiting++
			if first == "" && len(name) == segmentName {
				first = entry.Name()
			}
		case status == "done" && len(name) == segmentName && first == "":
			done, b.last = entry.Name(), name
		}
	}
	b.since, b.complete = noted(dir, first), noted(dir, done)
	return b, nil
}

// noted is the time of a note; zero where there is none, or none any more.
func noted(dir, name string) time.Time {
	if name == "" {
		return time.Time{}
	}
	info, err := os.Stat(filepath.Join(dir, name))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime().UTC()
}

// atRisk is for how long what was committed is on the volume only. A server that writes nothing has nothing at risk; one
// that writes little ends its segment after timeout, where that is set.
func (b backlog) atRisk(walDir string, segSize uint64, timeout time.Duration, now time.Time) time.Duration {
	switch {
	case b.complete.IsZero() && b.since.IsZero():
		return 0 // nothing is known
	case b.complete.IsZero():
		return max(0, now.Sub(b.since))
	}
	age := max(0, now.Sub(b.complete))
	if b.waiting > 0 {
		return age
	}
	last, err := postgres.ParseSegment(b.last, segSize)
	if err != nil {
		return 0
	}
	open, err := os.Stat(filepath.Join(walDir, last.Next().Name()))
	if err != nil || !open.ModTime().After(b.complete) {
		return 0
	}
	if timeout > 0 {
		age = min(age, timeout)
	}
	return age
}
