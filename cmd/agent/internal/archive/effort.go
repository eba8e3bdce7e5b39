package archive

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/postgres"
)

// pace is what the last pushes spent their time with.
type pace struct {
	packing, sending time.Duration // sums, in which each push counts half as much as the one after it
}

// storeBound is how many times longer a push has to send than to pack before the store counts as what it waits for: a store on
// the same machine takes as long as a busy processor.
const storeBound = 4

func (p *pace) add(packing, sending time.Duration) {
	p.packing, p.sending = p.packing/2+packing, p.sending/2+sending
}

// waitsForStore says that fewer bytes are pushed sooner, whatever they cost the processor.
func (p *pace) waitsForStore() bool { return p.sending > storeBound*p.packing }

// effort is less while there is more to push than may be on its way, and the processor is what it waits for.
func (a *Archiver) effort(t *target) wal.Effort {
	a.mu.Lock()
	behind := a.behind
	a.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if behind && !t.pace.waitsForStore() {
		return wal.Hasty
	}
	return wal.Thorough
}

func (t *target) put(ctx context.Context, path, name string, effort wal.Effort) error {
	if err := t.claim(ctx); err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	began, packed := time.Now(), time.Time{}
	err = t.archive.PutFrom(ctx, t.Claim.Lineage, name, info.Size(), effort, func(w io.Writer) (wal.Info, error) {
		known, err := t.copy(w, io.LimitReader(f, info.Size()), name)
		packed = time.Now()
		return known, err
	})
	if err == nil && uint64(info.Size()) >= t.Claim.SegmentSize { // a few bytes tell nothing of either
		t.mu.Lock()
		defer t.mu.Unlock()
		t.pace.add(packed.Sub(began), time.Since(packed))
	}
	if errors.Is(err, wal.ErrConflict) && isPartial(name, t.Claim.SegmentSize) {
		return nil
	}
	return err
}

// isPartial: PostgreSQL never asks for such a file, and what counts of it is in the segment of the next timeline. Two instances that leave a
// timeline in the same segment have one each.
func isPartial(name string, segSize uint64) bool {
	file, err := postgres.ParseWALFile(name, segSize)
	return err == nil && file.Kind == postgres.WALPartial
}
