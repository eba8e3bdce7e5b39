// Package bucket reads from a repository what pitr asks about its lineages, and no more than the target needs: the headers of the
// manifests, the names of the WAL from the backup on that replay begins with, and the headers of a few segments.
package bucket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/pitr"
	"howdah.dev/howdah/pkg/postgres"
)

// Examined are lineages of one database with what they have for a target. It has no header of a backup, as those may be large and there may be many
// lineages: backup.ReadOutline reads that of the one that is chosen.
type Examined struct {
	Candidates []pitr.Candidate
}

// Examine reads what lineages have for a target. With the id of a backup, only that one is looked at; objstore.ErrNotFound: there is
// no such backup. Other errors: *backup.CorruptError, wal.ErrCorrupt, and those of objstore.
func Examine(ctx context.Context, store objstore.Store, owners []layout.Lineage, backupID string, target pitr.Target) (Examined, error) {
	all := Examined{}
	for _, owner := range owners {
		candidate, err := newLineage(ctx, store, owner).examine(backupID, target)
		if err != nil {
			return Examined{}, fmt.Errorf("lineage %s: %w", owner.Lineage, err)
		}
		all.Candidates = append(all.Candidates, candidate)
	}
	return all, nil
}

// Reach reads how far the WAL after a backup leads, on the newest timeline that continues from it.
func Reach(ctx context.Context, store objstore.Store, header *backup.Header) (pitr.Reach, error) {
	owner, err := layout.ReadLineage(ctx, store, header.Lineage)
	if err != nil {
		return pitr.Reach{}, err
	}
	l := newLineage(ctx, store, owner)
	b := Backup(header)
	l.backups = []pitr.Backup{b}
	graph, err := l.list(header.StartLSN)
	if err != nil {
		return pitr.Reach{}, err
	}
	reach := graph.Reach(b, graph.Onward(b))
	return reach, reach.Measure(l)
}

// Backup is what the header of a manifest says to pitr.
func Backup(header *backup.Header) pitr.Backup {
	return pitr.Backup{ID: header.ID, Timeline: header.Timeline, StartLSN: header.StartLSN, StopLSN: header.StopLSN, StopTime: header.StopTime}
}

// lineage is one while it is read. It implements pitr.Headers.
type lineage struct {
	ctx       context.Context // pitr, which knows none, calls back
	store     objstore.Store
	archive   *wal.Archive
	owner     layout.Lineage
	backups   []pitr.Backup // what is kept of their headers, which may be large
	damaged   []string
	histories map[string]postgres.TimelineHistory // by name; they don't change
}

func newLineage(ctx context.Context, store objstore.Store, owner layout.Lineage) *lineage {
	return &lineage{ctx: ctx, store: store, archive: wal.New(store), owner: owner, histories: map[string]postgres.TimelineHistory{}}
}

func (l *lineage) examine(backupID string, target pitr.Target) (pitr.Candidate, error) {
	if err := l.readBackups(backupID); err != nil {
		return pitr.Candidate{}, err
	}
	graph, err := l.graph(backupID, target)
	if err != nil {
		return pitr.Candidate{}, err
	}
	return graph.Examine(target, backupID, l)
}

// readBackups reads the one backup that is asked for, or all, one after the other.
func (l *lineage) readBackups(id string) error {
	if id != "" {
		header, err := backup.ReadOutline(l.ctx, l.store, l.owner.Lineage, id)
		if err == nil {
			l.backups = []pitr.Backup{Backup(header)}
		}
		return err
	}
	return backup.Each(l.ctx, l.store, l.owner.Lineage, func(entry backup.Entry) error {
		switch {
		case errors.Is(entry.Err, objstore.ErrNotFound): // deleted meanwhile
		case errors.Is(entry.Err, backup.ErrCorrupt), errors.Is(entry.Err, backup.ErrFormat):
			l.damaged = append(l.damaged, entry.Err.Error())
		case entry.Err != nil:
			return entry.Err
		default:
			l.backups = append(l.backups, Backup(entry.Header))
		}
		return nil
	})
}

