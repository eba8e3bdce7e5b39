package way

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"howdah.dev/howdah/cmd/howdah-backup/internal/catalogue"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/repository"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
)

// ErrUnreachable is a target that no backup leads to. The text is a sentence that says what can be reached.
var ErrUnreachable = errors.New("unreachable")

// Target is the point that is wanted. The zero value is the end of the archive.
type Target struct {
	Time *time.Time
	LSN  postgres.LSN // everything before it
	Name string       // of a restore point
	// Immediate is the end of the backup itself.
	Immediate bool
}

// End says that everything there is shall be replayed.
func (t Target) End() bool { return t == Target{} }

// String names the target for a person.
func (t Target) String() string {
	switch {
	case t.Time != nil:
		return "time " + stamp(*t.Time)
	case !t.LSN.IsZero():
		return "LSN " + t.LSN.String()
	case t.Name != "":
		return fmt.Sprintf("restore point %q", t.Name)
	case t.Immediate:
		return "the end of the backup"
	}
	return "the end of the archive"
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.999999Z") }

// Way leads to a target.
type Way struct {
	Head  *backup.Head
	Reach Reach
	// StopAt is where replay stops; End() of it: where the archive ends.
	StopAt Target
}

// Read reads what there is of a lineage: its backups, or the one of the given id.
func Read(ctx context.Context, store objstore.Store, lineage repository.Lineage, id string) (Lineage, error) {
	l := Lineage{Lineage: lineage}
	entries, err := entries(ctx, store, lineage.Lineage, id)
	if err != nil {
		return l, err
	}
	for _, entry := range entries {
		if entry.Err != nil {
			l.Damaged = append(l.Damaged, entry.Err)
			continue
		}
		l.Heads = append(l.Heads, entry.Head)
	}
	slices.SortFunc(l.Heads, func(a, b *backup.Head) int { return cmp.Compare(a.StopLSN, b.StopLSN) })
	l.Archive, err = Open(ctx, store, lineage.Lineage)
	return l, err
}

func entries(ctx context.Context, store objstore.Store, lineage, id string) ([]backup.Entry, error) {
	if id == "" {
		return backup.List(ctx, store, lineage)
	}
	head, err := backup.ReadHead(ctx, store, lineage, id)
	return []backup.Entry{{Lineage: lineage, ID: id, Head: head, Err: err}}, nil
}

// Find finds the way to a target from the newest backup of the newest lineage that ended before it.
func Find(ctx context.Context, lineages []Lineage, target Target, now time.Time) (Way, error) {
	if target.Time != nil && target.Time.After(now.Add(time.Minute)) {
		return Way{}, fmt.Errorf("%w: time %s is in the future: it is %s now", ErrUnreachable, stamp(*target.Time), stamp(now.Truncate(time.Second)))
	}
	lineages = slices.Clone(lineages)
	slices.SortStableFunc(lineages, func(a, b Lineage) int { return b.Created.Compare(a.Created) })
	for i := range lineages {
		l := &lineages[i]
		points, err := l.points(ctx, target.Name)
		if err != nil {
			return Way{}, err
		}
		if target.Name != "" && len(points) == 0 && i < len(lineages)-1 {
			continue
		}
		if head := l.choose(target, points); head != nil {
			return l.lead(ctx, head, target, points)
		}
	}
	return Way{}, noStart(lineages, target)
}

// choose is the latest backup that stopped before the target, or nil. Replay from it is the shortest.
func (l *Lineage) choose(t Target, points []wal.RestorePoint) *backup.Head {
	for _, head := range slices.Backward(l.Heads) {
		before := true
		switch {
		case t.Time != nil:
			before = !head.StopTime.After(*t.Time)
		case !t.LSN.IsZero():
			before = head.StopLSN <= t.LSN
		case len(points) > 0:
			before = head.StopLSN <= points[len(points)-1].LSN
		}
		if before {
			return head
		}
	}
	return nil
}

func noStart(lineages []Lineage, target Target) error {
	var oldest *backup.Head
	var damaged []string
	for _, l := range lineages {
		for _, err := range l.Damaged {
			damaged = append(damaged, err.Error())
		}
		if len(l.Heads) > 0 {
			oldest = l.Heads[0]
		}
	}
	switch {
	case oldest != nil:
		return fmt.Errorf("%w: there is no backup before %s: the oldest one, %s, leads to %s (LSN %s) and later",
			ErrUnreachable, target, oldest.ID, stamp(oldest.StopTime), oldest.StopLSN)
	case len(damaged) > 0:
		return fmt.Errorf("%w: no backup can be read: %s", backup.ErrCorrupt, strings.Join(damaged, "; "))
	}
	return fmt.Errorf("%w: there is no backup to begin with", catalogue.ErrNotThere)
}

// lead checks whether the WAL behind a backup leads to the target.
func (l *Lineage) lead(ctx context.Context, head *backup.Head, target Target, points []wal.RestorePoint) (Way, error) {
	w := Way{Head: head, Reach: l.Archive.Behind(head), StopAt: target}
	if err := l.Archive.Measure(ctx, &w.Reach); err != nil {
		return w, err
	}
	if !w.Reach.Covers(head) {
		missing := w.Reach.Missing
		if missing == "" {
			missing = head.WAL.Last
		}
		return w, fmt.Errorf("%w: WAL segment %s is missing in the archive, and backup %s can't be restored without it: restore another backup",
			ErrUnreachable, missing, head.ID)
	}
	var err error
	switch {
	case target.Immediate:
	case target.Time != nil:
		err = l.leadToTime(&w, *target.Time)
	case !target.LSN.IsZero():
		err = w.leadToLSN(target.LSN)
	case target.Name != "":
		err = w.leadToPoint(target, points)
	case w.Reach.Missing != "":
		err = w.gap("write --to-time until then, or restore a later backup")
	}
	return w, err
}

// leadToTime: PostgreSQL stops at a time only when it meets a transaction that ended later. Where the archive has none,
// everything in it is wanted, provided that nothing else was committed until then: a later backup proves that.
func (l *Lineage) leadToTime(w *Way, at time.Time) error {
	last := w.lastKnown()
	known := last
	for _, head := range l.Heads {
		if head.StopLSN <= w.Reach.EndLSN && head.StopTime.After(known) {
			known = head.StopTime
		}
	}
	switch {
	case at.Before(last) || w.Reach.Unsure:
		return nil
	case !at.After(known):
		w.StopAt = Target{}
		return nil
	case w.Reach.Missing != "":
		return w.gap("write a time until then")
	}
	return w.beyond("write a time until then, or --latest for all there is")
}

func (w *Way) leadToLSN(at postgres.LSN) error {
	last, err := postgres.ParseSegment(w.Reach.Last, w.Head.WAL.SegmentSize)
	if err != nil {
		return err
	}
	switch {
	case at < w.Reach.EndLSN:
		return nil
	case at <= last.End():
		w.StopAt = Target{} // no record begins there or behind it, so everything there is comes before it
		return nil
	case w.Reach.Missing != "":
		return w.gap("write a position until there")
	}
	return w.beyond("write a position until there, or --latest for all there is")
}

func (w *Way) leadToPoint(target Target, points []wal.RestorePoint) error {
	var places []string
	for _, point := range points {
		if point.LSN >= w.Head.StopLSN {
			places = append(places, fmt.Sprintf("%s (%s)", point.LSN, stamp(point.Time)))
		}
	}
	switch {
	case len(places) > 1:
		return fmt.Errorf("%w: there is more than one %s behind backup %s, at LSN %s: write --to-lsn instead",
			ErrUnreachable, target, w.Head.ID, strings.Join(places, " and "))
	case len(places) == 1 && points[len(points)-1].LSN < w.Reach.EndLSN:
		return nil
	case w.Reach.Missing != "":
		return w.gap("restore a later backup")
	}
	return fmt.Errorf("%w: there is no %s in the archive behind backup %s (%s to %s)",
		ErrUnreachable, target, w.Head.ID, stamp(w.Head.StopTime), stamp(w.lastKnown()))
}

// lastKnown is the time of the last commit as far as known.
func (w *Way) lastKnown() time.Time {
	if w.Reach.LastCommit != nil && w.Reach.LastCommit.After(w.Head.StopTime) {
		return *w.Reach.LastCommit
	}
	return w.Head.StopTime
}

// gap refuses a target behind a hole in the archive.
func (w *Way) gap(advice string) error {
	return fmt.Errorf("%w: WAL segment %s is missing in the archive, so %s can't be reached: replay leads to LSN %s, and the last commit before it is at %s; %s",
		ErrUnreachable, w.Reach.Missing, w.StopAt, w.Reach.EndLSN, stamp(w.lastKnown()), advice)
}

// beyond refuses a target behind the end of the archive.
func (w *Way) beyond(advice string) error {
	return fmt.Errorf("%w: %s can't be reached: the archive ends at LSN %s, and the last commit in it is at %s: %s",
		ErrUnreachable, w.StopAt, w.Reach.EndLSN, stamp(w.lastKnown()), advice)
}

// pointReaders is how many headers are read at once in search of a restore point.
const pointReaders = 16

// points finds a restore point by its name in the headers of all segments behind the oldest backup, oldest first.
func (l *Lineage) points(ctx context.Context, name string) ([]wal.RestorePoint, error) {
	if name == "" || len(l.Heads) == 0 {
		return nil, nil
	}
	outer := ctx
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(pointReaders)
	var mu sync.Mutex
	var found []wal.RestorePoint
	for _, timeline := range l.Archive.Coverage.Timelines {
		for segment := timeline.First; segment.Number <= timeline.Last.Number && ctx.Err() == nil; segment = segment.Next() {
			if segment.End() <= l.Heads[0].StartLSN {
				continue
			}
			group.Go(func() error {
				header, err := l.Archive.wal.ReadHeader(ctx, l.Archive.Coverage.Lineage, segment.Name())
				if errors.Is(err, objstore.ErrNotFound) {
					return nil // a hole; Behind tells whether it matters
				}
				mu.Lock()
				defer mu.Unlock()
				for _, point := range header.RestorePoints {
					if point.Name == name {
						found = append(found, point)
					}
				}
				return err
			})
		}
	}
	if err := errors.Join(group.Wait(), outer.Err()); err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b wal.RestorePoint) int { return a.Time.Compare(b.Time) })
	return found, nil
}
