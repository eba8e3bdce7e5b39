package survey

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/repository"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
)

// Read looks into the bucket. Errors: ErrNotThere, *backup.CorruptError, those of objstore.
func Read(ctx context.Context, store objstore.Store, q Question, now func() time.Time) (Report, error) {
	report := Report{At: now()}
	owners, err := lineagesOf(ctx, store, q)
	if err != nil {
		return Report{}, err
	}
	for _, owner := range owners {
		lineage, err := readLineage(ctx, store, owner, q)
		if err != nil {
			return Report{}, fmt.Errorf("lineage %s: %w", owner.Lineage, err)
		}
		report.Lineages = append(report.Lineages, lineage)
	}
	if q.Present == "" {
		latestFirst(report.Lineages)
	}
	return report, nil
}

func readLineage(ctx context.Context, store objstore.Store, owner repository.Lineage, q Question) (Lineage, error) {
	l := Lineage{Name: owner.Lineage, Created: owner.Created}
	if err := l.readHeads(ctx, store, q.BackupID); err != nil {
		return Lineage{}, err
	}
	if len(l.Heads) == 0 {
		return l, nil
	}
	r := &reader{archive: wal.New(store), lineage: owner.Lineage, segSize: owner.SegmentSize}
	if err := l.findPath(ctx, r, q); err != nil {
		return Lineage{}, err
	}
	if q.Target.RestorePoint != "" {
		points, err := r.points(ctx, l.Heads[0].StartLSN, q.Target.RestorePoint, l.Path)
		if err != nil {
			return Lineage{}, err
		}
		l.Points = points
	}
	if l.Chosen = l.choose(q.Target); l.Chosen == nil {
		return l, nil
	}
	var err error
	l.Reach, err = r.reach(ctx, l.Chosen, l.Path)
	return l, err
}

// readHeads reads the one backup that is asked for, or all.
func (l *Lineage) readHeads(ctx context.Context, store objstore.Store, id string) error {
	if id != "" {
		head, err := backup.ReadHead(ctx, store, l.Name, id)
		if errors.Is(err, objstore.ErrNotFound) {
			return fmt.Errorf("%w: the repository has no backup %s; its data was deleted", ErrNotThere, id)
		}
		l.Heads = []*backup.Head{head}
		return err
	}
	entries, err := backup.List(ctx, store, l.Name)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Err != nil {
			l.Damaged = append(l.Damaged, entry.Err)
			continue
		}
		l.Heads = append(l.Heads, entry.Head)
	}
	slices.SortFunc(l.Heads, func(a, b *backup.Head) int { return cmp.Compare(a.StopLSN, b.StopLSN) })
	return nil
}

// choose is the latest backup on the way that stopped before the target, or nil. Replay from it is the shortest.
func (l *Lineage) choose(t Target) *backup.Head {
	for _, head := range slices.Backward(l.Heads) {
		before := l.leadsFrom(head)
		if !before {
			continue
		}
		switch {
		case t.Time != nil:
			before = !head.StopTime.After(*t.Time)
		case !t.LSN.IsZero():
			before = head.StopLSN <= t.LSN
		case t.RestorePoint != "" && len(l.Points) > 0:
			before = head.StopLSN <= l.Points[len(l.Points)-1].LSN
		}
		if before {
			return head
		}
	}
	return nil
}

// findPath lists the WAL and finds the timelines to follow. They decide which backup it begins with, and that one decides
// from where on WAL is listed.
func (l *Lineage) findPath(ctx context.Context, r *reader, q Question) error {
	from := l.oldestNeeded(q.Target)
	if err := r.open(ctx, from); err != nil {
		return err
	}
	newest := r.newest()
	switch wanted := q.Target.Timeline; {
	case wanted != 0:
		l.Path = r.historyOf(wanted)
	case q.BackupID != "":
		l.Path = onward(r.histories, l.Heads[0])
	default:
		l.Path = r.historyOf(newest)
	}
	l.Left = l.Path.Timeline < newest
	if q.Target.Timeline == 0 && !r.linked(newest) && !slices.ContainsFunc(l.Heads, func(h *backup.Head) bool { return h.Timeline == newest }) {
		l.Unlinked = newest
	}
	if earlier := l.oldestNeeded(q.Target); earlier < from {
		return r.open(ctx, earlier)
	}
	return nil
}

// leadsFrom says that the timeline that is followed goes on from a backup: one that was taken on a timeline after it was
// left by a failover leads nowhere.
func (l *Lineage) leadsFrom(head *backup.Head) bool {
	if l.Path.Timeline == 0 || l.Path.Timeline == head.Timeline {
		return true
	}
	left, related := l.Path.Left(head.Timeline)
	return related && left >= head.StopLSN
}

// oldestNeeded is from where on WAL can matter: from the chosen backup, or where a restore point decides which one that is
// from the oldest.
func (l *Lineage) oldestNeeded(t Target) postgres.LSN {
	if chosen := l.choose(t); chosen != nil && t.RestorePoint == "" {
		return chosen.StartLSN
	}
	return l.Heads[0].StartLSN
}

// reader reads the WAL archive of one lineage.
type reader struct {
	archive   *wal.Archive
	lineage   string
	segSize   uint64
	coverage  wal.Coverage
	histories []postgres.TimelineHistory
}

// open lists the WAL from a position on.
func (r *reader) open(ctx context.Context, from postgres.LSN) error {
	var err error
	if r.coverage, err = r.archive.CoverageFrom(ctx, r.lineage, from); err != nil {
		return err
	}
	r.histories = nil
	for _, name := range r.coverage.Histories {
		file, err := postgres.ParseWALFile(name, r.segSize)
		if err != nil {
			return err
		}
		content, _, err := r.archive.Get(ctx, r.lineage, name)
		if err != nil {
			return fmt.Errorf("history of timeline %d: %w", file.Timeline, err)
		}
		history, err := postgres.ParseTimelineHistory(file.Timeline, content)
		if err != nil {
			return err
		}
		if used, err := r.used(ctx, history); err != nil {
			return err
		} else if used {
			r.histories = append(r.histories, history)
		}
	}
	return nil
}

// used says that there is WAL of a timeline. One that has just begun has none yet: what it begins with is on the one before.
func (r *reader) used(ctx context.Context, h postgres.TimelineHistory) (bool, error) {
	if slices.ContainsFunc(r.coverage.Timelines, func(t wal.Timeline) bool { return t.ID == h.Timeline }) || len(h.Ancestors) == 0 {
		return true, nil
	}
	_, err := r.archive.Horizon(ctx, r.lineage, h.Timeline, h.Ancestors[len(h.Ancestors)-1].LSN)
	if errors.Is(err, objstore.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
