package inventory

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"howdah.dev/howdah/pkg/backup/repository"
	"howdah.dev/howdah/pkg/backup/retention"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
)

// run is a row of segments of one timeline without a gap, by their numbers, both included.
type run struct{ first, last uint64 }

type manifest struct {
	id  string
	put time.Time
}

// listing gathers what the names in a lineage say.
type listing struct {
	Lineage
	manifests []manifest
	histories []objstore.Info
	segments  map[uint32][]run
	open      map[uint32]uint64 // by timeline, the last segment of which there are pieces
	lastWAL   time.Time
}

// add takes in the next object of a list in order.
func (l *listing) add(info objstore.Info) {
	name := l.Lineage.Lineage.Lineage
	switch id := path.Base(path.Dir(info.Key)); {
	case strings.HasPrefix(info.Key, repository.BackupsPrefix(name)):
		l.StoredBytes += info.Size
		if info.Key == repository.ManifestKey(name, id) && repository.CheckName("backup", id) == nil {
			l.manifests = append(l.manifests, manifest{id, info.Modified})
			l.wrote(info.Modified)
		}
	case strings.HasPrefix(info.Key, repository.PacksPrefix(name)):
		l.StoredBytes += info.Size
	case strings.HasPrefix(info.Key, repository.WALPrefix(name)):
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
	if segment, is := wal.OpenSegment(name); is {
		l.addOpen(segment, info)
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
		l.wroteWAL(info.Modified)
		runs := l.segments[file.Segment.Timeline]
		if n := len(runs); n > 0 && runs[n-1].last+1 == file.Segment.Number {
			runs[n-1].last++
			return
		}
		l.segments[file.Segment.Timeline] = append(runs, run{file.Segment.Number, file.Segment.Number})
	}
}

// addOpen takes in a piece of a segment that is, or was, still written.
func (l *listing) addOpen(name string, info objstore.Info) {
	segment, err := postgres.ParseSegment(name, l.SegmentSize)
	if err != nil {
		return
	}
	l.wroteWAL(info.Modified)
	l.open[segment.Timeline] = segment.Number
}

func (l *listing) wroteWAL(at time.Time) {
	l.wrote(at)
	if at.After(l.lastWAL) {
		l.lastWAL = at
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
			if err == nil {
				history, err = postgres.ParseTimelineHistory(file.Timeline, content)
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

// window finds out what can be restored: it goes back from the last segment of the newest timeline as far as there is
// none missing, and takes the oldest backup from which replay gets there.
func (l *listing) window(ctx context.Context, store objstore.Store) error {
	newest := l.newest()
	if err := l.adoptOpen(ctx, store, newest); err != nil || len(l.segments[newest]) == 0 {
		return err
	}
	history := l.historyOf(newest)
	runs := l.segments[newest]
	tip := runs[len(runs)-1].last
	unbroken := l.unbroken(history, tip)
	for _, b := range slices.Backward(l.Backups) { // oldest first
		left, ancestor := history.Left(b.Timeline)
		if !ancestor || b.Timeline != newest && b.Stop > left || b.First > tip {
			continue
		}
		if b.First < unbroken {
			l.Window.Missing = l.segment(history, unbroken-1).Name()
			continue
		}
		l.Window.From = b.Stopped
		to, err := l.lastCommit(ctx, store, history, unbroken, tip)
		if to.Before(b.Stopped) {
			to = b.Stopped
		}
		l.Window.To = to
		return err
	}
	return nil
}

// newest is the last timeline with WAL.
func (l *listing) newest() (newest uint32) {
	for timeline := range l.segments {
		newest = max(newest, timeline)
	}
	for timeline := range l.open {
		newest = max(newest, timeline)
	}
	return newest
}

// adoptOpen counts the segment of a timeline that is still written, if it is there in pieces from its begin on, and comes
// right behind those that are whole.
func (l *listing) adoptOpen(ctx context.Context, store objstore.Store, timeline uint32) error {
	number, there := l.open[timeline]
	runs := l.segments[timeline]
	if !there || len(runs) > 0 && runs[len(runs)-1].last+1 != number {
		return nil
	}
	segment := postgres.Segment{Timeline: timeline, Number: number, SegSize: l.SegmentSize}
	end, err := wal.New(store).OpenEnd(ctx, l.Lineage.Lineage.Lineage, segment)
	switch {
	case err != nil || end == 0:
		return err
	case len(runs) == 0:
		l.segments[timeline] = []run{{number, number}}
	default:
		runs[len(runs)-1].last = number
	}
	return nil
}

func (l *listing) historyOf(timeline uint32) postgres.TimelineHistory {
	for _, t := range l.Timelines {
		if t.History.Timeline == timeline {
			return t.History
		}
	}
	return postgres.TimelineHistory{Timeline: timeline}
}

// segment is the file that replay along a history reads under a number.
func (l *listing) segment(history postgres.TimelineHistory, number uint64) postgres.Segment {
	s := postgres.Segment{Number: number, SegSize: l.SegmentSize}
	s.Timeline = history.At(s.End() - 1)
	return s
}

// unbroken is the number of the first segment from which on none is missing up to the tip.
func (l *listing) unbroken(history postgres.TimelineHistory, tip uint64) uint64 {
	first := tip
	for first > 0 {
		timeline := l.segment(history, first).Timeline
		holder := l.holder(timeline, first)
		if holder == nil {
			return first + 1
		}
		// Within the row, down to where the history was on an older timeline.
		first = holder.first
		for _, a := range history.Ancestors {
			if a.Timeline < timeline {
				first = max(first, uint64(a.LSN)/l.SegmentSize)
			}
		}
		if first == 0 || l.holder(l.segment(history, first-1).Timeline, first-1) == nil {
			return first
		}
		first--
	}
	return first
}

func (l *listing) holder(timeline uint32, number uint64) *run {
	for i, r := range l.segments[timeline] {
		if r.first <= number && number <= r.last {
			return &l.segments[timeline][i]
		}
	}
	return nil
}

// commitDepth bounds how many headers are read for the time of the last commit.
const commitDepth = 16

// lastCommit is the time of the last commit that the WAL up to the tip is known to hold; the time of archiving where no
// header tells.
func (l *listing) lastCommit(ctx context.Context, store objstore.Store, history postgres.TimelineHistory, from, tip uint64) (time.Time, error) {
	archive := wal.New(store)
	for number, depth := tip, 0; number >= from && depth < commitDepth; number, depth = number-1, depth+1 {
		header, err := archive.ReadHeader(ctx, l.Lineage.Lineage.Lineage, l.segment(history, number).Name())
		switch {
		case errors.Is(err, objstore.ErrNotFound), errors.Is(err, wal.ErrCorrupt):
			continue
		case err != nil:
			return time.Time{}, err
		case header.LastCommit != nil:
			return *header.LastCommit, nil
		}
		if number == 0 {
			break
		}
	}
	return l.lastWAL, nil
}
