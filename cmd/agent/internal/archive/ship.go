package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/postgres"
)

// The segment that the server writes may be shipped before it is complete, a piece every few seconds: see package wal. That
// acknowledges nothing: the server asks for the whole segment in any case.

const shipTime = 20 * time.Second // for one piece

// shipped is what is in the archive of the open segment.
type shipped struct {
	segment string
	end     int64     // offset
	at      time.Time // all that was committed until then is there
}

// Ship puts what the server, a primary, has flushed of its open segment and is not in the archive yet. Whole segments come
// first: while one waits, nothing is shipped. At is before it was asked how far it has flushed. One goroutine calls this.
func (a *Archiver) Ship(ctx context.Context, timeline uint32, flushed postgres.LSN, at time.Time) error {
	a.mu.Lock()
	t := a.target
	idle := t == nil || a.server.replica || a.server.ending != running || !a.health.FailingSince.IsZero()
	a.mu.Unlock()
	if idle {
		return nil
	}
	segment := postgres.SegmentBefore(timeline, flushed, t.Claim.SegmentSize)
	to := flushed.Sub(segment.Start())
	if names, err := Ready(a.walDir); err != nil || len(names) > 0 || flushed >= segment.End() {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, shipTime)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	from, err := t.shippedTo(ctx, segment)
	if err != nil {
		return err
	}
	if from < to {
		if err := t.ship(ctx, filepath.Join(a.walDir, segment.Name()), segment, from, to); err != nil {
			return err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	t.shipped = shipped{segment.Name(), max(from, to), at.UTC()}
	a.releaseLater()
	return nil
}

// shippedTo is up to where a segment is in the archive, which may be by a former life of this agent.
func (t *target) shippedTo(ctx context.Context, segment postgres.Segment) (int64, error) {
	if t.shipped.segment == segment.Name() {
		return t.shipped.end, nil
	}
	if err := t.claim(ctx); err != nil {
		return 0, err
	}
	return t.archive.OpenEnd(ctx, t.Claim.Lineage, segment)
}

// ship puts the part of a segment between two offsets.
func (t *target) ship(ctx context.Context, path string, segment postgres.Segment, from, to int64) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	// What lies after is of a former use of the file.
	pages := io.MultiReader(io.NewSectionReader(f, 0, to), io.LimitReader(nothing{}, int64(t.Claim.SegmentSize)-to))
	scan, err := postgres.ReadWAL(pages, t.takeTail(segment.Name()))
	if err != nil {
		return fmt.Errorf("%s holds no WAL: %w", segment, err)
	}
	if system := strconv.FormatUint(scan.SystemIdentifier, 10); system != t.Claim.SystemIdentifier {
		return fmt.Errorf("%s is WAL of system %s, and the lineage is that of %s", segment, system, t.Claim.SystemIdentifier)
	}
	info := known(wal.Info{Writer: t.Writer}, segment, scan)
	return t.archive.PutOpen(ctx, t.Claim.Lineage, segment, from, to, info, func(w io.Writer) error {
		_, err := io.Copy(w, io.NewSectionReader(f, from, to-from))
		return err
	})
}

// nothing is zeroes without an end.
type nothing struct{}

func (nothing) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// replacePieces removes what was shipped of a segment that is archived now. What is left by a failure does no harm: the whole
// segment comes before it, and goes with it.
func (a *Archiver) replacePieces(t *target, name string) {
	if _, err := postgres.ParseSegment(name, t.Claim.SegmentSize); err != nil || t.ShipInterval <= 0 {
		return
	}
	ctx, cancel := context.WithTimeout(t.ctx, shipTime)
	defer cancel()
	if err := t.archive.RemoveOpen(ctx, t.Claim.Lineage, name); err != nil && !errors.Is(err, context.Canceled) {
		a.log.Warn("the pieces of a segment that is archived can't be removed", "segment", name, "error", err)
	}
}
