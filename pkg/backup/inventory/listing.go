package inventory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/retention"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/pitr"
	"howdah.dev/howdah/pkg/postgres"
)

type manifest struct {
	id  string
	put time.Time
}

// listing gathers what the names in a lineage say.
type listing struct {
	Lineage
	manifests []manifest
	histories []objstore.Info
	wal       pitr.Listing // only the WAL in it
}

// maxKept is how many backups, histories of timelines and gaps in the WAL of one lineage are read: an hourly backup for seven years, and
// more than anybody has of the rest. A bucket is not trusted, and a list of it may continue forever.
const maxKept = 1 << 16

// check refuses a list that takes more memory than is worth reading.
func (l *listing) check() error {
	if len(l.manifests)+len(l.histories)+len(l.wal.WAL) > maxKept {
		return fmt.Errorf("there are more than %d backups, timelines and gaps in the WAL, which is more than is read", maxKept)
	}
	return nil
}

// add takes in the next object of a list in order.
func (l *listing) add(info objstore.Info) {
	name := l.Lineage.Lineage.Lineage
	switch id := path.Base(path.Dir(info.Key)); {
	case strings.HasPrefix(info.Key, layout.BackupsPrefix(name)):
		l.StoredBytes += info.Size
		if info.Key == layout.ManifestKey(name, id) && layout.CheckName("backup", id) == nil {
			l.manifests = append(l.manifests, manifest{id, info.Modified})
			l.wrote(info.Modified)
		}
	case strings.HasPrefix(info.Key, layout.PacksPrefix(name)):
		l.StoredBytes += info.Size
		l.wrote(info.Modified) // somebody may be writing a backup whose WAL can't be archived
	case strings.HasPrefix(info.Key, layout.WALPrefix(name)):
		l.WALBytes += info.Size
		l.addWAL(info)
	}
}

func (l *listing) wrote(at time.Time) {
	if at.After(l.LastWritten) {
		l.LastWritten = at
	}
}

func (l *listing) addWAL(info objstore.Info) {
	name := path.Base(info.Key)
	if _, is := wal.OpenSegment(name); is {
		l.addPiece(name, info)
		return
	}
	file, err := postgres.ParseWALFile(name, l.SegmentSize)
	if err != nil {
		return
	}
	switch file.Kind {
	case postgres.WALHistory:
		l.histories = append(l.histories, info)
	case postgres.WALSegment:
		l.wrote(info.Modified)
		l.wal.Archived(file.Segment)
	}
}

// addPiece takes in a piece of a segment that is, or was, still written.
func (l *listing) addPiece(name string, info objstore.Info) {
	l.wrote(info.Modified)
	if of, first := wal.FirstPiece(name); first {
		if segment, err := postgres.ParseSegment(of, l.SegmentSize); err == nil {
			l.wal.InPieces(segment)
		}
	}
}

func (r *Reader) readHistories(ctx context.Context, store objstore.Store, l *listing, seen *Reader) error {
	archive := wal.New(store)
	for _, info := range l.histories {
		history, known := r.histories[info.Key]
		if !known {
			file, err := postgres.ParseWALFile(path.Base(info.Key), l.SegmentSize)
			if err != nil {
				return err
			}
			content, _, err := archive.Get(ctx, l.Lineage.Lineage.Lineage, file.Name)
			bad := errors.Is(err, wal.ErrCorrupt) || errors.Is(err, wal.ErrFormat) || errors.Is(err, objstore.ErrTooLarge)
			if err == nil {
				history, err = postgres.ParseTimelineHistory(file.Timeline, content)
				bad = err != nil
			}
			if bad {
				l.Unreadable = cmp.Or(l.Unreadable, Shorten(fmt.Sprintf("%s: %v", info.Key, err)))
				continue
			}
			if err != nil {
				return fmt.Errorf("history of timeline %d: %w", file.Timeline, err)
			}
		}
		seen.histories[info.Key] = history
		l.Timelines = append(l.Timelines, retention.Timeline{History: history, Since: info.Modified})
	}
	slices.SortFunc(l.Timelines, func(a, b retention.Timeline) int { return int(a.History.Timeline) - int(b.History.Timeline) })
	return nil
}
