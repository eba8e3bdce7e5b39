package survey

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
)

// reach walks the WAL behind a backup to its end or to the first segment that is missing.
func (r *reader) reach(ctx context.Context, head *backup.Head, path postgres.TimelineHistory) (Reach, error) {
	legs := follow(path, head)
	reach := Reach{Timeline: legs[len(legs)-1].timeline}
	var stretches []stretch
	for i, l := range legs {
		stretch, missing, err := r.walk(ctx, l, i == len(legs)-1)
		if err != nil {
			return Reach{}, err
		}
		if stretch.count() > 0 {
			stretches = append(stretches, stretch)
			reach.Segments += stretch.count()
		}
		if missing != "" {
			reach.Missing = missing
			break
		}
	}
	if len(stretches) == 0 {
		return reach, nil
	}
	reach.First, reach.Last = stretches[0].first, stretches[len(stretches)-1].last
	header, err := r.archive.ReadHeader(ctx, r.lineage, reach.Last.Name())
	if err != nil {
		return Reach{}, err
	}
	reach.EndLSN = header.EndLSN
	if reach.EndLSN.IsZero() {
		reach.EndLSN = reach.Last.End()
	}
	reach.LastCommit, reach.Unsure, err = r.lastCommit(ctx, stretches)
	return reach, err
}

// stretch is a run of archived segments of one timeline.
type stretch struct{ first, last postgres.Segment }

func (s stretch) count() int64 {
	if s.first.SegSize == 0 {
		return 0
	}
	return int64(s.last.Number) - int64(s.first.Number) + 1
}

// walk follows one leg as far as there are segments, and names the one that is missing on the way.
func (r *reader) walk(ctx context.Context, l leg, open bool) (stretch, string, error) {
	first, needed, some := l.needs(r.segSize)
	if !open && !some {
		return stretch{}, "", nil
	}
	horizon, err := r.archive.Horizon(ctx, r.lineage, l.timeline, l.from)
	if errors.Is(err, objstore.ErrNotFound) {
		return stretch{}, first.Name(), nil
	}
	if err != nil {
		return stretch{}, "", err
	}
	last := horizon.Segment
	if horizon.Open && !open { // what goes on on the next timeline goes on behind the whole segment
		if last == first {
			return stretch{}, first.Name(), nil
		}
		last.Number--
	}
	if open {
		needed = r.lastOf(l.timeline)
	}
	switch {
	case last.Number < needed.Number:
		return stretch{first, last}, last.Next().Name(), nil
	case !open:
		last = needed
	}
	return stretch{first, last}, "", nil
}

func (r *reader) lastOf(timeline uint32) postgres.Segment {
	for _, t := range r.coverage.Timelines {
		if t.ID == timeline {
			return t.Last
		}
	}
	return postgres.Segment{}
}

// commitDepth bounds how many headers are read back from the end to find a commit.
const commitDepth = 2048

func (r *reader) lastCommit(ctx context.Context, stretches []stretch) (at *time.Time, unsure bool, err error) {
	depth := 0
	for _, s := range slices.Backward(stretches) {
		for segment := s.last; segment.Number >= s.first.Number; segment.Number-- {
			if depth++; depth > commitDepth {
				return nil, true, nil
			}
			header, err := r.archive.ReadHeader(ctx, r.lineage, segment.Name())
			if err != nil {
				return nil, false, err
			}
			if header.LastCommit != nil {
				return header.LastCommit, false, nil
			}
			if segment.Number == 0 {
				break
			}
		}
	}
	return nil, false, nil
}

// pointReaders is how many headers are read at once in search of a restore point.
const pointReaders = 16

// points finds a restore point by its name in the headers of all segments from a position on that are on the way, oldest
// first. The segment in which a timeline was left is in the archive twice, and counts once.
func (r *reader) points(ctx context.Context, from postgres.LSN, name string, path postgres.TimelineHistory) ([]wal.RestorePoint, error) {
	outer := ctx
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(pointReaders)
	var mu sync.Mutex
	var found []wal.RestorePoint
	for _, timeline := range r.coverage.Timelines {
		left, related := path.Left(timeline.ID)
		if !related {
			continue
		}
		for segment := timeline.First; segment.Number <= timeline.Last.Number && ctx.Err() == nil; segment = segment.Next() {
			if segment.End() <= from {
				continue
			}
			group.Go(func() error {
				points, err := r.pointsIn(ctx, segment, name)
				mu.Lock()
				defer mu.Unlock()
				for _, p := range points {
					if (left.IsZero() || p.LSN < left) && !slices.ContainsFunc(found, func(f wal.RestorePoint) bool { return f.LSN == p.LSN }) {
						found = append(found, p)
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

func (r *reader) pointsIn(ctx context.Context, segment postgres.Segment, name string) ([]wal.RestorePoint, error) {
	header, err := r.archive.ReadHeader(ctx, r.lineage, segment.Name())
	if errors.Is(err, objstore.ErrNotFound) {
		return nil, nil // a hole; reach tells whether it matters
	}
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(header.RestorePoints, func(p wal.RestorePoint) bool { return p.Name != name }), nil
}
