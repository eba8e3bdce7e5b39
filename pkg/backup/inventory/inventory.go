// Package inventory looks a whole repository through: which backups and which WAL each lineage has, how much space they
// take, and which stretch of time can be restored.
package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/retention"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/pitr"
	"howdah.dev/howdah/pkg/postgres"
)

// Backup is one backup of a lineage, without what takes much memory.
type Backup struct {
	ID                 string
	Type               backup.Type
	Cluster, Namespace string
	Started, Stopped   time.Time
	Timeline           uint32
	Start, Stop        postgres.LSN
	First, Last        uint64 // numbers of the first and the last WAL segment that it needs
	LogicalBytes       int64
	// Incomplete: WAL is missing without which the backup can't be restored at all.
	Incomplete bool
	// DamagedPages is how many pages failed their checksum when they were backed up.
	DamagedPages int
}

// Lineage is what a repository has of one lineage.
type Lineage struct {
	layout.Lineage
	Backups []Backup // newest first
	Damaged []string // ids of those whose manifest can't be read
	// Unreadable says why lineage.json or the history of a timeline can't be read; empty: all can. Without lineage.json nothing is known of
	// the lineage but its name and its size.
	Unreadable string
	// StoredBytes of packs and manifests, and WALBytes.
	StoredBytes, WALBytes int64
	// LastWritten is when WAL, or something of a backup, was put last.
	LastWritten time.Time
	Timelines   []retention.Timeline
	WAL         []pitr.Run
	Window      Window
	// Unlinked is the newest timeline if its history is missing and no backup leads to it, so that nobody knows from which backup
	// the end of the lineage could be restored if the history was found; else 0.
	Unlinked uint32
	// Windows are all stretches of time that can be restored, oldest first.
	Windows []pitr.Window
}

// Reader reads one repository again and again. It remembers what can't change: manifests, histories and the
// headers of WAL.
type Reader struct {
	backups   map[string]Backup
	histories map[string]postgres.TimelineHistory
	headers   map[string]pitr.Header
}

// NewReader makes a Reader that knows nothing yet. It isn't safe for concurrent use.
func NewReader() *Reader {
	return &Reader{backups: map[string]Backup{}, histories: map[string]postgres.TimelineHistory{}, headers: map[string]pitr.Header{}}
}

// Read looks at all lineages. A damaged backup or lineage is named, and anything else that can't be read is an error.
func (r *Reader) Read(ctx context.Context, store objstore.Store) ([]Lineage, error) {
	names, err := layout.Lineages(ctx, store)
	if err != nil {
		return nil, err
	}
	var lineages []Lineage
	seen := NewReader()
	for _, name := range names {
		lineage, err := r.readNamed(ctx, store, name, seen)
		if err != nil {
			return nil, fmt.Errorf("lineage %s: %w", name, err)
		}
		if lineage.Lineage.Lineage != "" {
			lineages = append(lineages, lineage)
		}
	}
	*r = *seen
	slices.SortStableFunc(lineages, func(a, b Lineage) int { return b.LastWritten.Compare(a.LastWritten) })
	return lineages, nil
}

// readNamed reads a lineage, or says why it can't be read. It is empty if it was deleted meanwhile.
func (r *Reader) readNamed(ctx context.Context, store objstore.Store, name string, seen *Reader) (Lineage, error) {
	owner, err := layout.ReadLineage(ctx, store, name)
	switch {
	case errors.Is(err, objstore.ErrNotFound):
		return unreadable(ctx, store, name, layout.LineageKey(name)+" is missing")
	case layout.Damaged(err):
		return unreadable(ctx, store, name, err.Error())
	case err != nil:
		return Lineage{}, err
	}
	return r.read(ctx, store, owner, seen)
}

func (r *Reader) read(ctx context.Context, store objstore.Store, owner layout.Lineage, seen *Reader) (Lineage, error) {
	l := listing{Lineage: Lineage{Lineage: owner, LastWritten: owner.Created}}
	for info, err := range store.List(ctx, layout.LineagePrefix(owner.Lineage), "") {
		if err != nil {
			return Lineage{}, err
		}
		l.add(info)
		if err := l.check(); err != nil {
			return Lineage{}, err
		}
	}
	if err := r.readBackups(ctx, store, &l, seen); err != nil {
		return Lineage{}, err
	}
	if err := r.readHistories(ctx, store, &l, seen); err != nil {
		return Lineage{}, err
	}
	err := l.findWindows(ctx, r, store, seen)
	return l.Lineage, err
}

func (r *Reader) readBackups(ctx context.Context, store objstore.Store, l *listing, seen *Reader) error {
	for _, m := range l.manifests {
		key := l.Lineage.Lineage.Lineage + "/" + m.id + "@" + m.put.UTC().Format(time.RFC3339Nano)
		known, there := r.backups[key]
		if !there {
			header, err := backup.ReadOutline(ctx, store, l.Lineage.Lineage.Lineage, m.id)
			switch {
			case errors.Is(err, objstore.ErrNotFound):
				continue // deleted meanwhile
			case errors.Is(err, backup.ErrCorrupt), errors.Is(err, backup.ErrFormat):
				l.Damaged = append(l.Damaged, m.id)
				continue
			case err != nil:
				return err
			}
			if known, err = summary(header); err != nil {
				l.Damaged = append(l.Damaged, m.id)
				continue
			}
		}
		seen.backups[key] = known
		l.Backups = append(l.Backups, known)
	}
	slices.SortStableFunc(l.Backups, func(a, b Backup) int { return b.Stopped.Compare(a.Stopped) })
	return nil
}

func summary(header *backup.Header) (Backup, error) {
	first, last, err := header.WAL.Segments()
	b := Backup{
		ID: header.ID, Type: header.Type, Cluster: header.Cluster.Name, Namespace: header.Cluster.Namespace,
		Started: header.StartTime, Stopped: header.StopTime, Timeline: header.Timeline, Start: header.StartLSN, Stop: header.StopLSN, First: first.Number, Last: last.Number,
		LogicalBytes: header.Totals.LogicalBytes,
	}
	if header.Damage != nil {
		b.DamagedPages = max(1, header.Damage.Count)
	}
	return b, err
}

// Retained is the lineage as retention looks at it. A backup that can't be restored because WAL is missing counts as damaged.
func (l *Lineage) Retained() retention.Lineage {
	retained := retention.Lineage{Timelines: l.Timelines, End: l.LastWritten}
	for _, b := range l.Backups {
		retained.Backups = append(retained.Backups, retention.Backup{
			ID: b.ID, Time: b.Stopped, Timeline: b.Timeline, Stop: b.Stop, First: b.First, Damaged: b.Incomplete, DamagedPages: b.DamagedPages > 0,
		})
	}
	return retained
}