// graph lists the WAL from where on it can matter. The timelines decide with which backup replay begins, and that one decides from
// where on WAL is listed.
func (l *lineage) graph(backupID string, target pitr.Target) (*pitr.Graph, error) {
	from := l.begin(target)
	for {
		graph, err := l.list(from)
		if err != nil {
			return nil, err
		}
		earlier := l.hidden(graph, from)
		if chosen, found := graph.Choose(target, backupID); found && target.RestorePoint == "" {
			earlier = min(earlier, chosen.StartLSN)
		}
		if earlier >= from {
			return graph, nil
		}
		from = earlier
	}
}

// begin is from where on WAL can matter, as long as nobody knows which backup leads where. Where a restore point decides which one
// that is, it is from the oldest on.
func (l *lineage) begin(target pitr.Target) postgres.LSN {
	var latest *pitr.Backup
	for i := range l.backups {
		if b := &l.backups[i]; target.Follows(*b) && (latest == nil || b.StopLSN > latest.StopLSN) {
			latest = b
		}
	}
	if latest == nil || target.RestorePoint != "" {
		return l.oldest()
	}
	return latest.StartLSN
}

func (l *lineage) oldest() postgres.LSN {
	if len(l.backups) == 0 {
		return 0
	}
	return slices.MinFunc(l.backups, func(a, b pitr.Backup) int { return cmp.Compare(a.StartLSN, b.StartLSN) }).StartLSN
}

// hidden is where a timeline begins whose WAL may all lie before what was listed, though it is newer than all that was found.
func (l *lineage) hidden(graph *pitr.Graph, from postgres.LSN) postgres.LSN {
	for _, h := range l.histories {
		if n := len(h.Ancestors); n > 0 && h.Timeline > graph.Newest() {
			from = min(from, h.Ancestors[n-1].LSN)
		}
	}
	return from
}

// list lists the WAL from a position on.
func (l *lineage) list(from postgres.LSN) (*pitr.Graph, error) {
	coverage, err := l.archive.CoverageFrom(l.ctx, l.owner.Lineage, from)
	if err != nil {
		return nil, err
	}
	listing := pitr.Listing{
		Lineage: l.owner.Lineage, Created: l.owner.Created, SegmentSize: l.owner.SegmentSize, Damaged: l.damaged, WAL: runs(coverage),
	}
	listing.Backups = append(listing.Backups, l.backups...)
	for _, name := range coverage.Histories {
		history, err := l.history(name)
		if err != nil {
			return nil, err
		}
		listing.Histories = append(listing.Histories, history)
	}
	return pitr.New(listing), nil
}

func (l *lineage) history(name string) (postgres.TimelineHistory, error) {
	if known, there := l.histories[name]; there {
		return known, nil
	}
	file, err := postgres.ParseWALFile(name, l.owner.SegmentSize)
	if err != nil {
		return postgres.TimelineHistory{}, err
	}
	content, _, err := l.archive.Get(l.ctx, l.owner.Lineage, name)
	if err != nil {
		return postgres.TimelineHistory{}, fmt.Errorf("history of timeline %d: %w", file.Timeline, err)
	}
	history, err := postgres.ParseTimelineHistory(file.Timeline, content)
	if err == nil {
		l.histories[name] = history
	}
	return history, err
}

// runs are what is between the holes.
func runs(coverage wal.Coverage) []pitr.Run {
	var found []pitr.Run
	for _, t := range coverage.Timelines {
		run := pitr.Run{First: t.First}
		for _, hole := range t.Holes {
			run.Last = hole.First
			run.Last.Number--
			found = append(found, run)
			run = pitr.Run{First: hole.Last.Next()}
		}
		run.Last, run.Open = t.Last, t.Open
		found = append(found, run)
	}
	return found
}
