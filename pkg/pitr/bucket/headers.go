package bucket

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/errgroup"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/pitr"
	"howdah.dev/howdah/pkg/postgres"
)

// Header implements pitr.Headers.
func (l *lineage) Header(segment postgres.Segment) (pitr.Header, error) {
	header, err := l.archive.ReadHeader(l.ctx, l.owner.Lineage, segment.Name())
	return pitr.Header{EndLSN: header.EndLSN, LastCommit: header.LastCommit}, err
}

// pointReaders is how many headers are read at once in search of a restore point.
const pointReaders = 16

// RestorePoints implements pitr.Headers.
func (l *lineage) RestorePoints(segments []postgres.Segment, name string) ([]pitr.RestorePoint, error) {
	group, ctx := errgroup.WithContext(l.ctx)
	group.SetLimit(pointReaders)
	var mu sync.Mutex
	var found []pitr.RestorePoint
	for _, segment := range segments {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			points, err := l.pointsIn(ctx, segment, name)
			mu.Lock()
			defer mu.Unlock()
			found = append(found, points...)
			return err
		})
	}
	return found, errors.Join(group.Wait(), l.ctx.Err())
}

func (l *lineage) pointsIn(ctx context.Context, segment postgres.Segment, name string) ([]pitr.RestorePoint, error) {
	header, err := l.archive.ReadHeader(ctx, l.owner.Lineage, segment.Name())
	if errors.Is(err, objstore.ErrNotFound) {
		return nil, nil // removed meanwhile; the reach tells whether it matters
	}
	if err != nil {
		return nil, err
	}
	var found []pitr.RestorePoint
	for _, p := range header.RestorePoints {
		if p.Name == name {
			found = append(found, pitr.RestorePoint(p))
		}
	}
	return found, nil
}
