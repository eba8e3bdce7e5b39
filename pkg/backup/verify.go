package backup

import (
	"context"
	"fmt"

	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
)

// Verify reads a backup as a restore would, without writing anything, and checks that the WAL it
// needs is archived. Errors: *CorruptError, ErrWALMissing, those of objstore.
func Verify(ctx context.Context, store objstore.Store, manifest *Manifest, opts VerifyOptions) (Verified, error) {
	if err := verifyWAL(ctx, store, &manifest.Head); err != nil {
		return Verified{}, err
	}
	fetcher := &fetcher{store: store, head: &manifest.Head, newSink: func() sink { return nowhere{} }}
	report := newReporter(opts.Progress, func() Progress {
		return Progress{Done: fetcher.content.Load(), Total: manifest.Totals.LogicalBytes, Stored: fetcher.stored.Load()}
	})
	defer report.close()
	report.enter(Copying)
	whole, err := fetcher.run(ctx, manifest.Files, fetchers(opts.Workers, opts.MemoryLimit), opts.MaxBytes)
	return Verified{StoredBytes: fetcher.stored.Load(), Whole: whole}, err
}

// nowhere is a sink for content that only had to be checked.
type nowhere struct{}

func (nowhere) write(wish, []byte) error { return nil }
func (nowhere) close() error             { return nil }

func verifyWAL(ctx context.Context, store objstore.Store, head *Head) error {
	missing, err := missingWAL(ctx, wal.New(store), head.Lineage, head.WAL)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: %d segments from %s on", ErrWALMissing, len(missing), missing[0])
	}
	return nil
}

// missingWAL names the segments that a backup needs and the archive lacks.
func missingWAL(ctx context.Context, archive *wal.Archive, lineage string, needed WALRange) ([]string, error) {
	first, err := postgres.ParseSegment(needed.First, needed.SegmentSize)
	if err != nil {
		return nil, err
	}
	last, err := postgres.ParseSegment(needed.Last, needed.SegmentSize)
	if err != nil {
		return nil, err
	}
	return archive.MissingSegments(ctx, lineage, first, last)
}
